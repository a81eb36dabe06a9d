package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile holds the flock of the one agent of a state directory, and the holder's pid for the refusal of a second one.
const lockFile = "agent.lock"

// lock is the exclusive right to a state directory. The kernel drops it with the process, however that ends.
type lock struct{ file *os.File }

func acquire(home string) (*lock, error) {
	path := filepath.Join(home, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, sayHeld(home, readHolder(f))
		}
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write this process into %s: %w", path, err), f.Close())
	}
	return &lock{file: f}, nil
}

func readHolder(f *os.File) string {
	buf := make([]byte, 32)
	n, err := f.ReadAt(buf, 0)
	if pid := strings.TrimSpace(string(buf[:n])); pid != "" && (err == nil || errors.Is(err, io.EOF)) {
		return pid
	}
	return "unknown"
}

func (l *lock) release() error { return l.file.Close() }
