package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// LockFile is the file in a folder whose flock [Folder.Lock] takes. It is empty and stays.
const LockFile = ".lock"

// Lock waits until no other process, and no other holder in this one, writes in the folder, and keeps them away until unlock. Whoever
// holds it may call [Folder.Sweep]. A holder that is killed holds it no longer. The error names the file.
func (f Folder) Lock() (unlock func() error, err error) {
	path := filepath.Join(f.Path, LockFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", path, err), file.Close())
	}
	return file.Close, nil
}
