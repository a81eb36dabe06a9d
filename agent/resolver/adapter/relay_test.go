package adapter

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"stado.internal/stado/agent/resolver/wait"
	"stado.internal/stado/agent/status"
)

// networks are the four ways in which a client and a local service can be reached.
var networks = []rigOptions{
	{bind: "tcp", endpoint: "tcp"},
	{bind: "tcp", endpoint: "unix"},
	{bind: "unix", endpoint: "tcp"},
	{bind: "unix", endpoint: "unix"},
}

func (o rigOptions) String() string { return o.bind + " to " + o.endpoint }

func TestRelay(t *testing.T) {
	for _, o := range networks {
		t.Run(o.String(), func(t *testing.T) {
			g := newRig(t, o, echo)
			c := g.dial()
			defer c.Close()
			for _, s := range []string{"hello", "again"} {
				send(t, c, s)
				receive(t, c, s)
			}
			g.until("the wait has ended", func() bool { return g.waits() == 0 })
			if g.relays.Ended(wait.Answered) != 1 {
				t.Error("the answer ended no wait")
			}
			for _, line := range []string{
				"stado resolver service=web consumer=shop generation=7 destination=a1",
				`stado resolver service=web consumer=shop request sent to ` + g.service.Addr().String() + ` on "a1"; 1 open(s) now waiting for an answer`,
				`stado resolver service=web consumer=shop request to ` + g.service.Addr().String() + ` on "a1" answered; 0 open(s) still waiting`,
			} {
				if !g.log.has(line) {
					t.Errorf("the log lacks %s\n%s", line, g.log.String())
				}
			}
		})
	}
}

// Bytes must arrive unchanged both ways, in bulk, with the end of the stream passed on; and bulk must go through splice.
func TestBulk(t *testing.T) {
	const size = 24 << 20
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data) // never fails
	want := sha256.Sum256(data)
	for _, o := range networks {
		t.Run(o.String(), func(t *testing.T) {
			uploaded := make(chan [sha256.Size]byte, 1)
			g := newRig(t, o, func(c net.Conn) {
				h := sha256.New()
				_, _ = io.Copy(h, c)
				uploaded <- [sha256.Size]byte(h.Sum(nil))
				_, _ = io.Copy(c, bytes.NewReader(data))
				_ = c.Close()
			})
			c := g.dial()
			defer c.Close()
			if _, err := io.Copy(struct{ io.Writer }{c}, bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got := <-uploaded; got != want {
				t.Error("the upload differs")
			}
			if got := sha256.Sum256([]byte(receiveAll(t, c))); got != want {
				t.Error("the download differs")
			}
			s := g.relays.Stats()
			if s.Bytes != 2*size || s.Spliced < size || s.Splices == 0 {
				t.Errorf("%+v: less than half of %d bytes was spliced", s, 2*size)
			}
			t.Logf("%d of %d MiB spliced in %d pieces", s.Spliced>>20, s.Bytes>>20, s.Splices)
		})
	}
}

// Small traffic takes no pipe: it costs what a copy costs.
func TestSmallTrafficIsNotSpliced(t *testing.T) {
	g := newRig(t, rigOptions{}, echo)
	c := g.dial()
	defer c.Close()
	for range 2000 {
		send(t, c, strings.Repeat("x", 1024))
		receive(t, c, strings.Repeat("x", 1024))
	}
	if s := g.relays.Stats(); s.Splices != 0 || s.Bytes != 2*2000*1024 {
		t.Errorf("%+v", s)
	}
}

// The rows of "half-close or closed": what the client does after its request, and what becomes of its wait and of the answer.
func TestClientEnds(t *testing.T) {
	type client interface {
		net.Conn
		CloseWrite() error
		CloseRead() error
	}
	rows := []struct {
		name   string
		do     func(client)
		served bool
		tcp    bool // only TCP can do it
	}{
		{"nothing", func(client) {}, true, false},
		{"shutdown of the sending side", func(c client) { _ = c.CloseWrite() }, true, false},
		{"close", func(c client) { _ = c.Close() }, false, false},
		{"shutdown of both sides", func(c client) { _ = c.CloseRead(); _ = c.CloseWrite() }, false, false},
		{"reset", func(c client) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }, false, true},
	}
	for _, o := range networks {
		for _, row := range rows {
			if row.tcp && o.bind != "tcp" {
				continue
			}
			t.Run(o.String()+", "+row.name, func(t *testing.T) {
				answer := make(chan struct{})
				ended := make(chan error, 1)
				g := newRig(t, o, func(c net.Conn) {
					defer c.Close()
					buf := make([]byte, 4)
					if _, err := io.ReadFull(c, buf); err != nil {
						t.Error(err)
					}
					if row.served {
						<-answer
						send(t, c, strings.Repeat("a", 100_000))
						return
					}
					_, err := c.Read(buf)
					ended <- err
				})
				c := g.dial().(client)
				defer c.Close()
				send(t, c, "ping")
				g.until("the wait stands", func() bool { return g.asking() == 1 })
				row.do(c)
				if row.served {
					close(answer)
					if n := len(receiveAll(t, c)); n != 100_000 {
						t.Errorf("%d bytes of the answer", n)
					}
					return
				}
				g.until("the place is given back", func() bool { return g.waits() == 0 })
				if err := <-ended; err == nil {
					t.Error("the service was not told")
				}
				if g.relays.Ended(wait.ClientGone) != 1 {
					t.Errorf("the client is not known as gone\n%s", g.log.String())
				}
				g.until("the abandoned sentence", func() bool {
					return g.log.has("request to " + g.service.Addr().String() + " on a1 abandoned by its client before an answer; the channel is closed; 0 open(s) still waiting")
				})
			})
		}
	}
}

