package change

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

// runner runs the installed git in one repository. Reading and writing a person's own repository is git's business, with the person's
// own configuration: identity, signing, credentials, ssh.
type runner struct {
	dir string
	env []string // added to the process's own
}

// gitError is a run of git that failed.
type gitError struct {
	verb   string
	code   int
	stdout string
	words  string // what it said on stderr
}

func (e *gitError) Error() string {
	words := e.words
	if words == "" {
		words = fmt.Sprintf("exit status %d", e.code)
	}
	return fmt.Sprintf("git %s: %s", e.verb, words)
}

// run gives stdout as it is.
func (r runner) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", r.dir}, args...)...)
	// A caller that is itself a git hook must not lend us its repository; nobody is there to type a password.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), foreign), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	cmd.Env = append(cmd.Env, r.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New(sayNoGit)
	case errors.As(err, &exit):
		return nil, &gitError{verb: verb(args), code: exit.ExitCode(), stdout: stdout.String(), words: strings.TrimSpace(stderr.String())}
	}
	return nil, fmt.Errorf("git %s: %w", verb(args), err)
}

// line gives stdout without the white space around it.
func (r runner) line(ctx context.Context, args ...string) (string, error) {
	out, err := r.run(ctx, nil, args...)
	return strings.TrimSpace(string(out)), err
}

// says is line for questions that git answers by failing: then it is empty.
func (r runner) says(ctx context.Context, args ...string) string {
	out, err := r.line(ctx, args...)
	if err != nil {
		return ""
	}
	return out
}

func foreign(v string) bool {
	name, _, _ := strings.Cut(v, "=")
	return slices.Contains([]string{"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE"}, name)
}

// verb is the first argument that is not an option of git itself.
func verb(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-c":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}
	return ""
}
