package resolver

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

	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/durable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 20 * time.Second

// logbook keeps the lines of a log, and lets a test look at the moment when one is said.
type logbook struct {
	mu    sync.Mutex
	lines []string
	said  func(line string)
}

func (l *logbook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logbook) WithGroup(string) slog.Handler            { return l }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r.Message)
	if l.said != nil {
		l.said(r.Message)
	}
	return nil
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// rig is a running resolver of host a1 with its published waiting list.
type rig struct {
	t        testing.TB
	resolver *Resolver
	log      *logbook
	folder   string
	changes  atomic.Int64
	stop     func() // ends Run and waits for it; may be called more than once
}

func newRig(t testing.TB, edit func(*Options)) *rig {
	t.Helper()
	g := &rig{t: t, log: &logbook{}, folder: t.TempDir()}
	log := slog.New(g.log)
	waiting := status.NewPublisher(durable.Folder{Path: g.folder}, status.WaitingFile, func() []status.Wait { return g.resolver.Waits() }, log)
	o := Options{Log: log, Waiting: waiting, Changed: func() { g.changes.Add(1) }}
	if edit != nil {
		edit(&o)
	}
	g.resolver = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	docs, stopDocs := context.WithCancel(context.Background())
	var parts, publishers sync.WaitGroup
	publishers.Go(func() { _ = waiting.Run(docs) })
	parts.Go(func() {
		if err := g.resolver.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	g.stop = sync.OnceFunc(func() {
		cancel()
		parts.Wait()
		stopDocs()
		publishers.Wait()
	})
	t.Cleanup(g.stop)
	return g
}

func (g *rig) until(what string, done func() bool) {
	g.t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline.C:
			g.t.Fatalf("never: %s\n%s", what, g.log)
		case <-tick.C:
		}
	}
}

// apply puts a snapshot in force and waits for the first one to be served.
func (g *rig) apply(s *fleet.Snapshot, host fleet.HostName) {
	g.t.Helper()
	g.resolver.Apply(s, host)
	select {
	case <-g.resolver.Ready():
	case <-time.After(limit):
		g.t.Fatal("never ready")
	}
}

func (g *rig) document() (doc status.Resolver) {
	g.resolver.Fill(&doc)
	return doc
}

// listed reads the published waiting list.
func (g *rig) listed() (list []status.Wait) {
	err := durable.ReadJSON(filepath.Join(g.folder, status.WaitingFile), &list)
	if err != nil && !os.IsNotExist(err) {
		g.t.Error(err)
	}
	return list
}

// registry is one host with adapters for services that are all on it.
type registry struct {
	generation fleet.Generation
	api        string
	refresh    int
	adapters   []fleet.Adapter
	endpoints  map[fleet.ServiceName]string
}

func (r registry) snapshot() *fleet.Snapshot {
	services := make(map[fleet.ServiceName]fleet.Service)
	for name, url := range r.endpoints {
		services[name] = fleet.Service{
			ActiveHosts: []fleet.HostName{"a1"}, Endpoints: map[fleet.HostName]fleet.ServiceEndpoint{"a1": {URL: url}},
			Consumers: map[fleet.ConsumerName]fleet.Consumer{"shop": {Capabilities: []string{"read"}}},
		}
	}
	refresh := max(r.refresh, 30)
	if r.refresh > 0 {
		refresh = r.refresh
	}
	return &fleet.Snapshot{Registry: &fleet.Registry{
		Directory: fleet.Directory{Generation: r.generation, Services: services},
		Hosts: map[fleet.HostName]fleet.Host{"a1": {Resolver: &fleet.ServiceResolver{
			APIBind: r.api, RefreshSeconds: refresh, MaxStaleSeconds: 90, Adapters: r.adapters,
		}}},
	}}
}

func adapterOf(service fleet.ServiceName, bind string) fleet.Adapter {
	return fleet.Adapter{Service: service, Consumer: "shop", Bind: bind}
}

// serve runs a service on loopback until the test is over and returns its URL.
func serve(t testing.TB, one func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				one(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		conns.Wait()
	})
	return "http://" + l.Addr().String()
}

// named answers every line with the name of the service.
func named(name string) func(net.Conn) {
	return func(c net.Conn) {
		buf := make([]byte, 1)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			if buf[0] == '\n' {
				if _, err := fmt.Fprintln(c, name); err != nil {
					return
				}
			}
		}
	}
}

func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, address = "unix", path
	}
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a line and reads one.
func ask(t testing.TB, c net.Conn) string {
	t.Helper()
	if _, err := io.WriteString(c, "who?\n"); err != nil {
		t.Fatal(err)
	}
	var line bytes.Buffer
	for buf := make([]byte, 1); ; {
		if _, err := io.ReadFull(c, buf); err != nil {
			t.Fatalf("read %q, then %v", line.String(), err)
		}
		if buf[0] == '\n' {
			return line.String()
		}
		line.WriteByte(buf[0])
	}
}
