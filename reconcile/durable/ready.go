package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Ready replaces one file of a folder again and again, and has the next temporary file open beforehand: a write succeeds although the
// process has no descriptor left to open one with. It is not safe for concurrent use. [Ready.Close] gives back what it holds.
type Ready struct {
	folder Folder
	name   string
	mode   os.FileMode
	sync   bool

	next *os.File // empty
	dir  *os.File // for sync only
}

// Ready makes a writer of name. With sync every write is like [Folder.Write], else like [Folder.Replace].
func (f Folder) Ready(name string, mode os.FileMode, sync bool) *Ready {
	return &Ready{folder: f, name: name, mode: mode, sync: sync}
}

// Prepare opens what the next write needs, as far as it is not open.
func (r *Ready) Prepare() error { return r.folder.explain(r.name, r.prepare()) }

func (r *Ready) prepare() error {
	if r.sync && r.dir == nil {
		dir, err := os.Open(r.folder.Path)
		if err != nil {
			return err
		}
		r.dir = dir
	}
	if r.next != nil {
		return nil
	}
	var err error
	r.next, err = r.folder.create(r.name)
	return err
}

// Write replaces the file.
func (r *Ready) Write(data []byte) error {
	err := r.write(data)
	if errors.Is(err, os.ErrNotExist) {
		err = r.write(data) // somebody removed the temporary file
	}
	return r.folder.explain(r.name, err)
}

func (r *Ready) write(data []byte) error {
	if err := r.prepare(); err != nil {
		return err
	}
	tmp := r.next
	r.next = nil
	if err := r.folder.replaceWith(r.name, tmp, [][]byte{data}, r.mode, r.sync); err != nil {
		return err
	}
	// The next one is opened while this one is: nobody can take the descriptor in between. With none left, this one's has to do. What
	// fails here is tried again, and told, by the next write.
	var ahead error
	r.next, ahead = r.folder.create(r.name)
	err := tmp.Close()
	if ahead != nil {
		r.next, _ = r.folder.create(r.name)
	}
	if err != nil || !r.sync {
		return err
	}
	if err := r.folder.fault(r.name, StepSyncDir); err != nil {
		return err
	}
	return r.dir.Sync()
}

// Close removes the temporary file. A later write opens another one.
func (r *Ready) Close() error {
	var err error
	if r.next != nil {
		err = discard(r.next)
		r.next = nil
	}
	if r.dir != nil {
		err = errors.Join(err, r.dir.Close())
		r.dir = nil
	}
	return r.folder.explain(r.name, err)
}

// discard takes a temporary file away.
func discard(tmp *os.File) error {
	err := os.Remove(tmp.Name())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(tmp.Close(), err)
}

// create opens a temporary file for name.
func (f Folder) create(name string) (*os.File, error) {
	if err := f.fault(name, StepCreate); err != nil {
		return nil, err
	}
	return os.CreateTemp(f.Path, "."+name+".*.tmp")
}

// replaceWith fills a temporary file and renames it over name; the caller closes it. After a failure it is gone.
func (f Folder) replaceWith(name string, tmp *os.File, data [][]byte, mode os.FileMode, sync bool) error {
	err := f.fill(name, tmp, data, mode, sync)
	if err == nil {
		err = f.fault(name, StepRename)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(f.Path, name))
	}
	if err != nil {
		return errors.Join(err, discard(tmp))
	}
	return nil
}
