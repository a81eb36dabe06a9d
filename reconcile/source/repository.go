package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"stado.internal/stado/fleet"
)

// Repository is a git repository of this machine, read with the installed git. The library reads neither the index of every kind of
// checkout nor the objects that a push brings, which git hides in quarantine until its hooks have agreed; git itself reads both. Its
// output is data of strangers: it is read under bounds, and evaluated in the child like everything else.
type Repository struct {
	// Dir is where git runs: the repository, or a directory of its work tree.
	Dir string
	// Env is git's environment, which in a hook names the quarantine and the index.
	Env []string
}

// Chain lists the commits of the first-parent chain of new that descend from old, oldest first and without it, and reports whether there
// are more than limit of them; then it lists none.
func (r Repository) Chain(ctx context.Context, old, new string, limit int) (chain []string, more bool, err error) {
	out, err := r.output(ctx, "rev-list", "--first-parent", "--ancestry-path", "--max-count="+strconv.Itoa(limit+1), new, "^"+old)
	if err != nil {
		return nil, false, err
	}
	chain = strings.Fields(out)
	if len(chain) > limit {
		return nil, true, nil
	}
	slices.Reverse(chain)
	return chain, false, nil
}

// Descends reports whether new is old or has it among its ancestors.
func (r Repository) Descends(ctx context.Context, old, new string) (bool, error) {
	return r.holds(ctx, "merge-base", "--is-ancestor", old, new)
}

// Staged reports whether the index differs from HEAD in any CUE file below the directory; true when there is no HEAD yet.
func (r Repository) Staged(ctx context.Context) (bool, error) {
	head, err := r.HasHead(ctx)
	if err != nil || !head {
		return err == nil, err
	}
	same, err := r.holds(ctx, "diff-index", "--cached", "--quiet", "HEAD", "--", ":(glob)**/*.cue")
	return !same, err
}

// HasHead reports whether HEAD is a commit: it is not before the first one.
func (r Repository) HasHead(ctx context.Context) (bool, error) {
	return r.holds(ctx, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
}

// Prefix is the directory's path inside the work tree, with a slash behind it; empty for its top, and in a bare repository.
func (r Repository) Prefix(ctx context.Context) (string, error) {
	return r.output(ctx, "rev-parse", "--show-prefix")
}

// holds runs a git command that answers by its exit status: 0 yes, 1 no.
func (r Repository) holds(ctx context.Context, args ...string) (bool, error) {
	_, err := r.output(ctx, args...)
	var e *exec.ExitError
	if errors.As(err, &e) && e.ExitCode() == 1 {
		return false, nil
	}
	return err == nil, err
}

// maxAnswer bounds what git may say to a question that has a short answer.
const maxAnswer = 1 << 20

func (r Repository) output(ctx context.Context, args ...string) (string, error) {
	var out string
	err := r.stream(ctx, nil, func(stdout io.Reader) error {
		data, err := io.ReadAll(io.LimitReader(stdout, maxAnswer+1))
		if err == nil && len(data) > maxAnswer {
			err = fmt.Errorf("git %s says more than %s", args[0], sayBytes(maxAnswer))
		}
		out = strings.TrimRight(string(data), "\n")
		return err
	}, args...)
	return out, err
}

// errEnough ends the reading of a git command whose further output is not wanted.
var errEnough = errors.New("enough")

// stream runs git and gives its stdout to read, which may stop it with [errEnough]. git is gone when stream returns.
func (r Repository) stream(ctx context.Context, stdin io.Reader, read func(stdout io.Reader) error, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	var words bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stderr, cmd.WaitDelay = r.Dir, stdin, &words, time.Second
	cmd.Env = append(slices.Clone(r.Env), "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return r.failure(err, "")
	}
	err = read(stdout)
	if err != nil {
		cancel() // git must not wait for a reader
	}
	ended := cmd.Wait()
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err != nil:
		return r.failure(err, "")
	case ended != nil:
		return r.failure(ended, words.String())
	}
	return nil
}

func (r Repository) failure(err error, words string) error {
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	first, _, _ := strings.Cut(strings.TrimSpace(words), "\n")
	e := &Error{Phase: PhaseRead, Remote: r.Dir, Kind: KindDamaged, Cause: fleet.OneLine(first, 300), Err: err}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, exec.ErrNotFound):
		e.Kind, e.Cause = KindNoGit, "the git program is not installed"
	case strings.Contains(words, "dubious ownership"):
		e.Kind, e.Cause = KindOwnership, "git refuses a repository that belongs to another user"
	case strings.Contains(words, "not a git repository"):
		e.Kind, e.Cause = KindNotFound, "there is no git repository"
	case first == "":
		e.Cause = err.Error()
	}
	return e
}

// entry is one file, or one directory of a commit, as git lists it.
type entry struct {
	mode, hash, path string
	unmerged         bool
}

// index lists what a commit made now would hold below the directory.
func (r Repository) index(ctx context.Context) ([]entry, error) {
	return r.list(ctx, func(meta []string) (entry, bool) {
		if len(meta) != 3 {
			return entry{}, false
		}
		return entry{mode: meta[0], hash: meta[1], unmerged: meta[2] != "0"}, true
	}, "ls-files", "--stage", "-z")
}

// tree lists what a commit holds, directories included, below a path with a slash behind it or none.
func (r Repository) tree(ctx context.Context, commit, path string) ([]entry, error) {
	return r.list(ctx, func(meta []string) (entry, bool) {
		if len(meta) != 3 {
			return entry{}, false
		}
		return entry{mode: meta[0], hash: meta[2]}, true
	}, "ls-tree", "-r", "-t", "-z", "--full-tree", commit+":"+strings.TrimSuffix(path, "/"))
}

// maxPath bounds one line of a listing: the deepest path that git itself can check out has 4,096 bytes.
const maxPath = 64 << 10

func (r Repository) list(ctx context.Context, parse func(meta []string) (entry, bool), args ...string) ([]entry, error) {
	var out []entry
	err := r.stream(ctx, nil, func(stdout io.Reader) error {
		lines := nulScanner(stdout)
		for lines.Scan() {
			meta, path, ok := strings.Cut(lines.Text(), "\t")
			e, known := parse(strings.Fields(meta))
			if !ok || !known {
				return fmt.Errorf("git %s says %s, which is no entry", args[0], printable(lines.Text()))
			}
			e.path = path
			if out = append(out, e); len(out) > maxEntries {
				return errEnough // the gate refuses so many
			}
		}
		return lines.Err()
	}, args...)
	return out, err
}

// nulScanner takes apart what git ends with NUL bytes.
func nulScanner(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxPath)
	s.Split(splitNUL)
	return s
}

func splitNUL(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}
