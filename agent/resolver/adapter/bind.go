package adapter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"

	"stado.internal/stado/fleet"
)

// Listen binds an address; it is the shape of [net.ListenConfig.Listen].
type Listen func(ctx context.Context, network, address string) (net.Listener, error)

// DefaultMode is the permission of a unix socket whose adapter declares none.
const DefaultMode fs.FileMode = 0o600

// ParseMode reads the mode of an adapter; empty is [DefaultMode].
func ParseMode(octal string) (fs.FileMode, error) {
	if octal == "" {
		return DefaultMode, nil
	}
	n, err := strconv.ParseUint(octal, 8, 32)
	if err != nil || n > 0o777 {
		return 0, fmt.Errorf("mode %q is not a permission in octal (write 0600 or 0660)", octal)
	}
	return fs.FileMode(n), nil
}

// Bind listens on an address of the registry. A unix socket appears with its mode from the first instant, and takes the place of the
// socket of a dead process but never of a live one's, nor of anything else. with may be nil.
func Bind(ctx context.Context, b fleet.Bind, mode fs.FileMode, with Listen) (net.Listener, error) {
	if with == nil {
		config := net.ListenConfig{KeepAlive: -1} // clients on other machines get their own
		if b.Network == "unix" {
			config.Control = fileMode(mode)
		}
		with = config.Listen
	}
	if b.Network != "unix" {
		return with(ctx, b.Network, b.Address)
	}
	if err := clearStale(ctx, b.Address); err != nil {
		return nil, err
	}
	l, err := with(ctx, b.Network, b.Address)
	if err != nil {
		return nil, err
	}
	// The umask may have taken bits that the registry grants.
	if err := os.Chmod(b.Address, mode); err != nil {
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
