package adapter

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/reconcile/durable"
)

// modal accepts on loopback and either holds what it reads or answers it.
type modal struct {
	net.Listener
	answering atomic.Bool
	holding   atomic.Int64 // connections that will not be answered
	conns     sync.WaitGroup
}

func newModal(t *testing.T) *modal {
	m := &modal{Listener: listen(t, "")}
	m.conns.Go(func() {
		for {
			c, err := m.Accept()
			if err != nil {
				return
			}
			m.conns.Go(func() {
				if m.answering.Load() {
					echo(c)
				} else {
					m.holding.Add(1)
					silent(c)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = m.Close()
		m.conns.Wait()
	})
	return m
}

// When descriptors run out, held relays are told and ended, the waiting list says so, and the adapter accepts again.
func TestShedding(t *testing.T) {
	const relays = 24
	service, folder := newModal(t), t.TempDir()
	p := startChild(t, childSettings{Service: service.Addr().String(), Folder: folder, Descriptors: 80, Spare: 2 * relays})
	held := p.fill(relays, folder)
	until(t, "the service holds every request", func() bool { return service.holding.Load() == int64(len(held)) }, p.log.String)
	p.advance(31 * time.Second)
	service.answering.Store(true)

	// An adapter that holds requests refuses while it can accept; the first client that it cannot accept makes it shed.
	for answered := false; !answered; {
		c := p.dial()
		defer c.Close()
		send(t, c, "ping")
		got := make([]byte, 4)
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		answered = string(got) == "ping"
		if !answered && !strings.Contains(receiveAll(t, c), "not relayed") {
			t.Fatal("refused for another reason")
		}
	}
	sentence := "this host's resolver ran out of file descriptors accepting on " + p.addr + " (Too many open files): this connection had waited longer than " +
		"the 30s refresh interval for an answer that never came, so the resolver ended it to accept again"
	for _, c := range held {
		if got := receiveAll(t, c); got != badGatewayOf(sentence) {
			t.Errorf("a shed client read %q", got)
		}
		_ = c.Close()
	}
	prefix := "stado resolver adapter service=web consumer=shop "
	for _, line := range []string{
		fmt.Sprintf("%sshed the wait of %s to %s on a1 held since 20", prefix, held[0].LocalAddr(), service.Addr()),
		fmt.Sprintf("%sshed %d held relay(s) after Too many open files and accepts again; 0 held wait(s) stand on channels still opening", prefix, len(held)),
	} {
		until(t, line, func() bool { return p.log.has(line) }, p.log.String)
	}
	until(t, "the list is empty", func() bool { return len(waitingFile(t, folder)) == 0 }, p.log.String)
	p.finish()
	if p.log.has("cannot publish") {
		t.Errorf("the list could not be published\n%s", p.log.String())
	}
}

// With nothing to shed the adapter ends, and says why, also in the published state: whether relays leave one descriptor over or none.
func TestNothingToShed(t *testing.T) {
	for over := range 2 {
		t.Run(strconv.Itoa(over), func(t *testing.T) { nothingToShed(t, over) })
	}
}

func nothingToShed(t *testing.T, over int) {
	const max, relays = 80, 24
	service, folder := newModal(t), t.TempDir()
	p := startChild(t, childSettings{Service: service.Addr().String(), Folder: folder, Descriptors: max, Spare: 2*relays + over})
	for _, c := range p.fill(relays, folder) {
		defer c.Close()
	}
	line := p.addr + " accept failed: Too many open files; no relay older than the 30s refresh interval could be shed (0 held wait(s) stand on channels still opening), " +
		"so the descriptors are held by something this adapter cannot free"
	var state status.Resolver
	until(t, "the state failed is on disk", func() bool {
		// One that still finds a descriptor and then no service is refused; while it reads that, the next one waits.
		if c, err := net.Dial("tcp", p.addr); err == nil {
			defer c.Close()
		}
		return durable.ReadJSON(filepath.Join(folder, status.ResolverFile), &state) == nil && state.State == status.StateFailed
	}, p.log.String)
	if state.Reason != line {
		t.Errorf("reason %s\n%s", state.Reason, p.log.String())
	}
	until(t, line, func() bool { return p.log.has(line) }, p.log.String)
	if n := descriptors(t, p.cmd.Process.Pid); n < max-reserveSize/2 {
		t.Errorf("the reserve was given up for another relay: %d descriptors of %d are in use", n, max)
	}
	p.finish()
	if p.log.has("cannot publish") {
		t.Errorf("a document could not be published\n%s", p.log.String())
	}
}

// failing is a listener whose next accepts fail as told.
type failing struct {
	net.Listener
	errs  chan error
	calls atomic.Int64
}

func (f *failing) Accept() (net.Conn, error) {
	f.calls.Add(1)
	select {
	case err := <-f.errs:
		return nil, err
	default:
	}
	return f.Listener.Accept()
}

func TestAcceptErrors(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if !exhausted(&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", errno)}) {
			t.Errorf("%v is not a lack of descriptors", errno)
		}
	}
	g := newRig(t, rigOptions{}, silent)
	end := func(err error) error {
		f := &failing{Listener: listen(t, ""), errs: make(chan error, 1)}
		f.errs <- err
		a := New(Options{Key: g.adapter.key, Relays: g.relays, Listener: f, Lookup: g.way.Load})
		got := a.Serve()
		a.Wait()
		if _, err := f.Listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error("the listener is still open")
		}
		return got
	}
	bind := g.adapter.key.Bind
	got := end(&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EPERM)})
	if got == nil || got.Error() != bind+" accept failed: operation not permitted; the resolver listens again shortly" || errors.Is(got, ErrExhausted) {
		t.Errorf("%v", got)
	}
	got = end(&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.ENFILE)})
	if !errors.Is(got, ErrExhausted) || !strings.HasPrefix(got.Error(), bind+" accept failed: Too many open files in system; no relay older than the 30s") {
		t.Errorf("%v", got)
	}
	g.until("the reserve is full again", func() bool {
		g.relays.pressure.mu.Lock()
		defer g.relays.pressure.mu.Unlock()
		return len(g.relays.pressure.reserve) == reserveSize
	})
}

