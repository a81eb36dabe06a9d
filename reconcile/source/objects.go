package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/objfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// cacheBytes bounds the decoded objects kept in memory: trees and delta bases of one walk.
const cacheBytes = 16 << 20

// maxCommit bounds one commit object, whose message an author controls.
const maxCommit = 1 << 20

// openStore opens a bare repository directory. It reads nothing yet.
func openStore(dir string) *filesystem.Storage { return openObjects(newOwnFiles(dir)) }

// objectSize is an object's size by its header, without inflating it. Loose objects are looked at here, because the library leaves a
// descriptor open for each. Objects that are borrowed from another repository, which the library does not size, are read.
func objectSize(st *filesystem.Storage, hash plumbing.Hash) (int64, error) {
	name := hash.String()
	f, err := st.Filesystem().Open("objects/" + name[:2] + "/" + name[2:])
	if err == nil {
		size, err := looseSize(f)
		return size, errors.Join(err, f.Close())
	}
	size, err := st.EncodedObjectSize(hash)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		var o plumbing.EncodedObject
		if o, err = st.EncodedObject(plumbing.AnyObject, hash); err == nil {
			size = o.Size()
		}
	}
	return size, err
}

func looseSize(f io.Reader) (int64, error) {
	r, err := objfile.NewReader(f)
	if err != nil {
		return 0, err
	}
	_, size, err := r.Header()
	return size, errors.Join(err, r.Close())
}

// readCommit reads a commit after a look at its size.
func readCommit(st *filesystem.Storage, hash plumbing.Hash) (*object.Commit, error) {
	size, err := objectSize(st, hash)
	if err != nil {
		return nil, err
	}
	if size > maxCommit {
		return nil, failure(KindLimit, PhaseRead, "", "commit "+hash.String()+" has "+sayBytes(size)+" of text")
	}
	return object.GetCommit(st, hash)
}

// has reports whether the store holds a commit that can be read. A commit's pack is stored whole or not at all, so this says that its
// history came with it; damage done later shows when it is read.
func has(st *filesystem.Storage, hash plumbing.Hash) (bool, error) {
	_, err := readCommit(st, hash)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return false, nil
	}
	return err == nil, err
}

// storeFailure classes an error of reading or writing the store. What the operating system refuses is its own kind; everything else
// means that the store is not what it was when it was written.
func storeFailure(ctx context.Context, err error, phase string) error {
	if t, ok := taskFailure(err); ok {
		return t
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case errors.Is(err, syscall.EFBIG):
		return err // the sandbox's own limit, which it names itself
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), strings.Contains(err.Error(), "no space left on device"):
		return failure(KindNoSpace, phase, "", err.Error())
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return failure(KindPermission, phase, "", err.Error())
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return failure(KindInternal, phase, "", err.Error())
	}
	return failure(KindDamaged, phase, "", err.Error())
}

// sweep removes what killed writers leave in a store: unfinished packs, lock files, an index without its pack. The caller owns the
// store. It also refuses borrowed objects: nobody but us writes here, and we never borrow.
func sweep(dir string) error {
	packs := filepath.Join(dir, "objects", "pack")
	entries, err := os.ReadDir(packs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		base, isIndex := strings.CutSuffix(name, ".idx")
		stray := !strings.HasPrefix(name, "pack-")
		if isIndex && !stray {
			_, err := os.Lstat(filepath.Join(packs, base+".pack"))
			stray = errors.Is(err, fs.ErrNotExist)
		}
		if stray {
			if err := os.RemoveAll(filepath.Join(packs, name)); err != nil {
				return err
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "objects", "info", "alternates")); err == nil {
		return errors.New("the store borrows objects from another repository")
	}
	return sweepLocks(dir)
}

func sweepLocks(dir string) error {
	top, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range top {
		if strings.HasSuffix(e.Name(), ".lock") {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return filepath.WalkDir(filepath.Join(dir, "refs"), func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() && strings.HasSuffix(p, ".lock") {
			return os.Remove(p)
		}
		return err
	})
}

// packNames are the packs of a store: each fetch adds one and nothing ever joins them.
func packNames(dir string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(dir, "objects", "pack")) // none before the first fetch
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pack") {
			names = append(names, e.Name())
		}
	}
	return names
}

// shelf keeps what one fetch has read of a store for the next one of the same process: the indexes of its packs, which for a large registry
// take longer to read than a commit takes to fetch, and no open file. Fetches take turns. The zero value has nothing.
type shelf struct {
	dir   string
	packs []string
	st    *filesystem.Storage
}

// take opens a store, which is no longer on the shelf. One that has other packs than were left there is read anew.
func (s *shelf) take(dir string) *filesystem.Storage {
	st := s.st
	s.st = nil
	if st == nil || s.dir != dir || !slices.Equal(s.packs, packNames(dir)) {
		return openStore(dir)
	}
	return st
}

// put leaves a store of which everything is known that it holds.
func (s *shelf) put(dir string, st *filesystem.Storage) {
	s.dir, s.packs, s.st = dir, packNames(dir), st
}
