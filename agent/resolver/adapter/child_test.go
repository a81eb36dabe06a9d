package adapter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/durable"
)

// childSettings is what a relay in a process of its own is told.
type childSettings struct {
	Service     string // address
	Folder      string // for the published documents
	Descriptors uint64 // limit; 0 keeps the process's own
	Spare       int    // with a limit: how many descriptors are left for relays
}

// child relays to one service until its standard input ends. A line "advance 60s" moves its clock. It prints its address, and at the end
// its statistics.
func child(settings string) int {
	var s childSettings
	if err := json.Unmarshal([]byte(settings), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if s.Descriptors > 0 {
		// Go raises the soft limit to the hard one, so the hard one must come down.
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: s.Descriptors, Max: s.Descriptors}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var clock clock
	var relays *Relays
	var ended atomic.Pointer[status.Resolver]
	ended.Store(&status.Resolver{State: status.StateServing})
	folder := durable.Folder{Path: s.Folder}
	waiting := status.NewPublisher(folder, status.WaitingFile, func() []status.Wait { return relays.Waits() }, log)
	state := status.NewPublisher(folder, status.ResolverFile, ended.Load, log, status.Synced())
	relays = NewRelays(RelaysOptions{Log: log, Interval: 30 * time.Second, Now: clock.now, Touch: waiting.Touch})
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	key := route.Key{Service: "web", Consumer: "shop", Bind: front.Addr().String()}
	way := &route.Route{Key: key, Protocol: fleet.ProtocolHTTP, Generation: 7, Candidates: []route.Candidate{{
		Host: "a1", Local: true, Address: s.Service, Endpoint: fleet.Endpoint{Network: "tcp", Address: s.Service},
	}}}
	a := New(Options{Key: key, Relays: relays, Listener: front, Lookup: func() *route.Route { return way }})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var tasks sync.WaitGroup
	tasks.Go(func() { _ = waiting.Run(ctx) })
	tasks.Go(func() { _ = state.Run(ctx) })
	published := make(chan struct{}, 2)
	waiting.Touch(func() { published <- struct{}{} })
	state.Touch(func() { published <- struct{}{} })
	tasks.Go(func() { _ = relays.Run(ctx) })
	tasks.Go(func() {
		if err := a.Serve(); err != nil {
			log.Error(err.Error())
			ended.Store(&status.Resolver{State: status.StateFailed, Reason: err.Error()})
			state.Touch()
		}
		a.Wait()
	})
	<-published
	<-published
	if s.Descriptors > 0 {
		if err := leave(relays, s.Spare); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	fmt.Println(front.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		d, err := time.ParseDuration(strings.TrimPrefix(lines.Text(), "advance "))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		clock.advance(d)
		fmt.Println("advanced")
	}
	_ = a.Close()
	relays.Cut()
	stats, _ := json.Marshal(relays.Stats())
	fmt.Println(string(stats))
	stop()
	tasks.Wait()
	return 0
}

// leave uses up what descriptors the process has, beside the reserve of its relays, but for so many.
func leave(relays *Relays, spare int) error {
	if !relays.pressure.hold() {
		return errors.New("no room for the reserve")
	}
	var taken []int
	for {
		fd, err := spareDescriptor()
		if err == nil {
			taken = append(taken, fd)
			continue
		}
		if !exhausted(err) || len(taken) < spare {
			return fmt.Errorf("%d descriptors could be taken: %w", len(taken), err)
		}
		for _, fd := range taken[:spare] {
			if err := syscall.Close(fd); err != nil {
				return err
			}
		}
		return nil
	}
}

// process is a running child.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
	log   logbook
	addr  string
}

// startChild runs this test binary as a child, under the command of wrapper when there is one.
func startChild(t *testing.T, s childSettings, wrapper ...string) *process {
	t.Helper()
	settings, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := append(wrapper, exe)
	p := &process{t: t, cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.Env = append(os.Environ(), "ADAPTER_TEST_CHILD="+string(settings))
	p.cmd.Stderr = &p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	p.addr = p.line()
	return p
}

func (p *process) line() string {
	p.t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the child says nothing: %v\n%s", err, p.log.String())
	}
	return strings.TrimSpace(s)
}

func (p *process) advance(d time.Duration) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.stdin, "advance %v\n", d); err != nil {
		p.t.Fatal(err)
	}
	p.line()
}

// finish ends the child and returns what it counted.
func (p *process) finish() (s Stats) {
	p.t.Helper()
	_ = p.stdin.Close()
	if err := json.Unmarshal([]byte(p.line()), &s); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatalf("%v\n%s", err, p.log.String())
	}
	return s
}

func (p *process) dial() net.Conn {
	p.t.Helper()
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.log.String())
	}
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// descriptors counts those of a process.
func descriptors(t testing.TB, pid int) int {
	t.Helper()
	names, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// fill opens so many clients with a request each; every one takes two descriptors of the child. While the child writes its list it has
// one less for a moment: a client that is refused then comes again.
func (p *process) fill(relays int, folder string) (clients []net.Conn) {
	p.t.Helper()
	for range relays {
		c := p.ask()
		until(p.t, "the list shows every wait", func() bool {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if n, _ := c.Read(make([]byte, 1)); n > 0 {
				_ = c.Close()
				c = p.ask()
			}
			return asking(waitingFile(p.t, folder)) == len(clients)+1
		}, p.log.String)
		_ = c.SetDeadline(time.Now().Add(limit))
		clients = append(clients, c)
	}
	return clients
}

func (p *process) ask() net.Conn {
	p.t.Helper()
	c := p.dial()
	send(p.t, c, "ping")
	return c
}

// asking counts the waits for an answer.
func asking(list []status.Wait) (n int) {
	for _, w := range list {
		if w.Phase == status.PhaseAnswer {
			n++
		}
	}
	return n
}

// waitingFile reads the published list.
func waitingFile(t *testing.T, folder string) (list []status.Wait) {
	t.Helper()
	if err := durable.ReadJSON(filepath.Join(folder, status.WaitingFile), &list); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return list
}
