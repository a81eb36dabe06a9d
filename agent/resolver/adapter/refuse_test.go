package adapter

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/agent/resolver/wait"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
	"stado.internal/stado/porttest"
)

func (g *rig) setRoute(edit func(*route.Route)) {
	r := *g.way.Load()
	r.Candidates = append([]route.Candidate(nil), r.Candidates...)
	edit(&r)
	g.way.Store(&r)
}

// The refusal comes before anything is read, and reaches a client that uploads.
func TestRefusalReachesAnUploadingClient(t *testing.T) {
	const sentence = "service web resolves to itself"
	for _, bind := range []string{"tcp", "unix"} {
		t.Run(bind, func(t *testing.T) {
			g := newRig(t, rigOptions{bind: bind}, echo)
			g.setRoute(func(r *route.Route) { r.Refusal = sentence })
			for range 40 {
				began, c := time.Now(), g.dial()
				_, err := io.Copy(struct{ io.Writer }{c}, io.LimitReader(zeros{}, 200_000))
				got, _ := io.ReadAll(c)
				_ = c.Close()
				if time.Since(began) > lingerTime {
					continue // nobody waits longer for a machine that stalled in the middle
				}
				if err != nil || string(got) != badGatewayOf(sentence) {
					t.Fatalf("the upload ended in %v; read %q", err, got)
				}
			}
			c := g.dial() // sends nothing
			if got := receiveAll(t, c); got != badGatewayOf(sentence) {
				t.Errorf("read %q", got)
			}
			_ = c.Close()
			if s := g.relays.Stats(); s.Refused != 41 || s.Bytes != 0 {
				t.Errorf("%+v", s)
			}
			if !g.log.has("stado resolver service=web consumer=shop endpoint=none refused connection: " + sentence) {
				t.Error(g.log.String())
			}
		})
	}
}

func TestRefusalOfProtocolTCPIsAReset(t *testing.T) {
	g := newRig(t, rigOptions{protocol: fleet.ProtocolTCP}, echo)
	g.setRoute(func(r *route.Route) { r.Refusal = "no" })
	g.expectReset()
	g.until("the sentence is in the log", func() bool { return g.log.has("refused connection: no") })
}

// expectReset connects and gets a reset and nothing else. It may come so fast that connecting itself reports it.
func (g *rig) expectReset() {
	g.t.Helper()
	c, err := net.Dial("tcp", g.adapter.listener.Addr().String())
	if err == nil {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(limit))
		var n int
		if n, err = c.Read(make([]byte, 1)); n != 0 {
			g.t.Error("a byte came")
		}
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		g.t.Errorf("no reset: %v", err)
	}
}

func TestHeldAdapterRefuses(t *testing.T) {
	g := newRig(t, rigOptions{}, func(c net.Conn) {
		buf := make([]byte, 4)
		if _, err := io.ReadFull(c, buf); err != nil || string(buf) == "hang" {
			silent(c)
			return
		}
		_, _ = c.Write([]byte("pong"))
		_ = c.Close()
	})
	g.clock.stop()
	held := g.dial()
	send(t, held, "hang")
	g.until("the wait stands", func() bool { return g.asking() == 1 })
	early := g.dial()
	send(t, early, "ping")
	receive(t, early, "pong")
	_ = early.Close()

	g.clock.advance(31 * time.Second)
	endpoint := g.service.Addr().String()
	late := g.dial()
	got := receiveAll(t, late)
	_ = late.Close()
	for _, part := range []string{
		"HTTP/1.1 502 Bad Gateway\r\n",
		"not relayed: this host's resolver holds 1 connection(s) on that adapter unanswered longer than the 30s refresh interval it declares, ",
		"service web for consumer shop at " + g.adapter.key.Bind + " has waited 31s for the first byte of an answer on an open channel to " + endpoint + " on a1",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("the refusal lacks %q: %q", part, got)
		}
	}
	if g.waits() != 1 {
		t.Error("the held connection lost its place")
	}
	if g.adapter.Held(&g.way.Load().Candidates[0], g.clock.now()) == "" {
		t.Error("status does not see the candidate held")
	}
	// A service that moved is not the one that holds requests.
	other := listen(t, "")
	defer other.Close()
	go func() {
		if c, err := other.Accept(); err == nil {
			_, _ = c.Write([]byte("moved"))
			_ = c.Close()
		}
	}()
	g.setRoute(func(r *route.Route) { r.Candidates[0] = candidate(other, true) })
	moved := g.dial()
	if got := receiveAll(t, moved); got != "moved" {
		t.Errorf("read %q", got)
	}
	_ = moved.Close()

	g.setRoute(func(r *route.Route) { r.Candidates[0] = candidate(g.service, true) })
	_ = held.Close()
	g.until("the place is given back", func() bool { return g.waits() == 0 })
	again := g.dial()
	send(t, again, "ping")
	receive(t, again, "pong")
	_ = again.Close()
}

