package adapter

import (
	"errors"

	"golang.org/x/sys/unix"
)

// pipeSize is what one splice moves at most. It is asked for and not insisted on: users have a limit on pipe memory.
const pipeSize = 256 << 10

// pipe carries bytes from socket to socket inside the kernel.
type pipe struct{ r, w int }

func newPipe() (*pipe, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize)
	return &pipe{r: fds[0], w: fds[1]}, nil
}

func (p *pipe) close() {
	_ = unix.Close(p.r)
	_ = unix.Close(p.w)
}

// in moves what the socket has into the empty pipe. EAGAIN says that the socket has nothing.
func (p *pipe) in(fd int) (int, error) {
	n, err := unix.Splice(fd, nil, p.w, nil, pipeSize, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
	return int(n), err
}

// out moves up to n bytes from the pipe into the socket.
func (p *pipe) out(fd, n int) (int, error) {
	moved, err := unix.Splice(p.r, nil, fd, nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
	return int(moved), err
}

// spliceIn takes bytes into a pipe. handled is false when there is no pipe to be had, or the kernel cannot splice from this socket; the
// caller then reads.
func (d *direction) spliceIn(fd int) (done, handled bool) {
	if d.pipe = d.shared.pipes.take(); d.pipe == nil {
		return false, false
	}
	for {
		n, err := d.pipe.in(fd)
		switch {
		case err == nil:
			d.n = n
			return true, true
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			d.release()
			return false, true
		case errors.Is(err, unix.EINVAL):
			d.release()
			d.noSplice = true
			return false, false
		}
		d.err = err
		d.release()
		return true, true
	}
}
