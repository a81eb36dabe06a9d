package sandbox

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// child is the parent's view of one running child. One goroutine at a time asks it.
type child struct {
	cmd            *exec.Cmd
	requests       *net.UnixConn // our ends
	stdout, stderr *os.File

	mu     sync.Mutex // guards reaped: a signal may only be sent while the process id is still ours
	reaped bool

	done  chan struct{} // closed when the process is reaped and nothing of it is left; guards words
	words stderrEnds
}

// start starts the process, which done waits for.
func (c *child) start() error {
	theirs, err := c.connect()
	started := make(chan error, 1)
	if err == nil {
		go c.own(started) // joined by end
		err = <-started
	}
	for _, f := range theirs {
		_ = f.Close() // the child has its own copies
	}
	if err != nil {
		c.disconnect()
	}
	return err
}

func (c *child) connect() (theirs []*os.File, err error) {
	ours, in, err := SocketPair()
	if err != nil {
		return nil, err
	}
	c.requests, theirs = ours, append(theirs, in)
	for _, f := range []**os.File{&c.stdout, &c.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		*f, theirs = r, append(theirs, w)
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	return theirs, nil
}

func (c *child) disconnect() {
	if c.requests != nil {
		_ = c.requests.Close()
	}
	for _, f := range []*os.File{c.stdout, c.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// own starts the process and sees to its end. The parent-death signal belongs to the thread that forks, so that thread lives as long as
// the child.
func (c *child) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.cmd.Start(); err != nil {
		started <- err
		return
	}
	var words sync.WaitGroup
	words.Go(func() { _, _ = io.Copy(&c.words, c.stderr) })
	close(started)

	c.awaitExit()
	c.kill() // whatever the child has started and left behind
	c.mu.Lock()
	c.reaped = true
	_ = c.cmd.Wait() // how it ended is in its state
	c.mu.Unlock()
	deadline := time.Now().Add(grace)
	for _, f := range []*os.File{c.stdout, c.stderr} {
		_ = f.SetReadDeadline(deadline)
	}
	words.Wait()
	close(c.done)
}

// end makes an end of the child and of all that it started.
func (c *child) end() {
	c.kill()
	<-c.done
	c.disconnect()
}

// grace is how long the pipes may stay open after every process of the group is dead: only an escaped process can hold them.
const grace = 5 * time.Second

// awaitExit returns when the child has ended but is not reaped, so that its process group can still be signalled safely.
func (c *child) awaitExit() {
	for {
		err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// kill ends the whole process group: a git process that the child started must not live on.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
	}
}

// SocketPair is a connection of this process and its other end, for a child: as its stdin here, or as one of [Runner.Files]. The caller closes
// both; the child has its own copy.
func SocketPair() (ours *net.UnixConn, theirs *os.File, _ error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	mine := os.NewFile(uintptr(fds[0]), "socket")
	theirs = os.NewFile(uintptr(fds[1]), "socket")
	conn, err := net.FileConn(mine)
	_ = mine.Close() // the connection has its own descriptor
	ours, ok := conn.(*net.UnixConn)
	if err == nil && !ok {
		err = errors.ErrUnsupported
	}
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}
