package adapter

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

func bindUnix(ctx context.Context, path string, mode fs.FileMode, with Listen) (net.Listener, error) {
	// A socket that is bound and does not listen yet looks like a dead one, so whoever binds keeps others from looking.
	unlock, err := lockSocket(path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := clearStale(ctx, path); err != nil {
		return nil, err
	}
	if with != nil {
		l, err := with(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		return closeOnError(l, widen(path, mode))
	}
	config := net.ListenConfig{Control: fileMode(mode)}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	s := &socket{UnixListener: l.(*net.UnixListener), path: path}
	if s.file, err = os.Lstat(path); err == nil {
		s.SetUnlinkOnClose(false) // it would remove whatever stands there then
		err = widen(path, mode)
	}
	return closeOnError(s, err)
}

func closeOnError(l net.Listener, err error) (net.Listener, error) {
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// fileMode sets the permission of the socket before it is bound: the file takes it over, and nobody can connect in between.
func fileMode(mode fs.FileMode) func(_, _ string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var inner error
		err := c.Control(func(fd uintptr) { inner = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
		return errors.Join(err, inner)
	}
}

// widen grants what the umask took from a mode.
func widen(path string, mode fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() == mode {
		return err
	}
	return os.Chmod(path, mode)
}

// socket is a listener whose file goes with it, unless it is another's by then.
type socket struct {
	*net.UnixListener
	path string
	file fs.FileInfo
	once sync.Once
}

// Close removes the file first: as long as the socket is open, no other file can have its number.
func (s *socket) Close() error {
	s.once.Do(s.unlink)
	return s.UnixListener.Close()
}

// unlink leaves the file when it cannot be sure: whoever binds next finds it dead and removes it.
func (s *socket) unlink() {
	unlock, err := lockSocket(s.path)
	if err != nil {
		return
	}
	defer unlock()
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
		_ = os.Remove(s.path)
	}
}

// lockSocket keeps every other process that binds or unbinds the path away. It does not wait: somebody who stopped in the middle must
// not stop this process, and what is not bound is tried again.
func lockSocket(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = syscall.EADDRINUSE
		}
		return nil, err
	}
	return func() { _ = f.Close() }, nil // the lock goes with the descriptor; the file stays, for removing it would let two hold it
}

// clearStale removes the socket of a process that is gone. Whether it is gone is asked of the kernel, by connecting.
func clearStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errNotSocket
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // it only had to answer
		return syscall.EADDRINUSE
	case errors.Is(err, syscall.EAGAIN): // alive, with a full queue
		return syscall.EADDRINUSE
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return err
}

var errNotSocket = errors.New("something that is not a socket stands at that path")