// full is a listener of a process whose descriptors are all in use for its first accepts.
type full struct {
	*net.TCPListener
	fail atomic.Int64 // how many more
	past chan struct{}
}

func (f *full) Accept() (net.Conn, error) {
	if n := f.fail.Add(-1); n >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	} else if n == -1 {
		close(f.past)
	}
	return f.TCPListener.Accept()
}

// A full table makes accept fail also when no client waits. Then nothing is shed and the adapter goes on, whether there is something to
// shed or nothing.
func TestFullTableAndNobodyWaits(t *testing.T) {
	g := newRig(t, rigOptions{}, silent)
	for _, held := range []int{0, 1} {
		if held > 0 {
			c := g.dial()
			defer c.Close()
			send(t, c, "ping")
			g.until("the wait stands", func() bool { return g.asking() == held })
			g.clock.advance(time.Minute)
		}
		f := &full{TCPListener: listen(t, "").(*net.TCPListener), past: make(chan struct{})}
		f.fail.Store(2)
		a := New(Options{Key: g.adapter.key, Relays: g.relays, Listener: f, Lookup: g.way.Load})
		served := make(chan error, 1)
		go func() { served <- a.Serve() }()
		select {
		case <-f.past:
		case err := <-served:
			t.Fatalf("the adapter ended: %v", err)
		case <-time.After(limit):
			t.Fatal("the adapter does not accept again")
		}
		_ = a.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		a.Wait()
		if n := g.asking(); n != held {
			t.Errorf("%d of %d relays are held", n, held)
		}
	}
}

func TestWaitedFor(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		l := listen(t, network)
		if waitedFor(l) {
			t.Errorf("%s: nobody has come yet", network)
		}
		c, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the client waits", func() bool { return waitedFor(l) }, func() string { return network })
		_, _ = c.Close(), l.Close()
	}
	if l := (&failing{Listener: listen(t, "")}); !waitedFor(l) {
		t.Error("a listener that cannot be asked counts as waited for")
	} else {
		_ = l.Close()
	}
}

