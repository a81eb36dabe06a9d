package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// gitRepository runs the git binary in a directory of a repository, with the person's own configuration: identity, signing, remotes.
type gitRepository struct{ dir string }

// gitCall is one command line of git.
type gitCall struct {
	args  []string
	env   string // one more variable, NAME=value
	stdin []byte
}

// gitError is git's own refusal.
type gitError struct {
	verb, dir, stderr string
	code              int
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s failed in %s with exit status %d: %s", e.verb, e.dir, e.code, e.stderr)
}

// run gives the output of git without the space around it.
func (g gitRepository) run(ctx context.Context, args ...string) (string, error) {
	out, err := g.exec(ctx, gitCall{args: args})
	return trimmed(out), err
}

// command is git with a command line, in the repository.
func (g gitRepository) command(ctx context.Context, c gitCall) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", g.dir}, c.args...)...)
	// A caller that is itself a git hook must not lend us its repository.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GIT_DIR=") || strings.HasPrefix(v, "GIT_INDEX_FILE=") || strings.HasPrefix(v, "GIT_WORK_TREE=")
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	if c.env != "" {
		cmd.Env = append(cmd.Env, c.env)
	}
	return cmd
}

// exec gives the output of git as it is, also when git fails. The error is a [*gitError], the context's, or says that git cannot run.
func (g gitRepository) exec(ctx context.Context, c gitCall) ([]byte, error) {
	cmd := g.command(ctx, c)
	cmd.Stdin = bytes.NewReader(c.stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("git is not installed: a registry is a git repository (install the git package)")
	case errors.As(err, &exit):
		return out, &gitError{verb: c.args[0], dir: g.dir, stderr: strings.TrimSpace(stderr.String()), code: exit.ExitCode()}
	}
	return nil, fmt.Errorf("cannot run git %s in %s: %w", c.args[0], g.dir, err)
}