func TestCandidates(t *testing.T) {
	dead, err := net.Listen("tcp", porttest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.Close()
	g := newRig(t, rigOptions{}, func(c net.Conn) { _, _ = c.Write([]byte("alive")); _ = c.Close() })
	g.setRoute(func(r *route.Route) {
		r.Candidates = []route.Candidate{{Host: "b1", Refusal: "loops"}, candidate(dead, true), candidate(g.service, true)}
	})
	c := g.dial()
	if got := receiveAll(t, c); got != "alive" {
		t.Errorf("read %q", got)
	}
	_ = c.Close()
	deadAt := dead.Addr().String()
	unreachable := "service web cannot be reached at " + deadAt + " on a1: connection refused (see that it runs there and listens on that address)"
	if got := g.adapter.Fault(deadAt); got != unreachable {
		t.Errorf("fault %q", got)
	}
	if g.adapter.Fault(g.service.Addr().String()) != "" {
		t.Error("a candidate that answered has a fault")
	}
	g.setRoute(func(r *route.Route) { r.Candidates = r.Candidates[:2] })
	c = g.dial()
	if got := receiveAll(t, c); got != badGatewayOf("loops; "+unreachable) {
		t.Errorf("read %q", got)
	}
	_ = c.Close()
	if g.waits() != 0 || g.relays.Ended(wait.Refused) != 2 {
		t.Errorf("%d waits left, %d refused", g.waits(), g.relays.Ended(wait.Refused))
	}
	// The fault goes with the first success.
	revived, err := net.Listen("tcp", deadAt)
	if err != nil {
		t.Fatal(err)
	}
	defer revived.Close()
	c = g.dial()
	defer c.Close()
	g.until("the fault is gone", func() bool { return g.adapter.Fault(deadAt) == "" })
}

func TestWithdrawnAdapterRefuses(t *testing.T) {
	g := newRig(t, rigOptions{}, echo)
	g.way.Store(nil)
	g.expectReset() // without a route there is no protocol, and a reset says nothing wrong to any
	g.until("the sentence is in the log", func() bool {
		return g.log.has("the registry no longer declares an adapter for service web and consumer shop at " + g.adapter.key.Bind)
	})
}

// opaque hides that a connection is a plain socket, as a channel of a session is none.
type opaque struct{ net.Conn }

func (o opaque) CloseWrite() error { return o.Conn.(interface{ CloseWrite() error }).CloseWrite() }

func TestServiceOnAnotherHost(t *testing.T) {
	t.Run("without sessions", func(t *testing.T) {
		g := newRig(t, rigOptions{}, echo)
		g.setRoute(func(r *route.Route) { r.Candidates[0].Host, r.Candidates[0].Local = "b1", false })
		c := g.dial()
		defer c.Close()
		if got := receiveAll(t, c); got != badGatewayOf("service web is active on b1, and this resolver opens no session to another host: call it on b1, or make it active on this host") {
			t.Errorf("read %q", got)
		}
	})
	t.Run("with sessions", func(t *testing.T) {
		var dialed fleet.HostName
		g := newRig(t, rigOptions{dialHost: func(ctx context.Context, host fleet.HostName, ep fleet.Endpoint) (net.Conn, error) {
			dialed = host
			var d net.Dialer
			c, err := d.DialContext(ctx, ep.Network, ep.Address)
			return opaque{c}, err
		}}, echo)
		c := g.dial()
		const size = 3 << 20
		go func() {
			_, _ = io.Copy(c, io.LimitReader(zeros{}, size))
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		if n := len(receiveAll(t, c)); n != size {
			t.Errorf("%d bytes came back", n)
		}
		_ = c.Close()
		if dialed != "a1" {
			t.Errorf("dialed %q", dialed)
		}
		endpoint := g.service.Addr().String()
		for _, line := range []string{
			"stado resolver service=web consumer=shop opening channel to " + endpoint + ` on "a1"; 1 open(s) now waiting for an answer`,
			"stado resolver service=web consumer=shop channel to " + endpoint + " answered open after ",
		} {
			if !g.log.has(line) {
				t.Errorf("the log lacks %s\n%s", line, g.log.String())
			}
		}
	})
}

// opaqueListener makes every client one whose end cannot be diagnosed, as on another machine.
type opaqueListener struct{ net.Listener }

func (l opaqueListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return opaque{c}, nil
}

// A client that may have vanished keeps its place for one interval and then stands in nobody's way; its answer would still reach it.
func TestHalfClosedUnproven(t *testing.T) {
	answer := make(chan struct{})
	g := newRig(t, rigOptions{opaqueClients: true}, func(c net.Conn) {
		_, _ = io.ReadAll(c)
		<-answer
		_, _ = c.Write([]byte("late"))
		_ = c.Close()
	})
	c := g.dial()
	defer c.Close()
	send(t, c, "ping")
	_ = c.(*net.TCPConn).CloseWrite()
	g.until("the wait stands", func() bool { return g.asking() == 1 })
	g.clock.advance(31 * time.Second)
	g.until("the list says that it may have vanished", func() bool { return g.waits() == 1 && g.relays.Waits()[0].UnprovenSince != nil })
	if g.adapter.waits.Standing(g.clock.now()) || len(status.Held(g.relays.Waits(), g.clock.now(), 30*time.Second)) != 0 {
		t.Error("it still refuses callers")
	}
	close(answer)
	if got := receiveAll(t, c); got != "late" {
		t.Errorf("read %q", got)
	}
	g.until("the wait is off the list", func() bool { return g.waits() == 0 })
}
