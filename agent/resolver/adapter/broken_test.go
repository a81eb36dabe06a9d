package adapter

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"stado.internal/stado/agent/resolver/wait"
	"stado.internal/stado/fleet"
)

// What a broken stream looks like from its other end: bytes that were accepted either arrive, or their loss is seen.

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// upload is what a service read, and how that ended.
type upload struct {
	n   int64
	err error
}

// late reads an upload when told to.
func late(greeting string, begin <-chan struct{}, read chan<- upload) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, greeting)
		<-begin
		n, err := io.Copy(io.Discard, c)
		read <- upload{n, err}
		_ = c.Close()
	}
}

// stands reports whether an upload waits for its service to read.
func (g *rig) stands() bool {
	g.relays.mu.Lock()
	defer g.relays.mu.Unlock()
	for m := range g.relays.members {
		if blocked(m.stands.Load()) {
			return true
		}
	}
	return false
}

// fill sends until the service's end takes no more, and a little after it; all of it is in the hands of the relay then.
func (g *rig) fill(c net.Conn) (n int64) {
	g.t.Helper()
	chunk := make([]byte, 32<<10)
	more := func(size int) {
		m, err := c.Write(chunk[:size])
		if n += int64(m); err != nil {
			g.t.Fatal(err)
		}
	}
	g.until("the upload stands", func() bool {
		if g.stands() {
			return true
		}
		more(len(chunk))
		return false
	})
	more(4 << 10)
	return n
}

// A client that leaves while the service does not read its upload is found although nothing can be read from it. The seed abandons its
// request, and the service must not take the part that it got for the whole. A unix socket knows no reset, so there the rest goes up.
func TestClientDiesBehindAnUploadThatStands(t *testing.T) {
	for _, o := range networks {
		t.Run(o.String(), func(t *testing.T) {
			t.Parallel()
			begin, read := make(chan struct{}), make(chan upload, 1)
			g := newRig(t, o, late("", begin, read))
			readNow := sync.OnceFunc(func() { close(begin) })
			defer readNow()
			c := g.dial()
			sent := g.fill(c)
			g.until("the upload waits for its answer", func() bool { return g.waits() == 1 })
			_ = c.Close()
			g.until("the place is given back", func() bool { return g.waits() == 0 })
			g.until("the abandoned sentence", func() bool {
				return g.log.has("abandoned by its client before an answer; the channel is closed; 0 open(s)")
			})
			if o.endpoint == "tcp" {
				g.until("the relay is over", func() bool { return g.relays.Stats().Relays == 0 })
			}
			readNow()
			got := <-read
			switch {
			case o.endpoint == "tcp" && !errors.Is(got.err, syscall.ECONNRESET):
				t.Errorf("the service read %d of %d bytes, then %v", got.n, sent, got.err)
			case o.endpoint == "unix" && (got.n != sent || got.err != nil):
				t.Errorf("the service read %d of %d bytes, then %v", got.n, sent, got.err)
			}
			g.until("the relay is over", func() bool { return g.relays.Stats().Relays == 0 })
		})
	}
}

// Once an answer began, whatever a client sent before it closed still goes up, however late it is read.
func TestUploadOutlivesItsClient(t *testing.T) {
	for _, o := range networks {
		t.Run(o.String(), func(t *testing.T) {
			t.Parallel()
			begin, read := make(chan struct{}), make(chan upload, 1)
			g := newRig(t, o, late("hello", begin, read))
			readNow := sync.OnceFunc(func() { close(begin) })
			defer readNow()
			c := g.dial()
			receive(t, c, "hello")
			sent := g.fill(c)
			_ = c.Close()
			g.until("the client is known as gone", func() bool { return g.orphans() == 1 })
			if g.waits() != 0 {
				t.Error("it keeps a place")
			}
			readNow()
			if got := <-read; got.n != sent || got.err != nil {
				t.Errorf("the service read %d of %d bytes, then %v", got.n, sent, got.err)
			}
			g.until("the relay is over", func() bool { return g.relays.Stats().Relays == 0 })
		})
	}
}

