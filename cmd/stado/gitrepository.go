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

// exec gives the output of git as it is, also when git fails. The error is a [*gitError], the context's, or says that git cannot run.
func (g gitRepository) exec(ctx context.Context, c gitCall) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", g.dir}, c.args...)...)
	cmd.Stdin = bytes.NewReader(c.stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	// A caller that is itself a git hook must not lend us its repository.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GIT_DIR=") || strings.HasPrefix(v, "GIT_INDEX_FILE=") || strings.HasPrefix(v, "GIT_WORK_TREE=")
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	if c.env != "" {
		cmd.Env = append(cmd.Env, c.env)
	}
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

// blob is a file of a commit.
func (g gitRepository) blob(ctx context.Context, commit, path string) ([]byte, error) {
	out, err := g.exec(ctx, gitCall{args: []string{"cat-file", "blob", commit + ":" + path}})
	if err != nil {
		return nil, fmt.Errorf("commit %.12s has no file %s: %w", commit, path, err)
	}
	return out, nil
}

// whole fails when the history of a commit is not all here, as in a shallow clone: what a parent held is not known then.
func (g gitRepository) whole(ctx context.Context, commit string) error {
	text, err := g.exec(ctx, gitCall{args: []string{"cat-file", "commit", commit}})
	if err != nil {
		return err
	}
	head, _, _ := strings.Cut(string(text), "\n\n")
	for line := range strings.Lines(head) {
		parent, ok := strings.CutPrefix(line, "parent ")
		if !ok {
			continue
		}
		if _, err := g.run(ctx, "cat-file", "-e", strings.TrimSpace(parent)); err != nil {
			return fmt.Errorf("the history of %s ends at commit %.12s (fetch all of it: git fetch --unshallow, or fetch-depth: 0 in a workflow)", g.dir, commit)
		}
	}
	return nil
}
