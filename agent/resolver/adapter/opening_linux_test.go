package adapter

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stado.internal/stado/agent/status"
)

// A dial that does not answer stands in the list as phase open, until its client leaves.
func TestOpeningIsAbandoned(t *testing.T) {
	g := newRig(t, rigOptions{unserved: true}, nil)
	defer g.fillQueue().Close()
	c := g.dial()
	g.until("the dial stands, and was looked at", func() bool {
		list := g.relays.Waits()
		return len(list) == 1 && time.Since(list[0].Since) > 2*sweep
	})
	if w := g.relays.Waits()[0]; w.Phase != status.PhaseOpen || w.Client != c.LocalAddr().String() {
		t.Errorf("%+v", w)
	}
	_ = c.Close()
	g.until("the place is given back", func() bool { return g.waits() == 0 })
	g.until("the abandoned sentence", func() bool {
		return g.log.has("abandoned by its client before an answer; the channel is closed; 0 open(s) still waiting")
	})
}

// fillQueue leaves the service, which accepts nobody, without room for another connection: whoever dials it gets no answer.
func (g *rig) fillQueue() net.Conn {
	g.t.Helper()
	raw, err := g.service.(syscall.Conn).SyscallConn()
	if err != nil {
		g.t.Fatal(err)
	}
	control := func(f func(fd int) error) {
		if cerr := raw.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil || err != nil {
			g.t.Fatal(cerr, err)
		}
	}
	control(func(fd int) error { return unix.Listen(fd, 0) }) // which still takes one
	c, err := net.Dial("tcp", g.service.Addr().String())
	if err != nil {
		g.t.Fatal(err)
	}
	g.until("the one is in the queue", func() bool {
		var info *unix.TCPInfo
		control(func(fd int) (err error) {
			info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			return err
		})
		return info.Unacked == 1 // of a socket that listens: the length of its queue
	})
	return c
}