// Adapters hit the limit together: the second one finds the pressure relieved and must not end for having nothing left to shed. Nor must
// one that fails again before what was shed has given its descriptors back.
func TestOneReliefServesEveryAdapter(t *testing.T) {
	g := newRig(t, rigOptions{}, silent)
	g.clock.stop()
	c := g.dial()
	defer c.Close()
	send(t, c, "ping")
	g.until("the wait stands", func() bool { return g.asking() == 1 })
	g.clock.advance(time.Minute)
	relief := g.relays.pressure.epoch.Load()
	for range 2 {
		if err := g.relays.relieve(g.adapter.key, relief, syscall.EMFILE); err != nil {
			t.Fatal(err)
		}
	}
	relief = g.relays.pressure.epoch.Load()
	if err := g.relays.relieve(g.adapter.key, relief, syscall.EMFILE); err != nil {
		t.Errorf("just relieved: %v", err)
	}
	g.clock.advance(settling)
	if err := g.relays.relieve(g.adapter.key, relief, syscall.EMFILE); !errors.Is(err, ErrExhausted) {
		t.Errorf("with nothing to shed: %v", err)
	}
}

// A relay that idles holds its two sockets and nothing else, also after bulk.
func TestIdleRelayHoldsTwoDescriptors(t *testing.T) {
	for _, endpoint := range []string{"tcp", "unix"} {
		t.Run(endpoint, func(t *testing.T) {
			const relays = 100
			service := listen(t, endpoint)
			var conns sync.WaitGroup
			conns.Go(func() {
				for {
					c, err := service.Accept()
					if err != nil {
						return
					}
					conns.Go(func() { echo(c) })
				}
			})
			defer conns.Wait()
			defer service.Close()
			g := newRig(t, rigOptions{}, nil)
			g.setRoute(func(r *route.Route) { r.Candidates[0] = candidate(service, true) })
			before := descriptors(t, os.Getpid())
			var clients []net.Conn
			for range relays {
				c := g.dial()
				defer c.Close()
				send(t, c, "x")
				receive(t, c, "x")
				clients = append(clients, c)
			}
			// Each relay brings the client's end and the service's end of this test, and its own two.
			const own = 4 * relays
			g.until("the service has them all", func() bool { return descriptors(t, os.Getpid()) == before+own })

			const bulk = 4 << 20
			const busy = 20 // relays, with two directions each that would take a pipe for good
			for _, c := range clients[:busy] {
				conns.Go(func() { _, _ = io.Copy(struct{ io.Writer }{c}, io.LimitReader(zeros{}, bulk)) })
				if n, err := io.Copy(io.Discard, io.LimitReader(c, bulk)); n != bulk || err != nil {
					t.Fatal(n, err)
				}
			}
			if s := g.relays.Stats(); s.Spliced < busy*bulk || s.Pipes > busy {
				t.Errorf("after bulk: %+v", s)
			}
			g.until("only the relays' own descriptors are left", func() bool {
				return g.relays.Stats().Pipes == 0 && descriptors(t, os.Getpid()) == before+own
			})
		})
	}
}

// The kernel's own count of system calls: bulk goes through splice, and no read of the relay moves it.
func TestSpliceInSystemCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("strace is not installed, and CI may not skip this")
		}
		t.Skip("strace is not installed")
	}
	const bulk = 64 << 20
	service := listen(t, "")
	defer service.Close()
	var serving sync.WaitGroup
	serving.Go(func() {
		c, err := service.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(struct{ io.Writer }{c}, io.LimitReader(zeros{}, bulk))
		_ = c.Close()
	})
	defer serving.Wait()
	counts := filepath.Join(t.TempDir(), "counts")
	p := startChild(t, childSettings{Service: service.Addr().String(), Folder: t.TempDir()}, strace, "-f", "-c", "-o", counts, "-e", "trace=splice,read,write,recvfrom,sendto")
	c := p.dial()
	defer c.Close()
	if n, err := io.Copy(io.Discard, c); n != bulk || err != nil {
		t.Fatal(n, err)
	}
	stats := p.finish()
	calls := systemCalls(t, counts)
	copies := calls["read"] + calls["write"]
	if calls["splice"] < bulk/pipeSize || stats.Spliced < bulk/10*9 || copies*bufferSize > bulk {
		t.Errorf("splice %d, read and write %d, %+v", calls["splice"], copies, stats)
	}
	t.Logf("%v %+v", calls, stats)
}

// systemCalls reads the table of strace -c.
func systemCalls(t *testing.T, path string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if n, err := strconv.Atoi(f[3]); err == nil {
			out[f[len(f)-1]] = n
		}
	}
	return out
}
