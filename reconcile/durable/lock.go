package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// LockFile is the file in a folder whose flock [Folder.Lock] takes. It is empty and stays.
const LockFile = ".lock"

// LockPatience is how long [Folder.Lock] waits. A holder writes for some milliseconds; one that is stopped, or stands on a disk that does
// not answer, must not take others with it.
const LockPatience = 5 * time.Second

// ErrLocked is wrapped by the error of a [Folder.Lock] that was not given in time.
var ErrLocked = errors.New("another process holds it")

const lockPause = 5 * time.Millisecond

// Lock waits until no other process, and no other holder in this one, writes in the folder, and keeps them away until unlock. Whoever
// holds it may call [Folder.Sweep]. A holder that is killed holds it no longer. The error names the file.
func (f Folder) Lock() (unlock func() error, err error) {
	path := filepath.Join(f.Path, LockFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(LockPatience); ; time.Sleep(lockPause) {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return file.Close, nil
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", path, err), file.Close())
		case !time.Now().Before(end):
			return nil, errors.Join(fmt.Errorf("cannot lock %s within %s: %w (find it: fuser %s)", path, LockPatience, ErrLocked, path), file.Close())
		}
	}
}
