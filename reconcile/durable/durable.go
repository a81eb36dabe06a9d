// Package durable replaces small files so that a reader, or a start after a crash at any instant, finds the old content or the new one
// and nothing between.
package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Folder writes files of one directory. The zero value with Path set is ready to use; it is safe for concurrent use on different names.
type Folder struct {
	Path string
	// Fault, when set, is called before every step with its name ("held.json:rename"); an error it returns is the step's own. Crash
	// tests kill the process in it. nil means no faults.
	Fault func(point string) error
}

// Steps of one write, in order, as [Folder.Fault] sees them behind the file's name.
const (
	StepCreate  = "create"
	StepWrite   = "write"
	StepSync    = "sync"
	StepRename  = "rename"
	StepSyncDir = "sync-dir"
)

// Write replaces name with data: temporary file in the same directory, fsync, rename, fsync of the directory. When it returns nil the
// data survives a crash of the machine; when it fails the old content stands and no temporary file is left.
func (f Folder) Write(name string, data []byte, mode os.FileMode) error {
	return f.WriteParts(name, [][]byte{data}, mode)
}

// WriteParts is [Folder.Write] for content that lies in pieces.
func (f Folder) WriteParts(name string, parts [][]byte, mode os.FileMode) error {
	return f.replace(name, parts, mode, true)
}

// Replace is [Folder.Write] without the fsyncs: readers never see a torn file, a crash of the machine may lose the change.
func (f Folder) Replace(name string, data []byte, mode os.FileMode) error {
	return f.replace(name, [][]byte{data}, mode, false)
}

func (f Folder) replace(name string, data [][]byte, mode os.FileMode, sync bool) error {
	return f.explain(name, f.steps(name, data, mode, sync))
}

// explain says which file an error is about.
func (f Folder) explain(name string, err error) error {
	if err == nil {
		return nil
	}
	// The temporary file's name says nothing to a person and is another one each time; the cause is what counts.
	var at *os.PathError
	if errors.As(err, &at) {
		err = fmt.Errorf("%s: %w", at.Op, at.Err)
	}
	return fmt.Errorf("cannot write %s: %w", filepath.Join(f.Path, name), err)
}

func (f Folder) steps(name string, data [][]byte, mode os.FileMode, sync bool) error {
	tmp, err := f.create(name)
	if err != nil {
		return err
	}
	if err := f.replaceWith(name, tmp, data, mode, sync); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	if err := f.fault(name, StepSyncDir); err != nil {
		return err
	}
	return SyncDir(f.Path)
}

func (f Folder) fill(name string, tmp *os.File, data [][]byte, mode os.FileMode, sync bool) error {
	if err := f.fault(name, StepWrite); err != nil {
		return err
	}
	if err := tmp.Chmod(mode); err != nil {
		return err
	}
	for _, part := range data {
		if _, err := tmp.Write(part); err != nil {
			return err
		}
	}
	if !sync {
		return nil
	}
	if err := f.fault(name, StepSync); err != nil {
		return err
	}
	return tmp.Sync()
}

func (f Folder) fault(name, step string) error {
	if f.Fault == nil {
		return nil
	}
	return f.Fault(name + ":" + step)
}

// Sweep removes temporary files that a killed writer left behind. Only the owner of the directory may call it, before it writes. What is
// not a plain file is none of them, whatever its name.
func (f Folder) Sweep() error {
	entries, err := os.ReadDir(f.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		if err := os.Remove(filepath.Join(f.Path, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// SyncDir makes the names in a directory survive a crash of the machine.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadJSON reads a file into v. The error names the file; it wraps [os.ErrNotExist] when there is none.
func ReadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s cannot be read: %w", path, err)
	}
	return nil
}
