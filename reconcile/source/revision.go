package source

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// commitID is the full id of the commit that a revision of a local repository names. git itself resolves it: the library takes what it
// does not know in a revision, such as a path or @{upstream}, for nothing. Where git cannot say, as without a repository, the revision
// is given back as it is, and the child says what is wrong there.
func commitID(ctx context.Context, dir, rev string) (string, error) {
	// Where the repository is, is dir's to say; a hook's environment is about another one. Reading a name runs nothing of the repository's
	// own, so that it may belong to anybody.
	r := Repository{Dir: dir, Env: slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })}
	ask := func(args ...string) (string, error) {
		return r.output(ctx, append([]string{"-c", "safe.directory=*"}, args...)...)
	}
	const verify, no = "rev-parse --verify --quiet --end-of-options", 1
	id, err := ask(append(strings.Fields(verify), rev)...)
	object := id
	if err == nil {
		id, err = ask(append(strings.Fields(verify), object+"^{commit}")...)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return id, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case kindOf(err) == KindNoGit:
		return "", err
	case !errors.As(err, &exit) || exit.ExitCode() != no:
		return rev, nil
	}
	e := &Error{Phase: PhaseRead, Remote: dir, Kind: KindRevision, Cause: "there is no revision " + rev, Err: err}
	if kind, err := ask("cat-file", "-t", object); err == nil && object != "" && kind != "commit" {
		e.Cause = rev + " names a " + kind + ", which is no commit"
	} else if cut, err := ask("rev-parse", "--is-shallow-repository"); err == nil && cut == "true" {
		e.Kind, e.Cause = KindShallow, e.Cause+" here: the history of this clone is cut off"
	}
	return "", e
}

// resolved is a commit id that [commitID] gave, in the child.
func resolved(dir, id string) (plumbing.Hash, error) {
	if !plumbing.IsHash(id) {
		return plumbing.ZeroHash, failure(KindRevision, PhaseRead, dir, "there is no revision "+id)
	}
	return plumbing.NewHash(id), nil
}