// A client that half-closes and closes later sends nothing new: only looking again tells.
func TestHalfClosedThenClosed(t *testing.T) {
	for _, o := range networks {
		t.Run(o.String(), func(t *testing.T) {
			g := newRig(t, o, nil)
			c := g.dial()
			send(t, c, "ping")
			g.until("the wait stands", func() bool { return g.asking() == 1 })
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
			g.until("the relay knows that the client half-closed, and watches it", func() bool {
				g.relays.watchMu.Lock()
				defer g.relays.watchMu.Unlock()
				if len(g.relays.watched) != 1 {
					return false
				}
				m := g.relays.watched[0]
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.clientEOF
			})
			if g.waits() != 1 {
				t.Fatal("a half-closed client lost its place")
			}
			_ = c.Close()
			g.until("the place is given back", func() bool { return g.waits() == 0 && g.relays.Stats().Relays == 0 })
		})
	}
}

// A service that half-closes still reads; one that is gone ends the relay, also when its client stays.
func TestServiceEnds(t *testing.T) {
	for _, o := range networks {
		t.Run(o.String()+", half-closes", func(t *testing.T) {
			read := make(chan string, 1)
			g := newRig(t, o, func(c net.Conn) {
				send(t, c, "bye")
				_ = c.(interface{ CloseWrite() error }).CloseWrite()
				read <- receiveAll(t, c)
				_ = c.Close()
			})
			c := g.dial()
			if got := receiveAll(t, c); got != "bye" {
				t.Errorf("read %q", got)
			}
			send(t, c, "late request")
			_ = c.Close()
			if got := <-read; got != "late request" {
				t.Errorf("the service read %q", got)
			}
			if g.waits() != 0 {
				t.Error("a request that nothing can answer waits")
			}
		})
		t.Run(o.String()+", closes", func(t *testing.T) {
			t.Parallel()
			g := newRig(t, o, func(c net.Conn) { _ = c.Close() })
			c := g.dial()
			defer c.Close()
			g.until("the relay ended without its client", func() bool { return g.relays.Stats().Relays == 0 })
		})
	}
}

func TestServiceClosesBeforeAnAnswer(t *testing.T) {
	for _, o := range networks {
		t.Run(o.String(), func(t *testing.T) {
			g := newRig(t, o, func(c net.Conn) {
				_, _ = io.ReadFull(c, make([]byte, 4))
				_ = c.Close()
			})
			c := g.dial()
			send(t, c, "ping")
			if got := receiveAll(t, c); got != "" {
				t.Errorf("read %q", got)
			}
			_ = c.Close()
			endpoint := g.service.Addr().String()
			for _, line := range []string{
				"request to " + endpoint + ` on "a1" ended before an answer; 0 open(s) still waiting`,
				"stado resolver adapter service=web consumer=shop rejected connection: proxy to " + endpoint + " failed: the service closed the connection before an answer after ",
			} {
				g.until(line, func() bool { return g.log.has(line) })
			}
			if g.relays.Ended(wait.ServiceGone) != 1 {
				t.Error("the wait did not end for the service")
			}
		})
	}
}

// openings counts the relays that have not reached their service yet.
func (g *rig) openings() (n int) {
	g.relays.mu.Lock()
	defer g.relays.mu.Unlock()
	for m := range g.relays.members {
		m.mu.Lock()
		if m.phase == opening {
			n++
		}
		m.mu.Unlock()
	}
	return n
}

// Without a byte from the client there is no answer to wait for.
func TestQuietConnectionDoesNotWait(t *testing.T) {
	g := newRig(t, rigOptions{}, silent)
	c := g.dial()
	g.until("the relay runs", func() bool { return g.relays.Stats().Relays == 1 && g.openings() == 0 })
	if g.waits() != 0 {
		t.Errorf("waits: %v", g.relays.Waits())
	}
	_ = c.Close()
	g.until("it ended", func() bool { return g.relays.Stats().Relays == 0 })
	if g.log.has("abandoned") {
		t.Error("nothing was asked, so nothing was abandoned")
	}
}

func TestWaitingList(t *testing.T) {
	g := newRig(t, rigOptions{}, silent)
	c := g.dial()
	defer c.Close()
	before := time.Now()
	send(t, c, "ping")
	g.until("the wait stands", func() bool { return g.asking() == 1 })
	w := g.relays.Waits()[0]
	if w.Service != "web" || w.Consumer != "shop" || w.Bind != g.adapter.key.Bind || w.Client != c.LocalAddr().String() || w.ActiveHost != "a1" ||
		w.Endpoint != g.service.Addr().String() || w.Phase != status.PhaseAnswer || w.Since.Before(before.Add(-time.Second)) || w.Since.Location() != time.UTC {
		t.Errorf("%+v", w)
	}
}
