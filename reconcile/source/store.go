package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Names beside the store: what is being cloned, what was found damaged, and the file whose kernel lock says that somebody is at work.
// The lock dies with the process; the file stays and means nothing.
const (
	suffixNew     = ".new"
	suffixOld     = ".old"
	suffixDamaged = ".damaged"
	suffixLock    = ".lock"
)

// lock takes the store for one poll.
func (g *Git) lock() (unlock func(), err error) {
	f, err := os.OpenFile(g.opts.Store+suffixLock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, g.storeError(err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		_ = f.Close()
		return nil, &Error{Phase: PhaseStore, Remote: g.opts.Remote.URL, Kind: KindBusy, Cause: sayBusy(g.opts.Store), Err: err}
	}
	if err != nil {
		_ = f.Close()
		return nil, g.storeError(err)
	}
	// A plain close would not do: a process that is being started at this instant may still hold a copy of the descriptor.
	return func() { _ = errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close()) }, nil
}

// tidy removes what a killed poll left beside the store. A store that was on its way out when the process died is not missed.
func (g *Git) tidy() error {
	return errors.Join(os.RemoveAll(g.opts.Store+suffixNew), os.RemoveAll(g.opts.Store+suffixOld))
}

func (g *Git) missing() bool {
	_, err := os.Lstat(g.opts.Store)
	return errors.Is(err, fs.ErrNotExist)
}

// aside moves the store out of the way. One damaged store is kept for whoever wants to look at it.
func (g *Git) aside() error {
	if err := g.fault(FaultAside); err != nil {
		return err
	}
	damaged := g.opts.Store + suffixDamaged
	if err := os.RemoveAll(damaged); err != nil {
		return err
	}
	return os.Rename(g.opts.Store, damaged)
}

// clone replaces the store, or makes it, from the remote.
func (g *Git) clone(ctx context.Context, tip string) error {
	_, err := g.cloneTip(ctx, tip)
	return err
}

func (g *Git) cloneTip(ctx context.Context, tip string) (string, error) {
	fresh := g.opts.Store + suffixNew
	if err := g.fault(FaultClone); err != nil {
		return "", g.storeError(err)
	}
	if err := os.RemoveAll(fresh); err != nil {
		return "", g.storeError(err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return "", g.storeError(err)
	}
	reply, err := g.fetchInto(ctx, fresh, tip, Anchor{})
	tip = reply.Tip
	if err == nil {
		err = g.place(fresh)
	}
	if err != nil {
		_ = os.RemoveAll(fresh) // the next poll does it too
		return "", err
	}
	return tip, nil
}

// place moves a filled directory to the store's name. Between the two renames there is no store, which is the same as a deleted one.
func (g *Git) place(fresh string) error {
	if err := g.fault(FaultPlace); err != nil {
		return g.storeError(err)
	}
	old := g.opts.Store + suffixOld
	if !g.missing() {
		if err := os.Rename(g.opts.Store, old); err != nil {
			return g.storeError(err)
		}
	}
	if err := os.Rename(fresh, g.opts.Store); err != nil {
		return g.storeError(err)
	}
	if err := os.RemoveAll(old); err != nil {
		return g.storeError(err)
	}
	return nil
}

func (g *Git) fault(point string) error {
	if g.opts.Fault == nil {
		return nil
	}
	return g.opts.Fault(point)
}

// storeError is an error of this process about the store's directory.
func (g *Git) storeError(err error) error {
	kind := KindInternal
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = KindNoSpace
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		kind = KindPermission
	case errors.Is(err, fs.ErrNotExist):
		return &Error{
			Phase: PhaseStore, Remote: g.opts.Remote.URL, Kind: KindPermission, Err: err,
			Cause: "the directory " + filepath.Dir(g.opts.Store) + " for the store does not exist",
		}
	}
	return &Error{Phase: PhaseStore, Remote: g.opts.Remote.URL, Kind: kind, Cause: err.Error(), Err: err}
}