// An answer that nobody reads any more does not cost the upload.
func TestUploadOutlivesAnAnswerThatNobodyReads(t *testing.T) {
	for _, o := range networks {
		t.Run(o.String(), func(t *testing.T) {
			t.Parallel()
			begin, read := make(chan struct{}), make(chan upload, 1)
			g := newRig(t, o, func(c net.Conn) {
				<-begin
				_, _ = io.Copy(struct{ io.Writer }{c}, io.LimitReader(zeros{}, 8<<20))
				late("", begin, read)(c)
			})
			readNow := sync.OnceFunc(func() { close(begin) })
			defer readNow()
			c := g.dial()
			sent := g.fill(c)
			if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			readNow()
			receive(t, c, "\x00")
			_ = c.Close()
			// A unix socket whose peer left bytes unread reports a reset, and that is passed on. TCP got the client's end before its reset.
			got := <-read
			if got.n != sent && (o.bind == "tcp" || got.err == nil && o.endpoint == "tcp") {
				t.Errorf("the service read %d of %d bytes, then %v", got.n, sent, got.err)
			}
			g.until("the relay is over", func() bool { return g.relays.Stats().Relays == 0 })
		})
	}
}

// orphans counts the relays without a client.
func (g *rig) orphans() (n int) {
	g.relays.mu.Lock()
	defer g.relays.mu.Unlock()
	for m := range g.relays.members {
		if m.idleOrphan() {
			n++
		}
	}
	return n
}

// A reset in the middle of an answer is passed on: the client must not take a part for the whole.
func TestServiceResets(t *testing.T) {
	g := newRig(t, rigOptions{}, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 4))
		send(t, c, "half")
		_, _ = io.ReadFull(c, make([]byte, 4)) // the client has it
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	})
	c := g.dial()
	defer c.Close()
	send(t, c, "ping")
	receive(t, c, "half")
	send(t, c, "more")
	expectBroken(t, c)
	g.until("the rejected line", func() bool {
		return g.log.has("rejected connection: proxy to " + g.service.Addr().String() + " failed: connection reset by peer after ")
	})
}

// The same while the client uploads, when the write that fails takes the reset off the socket.
func TestServiceCrashesDuringAnUpload(t *testing.T) {
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			g := newRig(t, rigOptions{}, func(c net.Conn) {
				_, _ = io.ReadFull(c, make([]byte, 1000))
				send(t, c, "half")
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
			})
			c := g.dial()
			defer c.Close()
			_, told := io.Copy(c, io.LimitReader(zeros{}, 900<<10)) // a machine that stalls in the middle is told here
			receive(t, c, "half")
			if told == nil {
				expectBroken(t, c)
			}
			g.until("the rejected line", func() bool {
				return g.log.has("rejected connection: proxy to " + g.service.Addr().String() + " failed: connection reset by peer after ")
			})
		})
	}
}

// expectBroken reads a reset and nothing else.
func expectBroken(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d bytes and %v, not a reset", n, err)
	}
}

// A service that answers an upload early and closes must not lose its answer to the bytes that nobody reads any more.
func TestEarlyAnswerToAnUpload(t *testing.T) {
	// No more than a window that nobody has enlarged yet: what the service's kernel still has when the service closes, it throws away itself.
	const answer = 48_000
	for _, endpoint := range []string{"tcp", "unix"} {
		t.Run(endpoint, func(t *testing.T) {
			for range 10 {
				g := newRig(t, rigOptions{endpoint: endpoint}, func(c net.Conn) {
					_, _ = io.ReadFull(c, make([]byte, 1000))
					send(t, c, strings.Repeat("4", answer))
					_ = c.Close()
				})
				c := g.dial()
				_, _ = io.Copy(c, io.LimitReader(zeros{}, 900<<10)) // as much of it as is taken
				receive(t, c, strings.Repeat("4", answer))
				_ = c.Close()
			}
		})
	}
}

// session is a channel that answers with some bytes and then fails as told, once its client sent something.
type session struct {
	net.Conn
	answer string
	cause  error
	asked  chan struct{}
	once   sync.Once
	closed chan struct{}
	shut   sync.Once
}

func (s *session) Read(p []byte) (int, error) {
	select {
	case <-s.asked:
	case <-s.closed:
		return 0, net.ErrClosed
	}
	if s.answer == "" {
		return 0, s.cause
	}
	n := copy(p, s.answer)
	s.answer = s.answer[n:]
	return n, nil
}

