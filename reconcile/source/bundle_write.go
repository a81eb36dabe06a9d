package source

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/revlist"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"stado.internal/stado/reconcile/sandbox"
)

// Bundle is a git bundle that was written.
type Bundle struct {
	Commit  string `json:"commit"`          // the tip of its branch
	Since   string `json:"since,omitempty"` // the commit that its reader must have; empty when the whole history is in it
	Objects int    `json:"objects"`
}

// bundleRequest asks for the history of a commit, as a file.
type bundleRequest struct {
	Dir    string `json:"dir"`
	Commit string `json:"commit"`
	Since  string `json:"since,omitempty"`
	Branch string `json:"branch"`
	File   string `json:"file"`
}

// Bundle writes the history of a revision of the repository in dir to a new file, as a git bundle that calls it branch. With since, only
// what that revision does not reach; whoever reads the bundle must have it then. An existing file is replaced when the new one is whole,
// and nothing is left beside it, also when the child is killed in the middle.
func (e Evaluator) Bundle(ctx context.Context, dir, rev, since, branch, file string) (out Bundle, err error) {
	request := bundleRequest{Branch: branch}
	if request.Dir, err = filepath.Abs(dir); err != nil {
		return Bundle{}, &Error{Phase: PhaseRead, Remote: dir, Kind: KindNotFound, Cause: err.Error(), Err: err}
	}
	if request.Commit, err = commitID(ctx, request.Dir, rev); err != nil {
		return Bundle{}, err
	}
	if since != "" {
		if request.Since, err = commitID(ctx, request.Dir, since); err != nil {
			return Bundle{}, err
		}
	}
	if file, err = filepath.Abs(file); err != nil {
		return Bundle{}, fmt.Errorf("cannot write the bundle: %w", err)
	}
	fresh, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*.tmp")
	if err != nil {
		return Bundle{}, fmt.Errorf("cannot write the bundle: %w", err)
	}
	request.File = fresh.Name()
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(request.File))
		}
	}()
	if err := errors.Join(fresh.Chmod(0o644), fresh.Close()); err != nil {
		return Bundle{}, fmt.Errorf("cannot write the bundle: %w", err)
	}
	kept := e.Kept
	if kept == nil {
		kept = &sandbox.Keeper{} // which keeps nothing
	}
	var last sandbox.Progress
	if err := kept.Run(ctx, e.Runner, taskBundle, request, &out, func(p sandbox.Progress) { last = p }); err != nil {
		return Bundle{}, asError(err, request.Dir, last)
	}
	if err := os.Rename(request.File, file); err != nil {
		return Bundle{}, fmt.Errorf("cannot write the bundle: %w", err)
	}
	return out, nil
}

// bundle runs in the child only: a history may hold objects of any size, which no registry was ever made of.
func bundle(_ context.Context, r bundleRequest, p func(sandbox.Progress)) (Bundle, error) {
	p(sandbox.Progress{Phase: PhaseRead, File: r.Dir})
	st, _, err := openLocal(r.Dir)
	if err != nil {
		return Bundle{}, err
	}
	var out Bundle
	tip, err := resolved(r.Dir, r.Commit)
	if err != nil {
		return out, err
	}
	out.Commit = tip.String()
	var base []plumbing.Hash
	if r.Since != "" {
		h, err := resolved(r.Dir, r.Since)
		if err != nil {
			return out, err
		}
		out.Since, base = h.String(), []plumbing.Hash{h}
	}
	held, err := revlist.Objects(st, base, nil)
	if err == nil {
		var objects []plumbing.Hash
		if objects, err = revlist.Objects(st, []plumbing.Hash{tip}, held); err == nil {
			out.Objects = len(objects)
			err = writeBundle(r, out, st, objects)
		}
	}
	if err != nil {
		return Bundle{}, localFailure(err, r.Dir)
	}
	return out, nil
}

// writeBundle fills the file that the parent has made.
func writeBundle(r bundleRequest, b Bundle, st *filesystem.Storage, objects []plumbing.Hash) error {
	f, err := os.OpenFile(r.File, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	fmt.Fprintf(w, "# v2 git bundle\n") // a failed write shows at Flush
	if b.Since != "" {
		fmt.Fprintf(w, "-%s\n", b.Since)
	}
	fmt.Fprintf(w, "%s %s\n\n", b.Commit, plumbing.NewBranchReferenceName(r.Branch))
	_, err = packfile.NewEncoder(w, st, false).Encode(objects, 10)
	return errors.Join(err, w.Flush(), f.Sync(), f.Close())
}
