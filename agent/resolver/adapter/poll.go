package adapter

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// poll returns which of the events a socket shows now, and those that nobody has to ask for. The error says that the descriptor is
// closed. Signals, which the Go runtime sends to its own threads, interrupt even a poll that does not wait; they must pass for nothing:
// who takes an error for a closed end would drop a living client.
func poll(raw syscall.RawConn, events int16) (int16, error) {
	asked := []unix.PollFd{{Events: events}}
	var failed error
	err := raw.Control(func(fd uintptr) {
		asked[0].Fd = int32(fd)
		_, failed = unix.Poll(asked, 0)
		for errors.Is(failed, unix.EINTR) {
			_, failed = unix.Poll(asked, 0)
		}
	})
	return asked[0].Revents, errors.Join(err, failed)
}

// waitedFor reports whether a client waits to be accepted. Linux takes the descriptor before it looks for a client (accept4), so a full
// table makes accept fail also when nobody is turned away. A listener that cannot be asked counts as waited for.
func waitedFor(l net.Listener) bool {
	c, ok := l.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	events, err := poll(raw, unix.POLLIN)
	return err != nil || events != 0
}