func (s *session) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.asked) })
	return len(p), nil
}

func (s *session) Close() error { s.shut.Do(func() { close(s.closed) }); return nil }

// However a service's stream breaks off, its client is not told that it is whole.
func TestBrokenSessionIsNotAnEnd(t *testing.T) {
	for _, cause := range []error{syscall.ETIMEDOUT, syscall.EPIPE, io.ErrUnexpectedEOF, errors.New("ssh: the session died")} {
		t.Run(cause.Error(), func(t *testing.T) {
			g := newRig(t, rigOptions{dialHost: func(context.Context, fleet.HostName, fleet.Endpoint) (net.Conn, error) {
				return &session{answer: "half", cause: cause, asked: make(chan struct{}), closed: make(chan struct{})}, nil
			}}, echo)
			c := g.dial()
			defer c.Close()
			send(t, c, "ping")
			receive(t, c, "half")
			expectBroken(t, c)
			g.until("the rejected line", func() bool { return g.log.has(" failed: " + cause.Error() + " after ") })
		})
	}
}

// At the end of the process no stream that is cut looks like one that ended; one that did end stays so.
func TestCutEndsEveryRelay(t *testing.T) {
	ends := make(chan error, 3)
	g := newRig(t, rigOptions{}, func(c net.Conn) {
		_, err := io.Copy(io.Discard, c)
		ends <- err
		_ = c.Close()
	})
	asking, silentClient := g.dial(), g.dial()
	send(t, asking, "ping")
	g.until("both run", func() bool { return g.asking() == 1 && g.relays.Stats().Relays == 2 && g.openings() == 0 })
	g.relays.Cut()
	g.until("both ended", func() bool { return g.relays.Stats().Relays == 0 })
	if g.waits() != 0 || g.relays.Ended(wait.Cut) != 1 {
		t.Errorf("%d waits, %d cut", g.waits(), g.relays.Ended(wait.Cut))
	}
	g.expectReset()
	for _, c := range []net.Conn{asking, silentClient} {
		expectBroken(t, c)
		_ = c.Close()
		if err := <-ends; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a service reads %v", err)
		}
	}
}

func TestCutKeepsWhatEnded(t *testing.T) {
	read, hold := make(chan upload), make(chan struct{})
	g := newRig(t, rigOptions{}, func(c net.Conn) {
		n, err := io.Copy(io.Discard, c)
		read <- upload{n, err}
		<-hold
		_, err = c.Read(make([]byte, 1))
		read <- upload{0, err}
		_ = c.Close()
	})
	c := g.dial()
	defer c.Close()
	send(t, c, "whole")
	_ = c.(*net.TCPConn).CloseWrite()
	if got := <-read; got.n != 5 || got.err != nil {
		t.Errorf("%+v", got)
	}
	g.relays.Cut()
	expectBroken(t, c)
	close(hold)
	if got := <-read; !errors.Is(got.err, io.EOF) {
		t.Errorf("a request that came whole ends in %v", got.err)
	}
}

// An upload without a client that its service does not read holds descriptors for nobody: it goes first when they run out.
func TestPressureEndsOrphans(t *testing.T) {
	begin, read := make(chan struct{}), make(chan upload, 1)
	g := newRig(t, rigOptions{}, late("hello", begin, read))
	readNow := sync.OnceFunc(func() { close(begin) })
	defer readNow()
	c := g.dial()
	receive(t, c, "hello")
	g.fill(c)
	_ = c.Close()
	g.until("the client is known as gone", func() bool { return g.orphans() == 1 })
	if err := g.relays.relieve(g.adapter.key, g.relays.pressure.epoch.Load(), syscall.EMFILE); err != nil {
		t.Error(err)
	}
	g.until("the relay is over", func() bool { return g.relays.Stats().Relays == 0 })
	if !g.log.has("ended 1 upload(s) that stand although their clients are gone, after Too many open files, and accepts again") {
		t.Error(g.log.String())
	}
	readNow()
	if got := <-read; !errors.Is(got.err, syscall.ECONNRESET) {
		t.Errorf("the service reads %v", got.err)
	}
}
