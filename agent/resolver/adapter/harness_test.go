package adapter

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/fleet"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("ADAPTER_TEST_CHILD"); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(m)
}

const limit = 20 * time.Second

// clock is real time, until it is stopped, plus what a test adds.
type clock struct {
	ahead   atomic.Int64
	stopped atomic.Pointer[time.Time]
}

func (c *clock) now() time.Time {
	now := time.Now()
	if stopped := c.stopped.Load(); stopped != nil {
		now = *stopped
	}
	return now.Add(time.Duration(c.ahead.Load()))
}

func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// stop is for tests of exact times: a busy machine takes its own between two steps.
func (c *clock) stop() {
	now := time.Now()
	c.stopped.Store(&now)
}

// logbook keeps the lines of a log.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// has unquotes what the text handler quoted.
func (l *logbook) has(line string) bool {
	return strings.Contains(strings.ReplaceAll(l.String(), `\"`, `"`), line)
}

// rig is one adapter in front of one service, both real.
type rig struct {
	t       testing.TB
	clock   clock
	log     logbook
	relays  *Relays
	adapter *Adapter
	way     atomic.Pointer[route.Route]
	service net.Listener
	touched atomic.Int64
}

type rigOptions struct {
	bind, endpoint string // networks: "tcp" (default) or "unix"
	protocol       fleet.Protocol
	dialHost       DialHost
	interval       time.Duration
	unserved       bool // the service accepts nobody
	quiet          bool // no log
	opaqueClients  bool // nothing can be told of the clients' ends
}

// newRig serves every connection to the service with serve, which owns it; nil accepts and does nothing until the test is over.
func newRig(t testing.TB, o rigOptions, serve func(net.Conn)) *rig {
	t.Helper()
	if o.interval == 0 {
		o.interval = 30 * time.Second
	}
	if o.protocol == "" {
		o.protocol = fleet.ProtocolHTTP
	}
	g := &rig{t: t}
	log := g.log.logger()
	if o.quiet {
		log = slog.New(slog.DiscardHandler)
	}
	g.relays = NewRelays(RelaysOptions{
		Log: log, Interval: o.interval, Now: g.clock.now, DialHost: o.dialHost,
		Touch: func(then ...func()) {
			g.touched.Add(1)
			for _, f := range then {
				f()
			}
		},
	})
	g.service = listen(t, o.endpoint)
	front := listen(t, o.bind)
	key := route.Key{Service: "web", Consumer: "shop", Bind: front.Addr().String()}
	g.way.Store(&route.Route{Key: key, Protocol: o.protocol, Generation: 7, Candidates: []route.Candidate{candidate(g.service, o.dialHost == nil)}})
	if o.opaqueClients {
		front = opaqueListener{front}
	}
	g.adapter = New(Options{Key: key, Relays: g.relays, Listener: front, Lookup: g.way.Load})
	g.run(o, serve)
	return g
}

func (g *rig) run(o rigOptions, serve func(net.Conn)) {
	var tasks, conns sync.WaitGroup
	over := make(chan struct{})
	if serve == nil {
		serve = func(c net.Conn) {
			<-over
			_ = c.Close()
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	house := make(chan struct{})
	go func() { defer close(house); _ = g.relays.Run(ctx) }()
	tasks.Go(func() {
		if err := g.adapter.Serve(); err != nil {
			g.log.logger().Error(err.Error())
		}
		g.adapter.Wait()
	})
	if !o.unserved {
		tasks.Go(func() {
			for {
				c, err := g.service.Accept()
				if err != nil {
					return
				}
				conns.Go(func() { serve(c) })
			}
		})
	}
	g.t.Cleanup(func() {
		close(over)
		_ = g.adapter.Close()
		_ = g.service.Close()
		g.relays.Cut()
		tasks.Wait()
		stop()
		<-house
		conns.Wait()
	})
}

func listen(t testing.TB, network string) net.Listener {
	t.Helper()
	address := "127.0.0.1:0"
	switch network {
	case "":
		network = "tcp"
	case "unix":
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func candidate(l net.Listener, local bool) route.Candidate {
	a := l.Addr()
	return route.Candidate{
		Host: "a1", Local: local, Address: a.String(), Endpoint: fleet.Endpoint{Network: a.Network(), Address: a.String()},
	}
}

func (g *rig) dial() net.Conn {
	g.t.Helper()
	a := g.adapter.listener.Addr()
	c, err := net.Dial(a.Network(), a.String())
	if err != nil {
		g.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		g.t.Fatal(err)
	}
	return c
}

// until waits for a condition of the real parts.
func (g *rig) until(what string, done func() bool) {
	g.t.Helper()
	until(g.t, what, done, func() string { return g.log.String() })
}

func until(t testing.TB, what string, done func() bool, more func() string) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline.C:
			t.Fatalf("never: %s\n%s", what, more())
		case <-tick.C:
		}
	}
}

func (g *rig) waits() int { return len(g.relays.Waits()) }

func (g *rig) asking() int { return asking(g.relays.Waits()) }

// echo answers with what it reads and closes after the client does.
func echo(c net.Conn) {
	_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
	_ = c.Close()
}

// silent reads everything and never answers.
func silent(c net.Conn) {
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

func send(t testing.TB, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

func receive(t testing.TB, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func receiveAll(t testing.TB, c net.Conn) string {
	t.Helper()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("read %q, then %v", got, err)
	}
	return string(got)
}

func badGatewayOf(sentence string) string {
	return fmt.Sprintf("HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n", len(sentence)+1, sentence)
}
