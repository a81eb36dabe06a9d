package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
	"stado.internal/stado/reconcile/sandbox/sandboxtest"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// benchAgent is the part of an agent that reads a remote and holds what it says.
type benchAgent struct {
	r       *registryBench
	git     *source.Git
	store   *store.Store
	home    string
	fetched time.Time // when the child had the newest commit in the store
	counts  bool      // also what that took
	read    moment    // with counts
}

func (r *registryBench) newAgent(o source.Options) *benchAgent {
	r.b.Helper()
	a := &benchAgent{r: r, home: r.b.TempDir()}
	var err error
	if a.store, err = store.Open(a.folder(), nil); err != nil {
		r.b.Fatal(err)
	}
	o.Store, o.Log = filepath.Join(a.home, "registry.git"), slog.New(phases{func(phase string) {
		if phase == source.PhaseRead {
			if a.fetched = time.Now(); a.counts {
				a.read = usedByUs()
			}
		}
	}})
	if len(o.Runner.Command) == 0 {
		o.Runner.Command = []string{r.stado, sandboxVerb}
	}
	if o.Keep == 0 {
		o.Keep = time.Hour // an agent does it for some minutes
	}
	a.git = source.New(o)
	r.b.Cleanup(a.git.Close)
	return a
}

func (a *benchAgent) folder() string { return filepath.Join(a.home, "registry") }

// phases is a log that hears which phase of a read begins.
type phases struct{ begins func(phase string) }

func (p phases) Enabled(context.Context, slog.Level) bool { return true }
func (p phases) WithAttrs([]slog.Attr) slog.Handler       { return p }
func (p phases) WithGroup(string) slog.Handler            { return p }
func (p phases) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "phase" {
			p.begins(a.Value.String())
		}
		return true
	})
	return nil
}

func (a *benchAgent) poll() source.Offer {
	a.r.b.Helper()
	held, _ := a.store.Held()
	offer, err := a.git.Poll(a.r.b.Context(), source.Anchor{Commit: held.Commit, Generation: held.Generation, Digest: held.Digest})
	if err != nil {
		a.r.b.Fatal(err)
	}
	return offer
}

// adopt polls once and holds what is new, as the reconciler does. The cost is what came after the commit was fetched.
func (a *benchAgent) adopt() cost {
	a.r.b.Helper()
	return a.hold(a.poll())
}

func (a *benchAgent) hold(offer source.Offer) cost {
	b := a.r.b
	b.Helper()
	if len(offer.Steps) != 1 || offer.Steps[0].Findings.Refuses() {
		b.Fatalf("%d steps: %v", len(offer.Steps), offer.Steps)
	}
	step := offer.Steps[0]
	var previous policies.Revision
	if snapshot := a.store.Snapshot(); snapshot != nil {
		previous = policies.Revision{Registry: snapshot.Registry, Document: snapshot.Document, Digest: snapshot.Digest}
	}
	registry, err := step.Registry, error(nil)
	if registry == nil {
		registry, err = fleet.DecodeAfter(previous.Registry, previous.Document, step.Document)
	}
	if err != nil {
		b.Fatal(err)
	}
	if findings := policies.Judge(previous, policies.Revision{Registry: registry, Digest: step.Digest}); findings.Refuses() {
		b.Fatal(findings)
	}
	if err = a.store.Put(&fleet.Snapshot{
		Commit: step.Commit, Digest: step.Digest, Document: step.Document, Registry: registry, Parts: step.Parts,
		AdmittedAt: time.Now(), Provenance: fleet.ProvenanceFetched,
	}); err != nil {
		b.Fatal(err)
	}
	return cost{wall: time.Since(a.fetched)}
}

// rounds is how often what takes milliseconds is done; the median counts.
const rounds = 9

func median(costs []cost, of func(cost) time.Duration) time.Duration {
	all := make([]time.Duration, len(costs))
	for i, c := range costs {
		all[i] = of(c)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func cpuOf(c cost) time.Duration  { return c.cpu }
func wallOf(c cost) time.Duration { return c.wall }

// most is a bar for 1,000 hosts and one for 10,000; smaller registries have none.
func (r *registryBench) most(of string, thousand, tenThousand float64) bar {
	switch {
	case r.n >= 10_000:
		return bar{of: of, most: tenThousand}
	case r.n >= 1000:
		return bar{of: of, most: thousand}
	}
	return bar{}
}

// agent measures what an agent does with a repository on this machine, from a changed branch to the snapshot on disk, and from the snapshot
// on disk to one in memory.
func (r *registryBench) agent() {
	a := r.newAgent(source.Options{Remote: source.Remote{URL: "file://" + r.dir, Branch: "main"}})
	r.commit()
	a.adopt()
	var whole, after []cost
	for range rounds {
		r.change()
		r.commit()
		start := usedByUs()
		after = append(after, a.adopt())
		whole = append(whole, usedByUs().since(start))
	}
	r.row("agent, one host changed, commit fetched to snapshot on disk", cost{wall: median(after, wallOf)},
		r.most("wall", 0.015, 0.060), bar{of: "wall", part: r.most("", 1.0/60, 1.0/100).most})
	r.row("agent, one host changed, the whole poll", cost{cpu: median(whole, cpuOf), wall: median(whole, wallOf)}, bar{of: "wall", part: r.at(10_000, 1.0/50)})
	starts := r.starts(a.folder())
	r.row("agent, start: snapshot loaded, and what one host serves of it", cost{wall: median(starts, wallOf)}, r.most("wall", 0.060, 0.4), bar{of: "wall", part: r.at(10_000, 1.0/20)})
	r.remotes()
	if r.n == 1000 {
		r.memory()
	}
}

// starts are the starts of an agent from what it holds, each in a process of its own, which has nothing else in its memory.
func (r *registryBench) starts(folder string) (out []cost) {
	r.b.Helper()
	startup := sandboxtest.Build(r.b, "./testdata/startup")
	for range rounds {
		text, err := exec.CommandContext(r.b.Context(), startup, folder).Output()
		if err != nil {
			r.b.Fatal(err)
		}
		took, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			r.b.Fatal(err)
		}
		out = append(out, cost{wall: time.Duration(took)})
	}
	return out
}

// remotes measures polls over https and over ssh. The servers are processes of their own and do not count.
func (r *registryBench) remotes() {
	address, ca, sent := r.serve()
	web := r.newAgent(source.Options{Remote: source.Remote{URL: address, Branch: "main", CAFile: ca}})
	web.adopt()
	r.row("poll without news over https that stays", web.idle(sent), r.most("cpu", 0.002, 0.002), r.most("wire", 1000, 1000))
	var fetches, judged []cost
	web.counts = true
	for range rounds {
		r.change()
		r.commit()
		start, before := usedByUs(), sent()
		offer := web.poll()
		whole, fetch := usedByUs().since(start), web.read.since(start)
		fetch.wire, fetch.cpu = sent()-before, web.read.children-start.children
		whole.cpu -= web.read.cpu - web.read.before // counting
		fetches, judged = append(fetches, fetch), append(judged, whole)
		web.hold(offer)
	}
	var largest int64
	for _, f := range fetches {
		largest = max(largest, f.wire)
	}
	r.row("incremental fetch of one commit over https, by the child of an earlier one",
		cost{cpu: median(fetches, cpuOf), wall: median(fetches, wallOf), wire: largest}, r.most("cpu", 0.015, 0.015), r.most("wire", 16_000, 16_000))
	r.row("the same with all that the agent does, and judged", cost{cpu: median(judged, cpuOf), wall: median(judged, wallOf)})
	var starts []cost
	for range rounds {
		starts = append(starts, r.command(r.stado, "version"))
	}
	r.row("a process of its own: stado version", cost{cpu: median(starts, cpuOf), wall: median(starts, wallOf)})
	r.mirror(address, ca)

	host, m := remotetest.SSHD(r.b, remotetest.Config{}).Host, &wire{}
	u := url.URL{Scheme: "ssh", User: url.User(host.User), Host: net.JoinHostPort(host.Name, strconv.Itoa(host.Port)), Path: r.dir}
	shell := r.newAgent(source.Options{Remote: source.Remote{URL: u.String(), Branch: "main"}, SSH: remote.Options{
		KnownHosts: []string{host.KnownHosts}, Identity: remote.Identity{File: host.Identity}, Dial: m.dial,
	}})
	shell.adopt()
	r.row("poll without news over ssh that stays", shell.idle(m.bytes.Load), r.most("cpu", 0.002, 0.002), r.most("wire", 2000, 2000))
}

// idle is what a poll costs that brings nothing, on average.
func (a *benchAgent) idle(sent func() int64) cost {
	a.poll()
	before, start := sent(), usedByUs()
	const polls = 50
	for range polls {
		if !a.poll().Unchanged {
			a.r.b.Fatal("there were news")
		}
	}
	c := usedByUs().since(start)
	return cost{cpu: c.cpu / polls, wall: c.wall / polls, wire: (sent() - before) / polls}
}

// mirror measures the first read of everything: a poll without news that finds the store gone clones it, and does nothing else.
func (r *registryBench) mirror(address, ca string) {
	a := r.newAgent(source.Options{Remote: source.Remote{URL: address, Branch: "main", CAFile: ca}, Keep: -1})
	a.adopt()
	a.poll()
	if err := os.RemoveAll(filepath.Join(a.home, "registry.git")); err != nil {
		r.b.Fatal(err)
	}
	start := usedByUs()
	a.poll()
	r.row("first mirror over https, whole history", usedByUs().since(start), r.most("cpu", 0.2, 0.8))
	others := children()
	r.newAgent(source.Options{Remote: source.Remote{URL: address, Branch: "main", CAFile: ca}}).poll()
	for _, pid := range children() {
		if slices.Contains(others, pid) {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			r.b.Fatal(err)
		}
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		var kib int64
		if _, err := fmt.Sscan(peak, &kib); err != nil {
			r.b.Fatal(err)
		}
		r.row("first mirror over https, its process", cost{peak: kib << 10}, r.most("peak", 40e6, 40e6))
		return
	}
	r.b.Fatal("the process of the first mirror has not stayed, so it took more than its bar")
}

// memory measures what an agent holds after ten changes and after a thousand.
func (r *registryBench) memory() {
	const changes, few = 1000, 10
	a := r.newAgent(source.Options{Remote: source.Remote{URL: "file://" + r.dir, Branch: "main"}})
	a.adopt()
	var history bytes.Buffer
	from := "from refs/heads/main^0\n"
	for i := range changes {
		fmt.Fprintf(&history, "commit refs/heads/long\ncommitter Ada <ada@example.net> %d +0000\ndata 0\n%s", 1_900_000_000+i, from)
		from = ""
		for path, text := range r.next() {
			fmt.Fprintf(&history, "M 100644 inline %s\ndata %d\n%s\n", path, len(text), text)
		}
	}
	git := func(in io.Reader, args ...string) string {
		cmd := exec.CommandContext(r.b.Context(), "git", args...)
		cmd.Dir, cmd.Stdin = r.dir, in
		out, err := cmd.Output()
		if err != nil {
			r.b.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	git(&history, "fast-import", "--quiet")
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // what the first one has only marked
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var early int64
	for i, id := range strings.Fields(git(nil, "rev-list", "--reverse", "main..long")) {
		r.write(filepath.Join(".git", "refs", "heads", "main"), id+"\n")
		a.adopt()
		if i+1 == few {
			early = heap()
		}
	}
	r.row(fmt.Sprintf("memory of the agent after %d changes", few), cost{peak: early})
	r.row(fmt.Sprintf("memory of the agent after %d changes", changes), cost{peak: heap()}, bar{of: "peak", most: 1.2 * float64(early)})
}

// serve starts an https server of the repository. sent is what has gone over its connections.
func (r *registryBench) serve() (address, ca string, sent func() int64) {
	r.b.Helper()
	cmd := exec.Command(sandboxtest.Build(r.b, "./testdata/gitserver"), filepath.Dir(r.dir))
	in, err := cmd.StdinPipe()
	if err != nil {
		r.b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.b.Fatal(err)
	}
	r.b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	count := ""
	if _, err := fmt.Fscan(out, &address, &count, &ca); err != nil {
		r.b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	r.b.Cleanup(client.CloseIdleConnections)
	return address + "/" + filepath.Base(r.dir) + "/.git", ca, func() (n int64) {
		resp, err := client.Get(count)
		if err != nil {
			r.b.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }() // read
		if _, err := fmt.Fscan(resp.Body, &n); err != nil {
			r.b.Fatal(err)
		}
		return n
	}
}

// wire counts what goes over connections.
type wire struct{ bytes atomic.Int64 }

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	return wiredConn{c, w}, err
}

type wiredConn struct {
	net.Conn
	w *wire
}

func (c wiredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.w.bytes.Add(int64(n))
	return n, err
}

func (c wiredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.w.bytes.Add(int64(n))
	return n, err
}

// moment is what this process and its children have used up to a point in time.
type moment struct {
	before, cpu time.Duration // without and with what it took to find out
	children    time.Duration // of them those of a sandbox that have not ended
	at          time.Time
}

func usedByUs() moment {
	ended := func() (used time.Duration) {
		for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
			var u syscall.Rusage
			if syscall.Getrusage(who, &u) == nil {
				used += time.Duration(u.Utime.Nano() + u.Stime.Nano())
			}
		}
		return used
	}
	m := moment{at: time.Now(), before: ended()}
	var living time.Duration
	for _, pid := range children() {
		var t unix.Timespec
		if unix.ClockGettime(clockOf(pid), &t) == nil {
			living += time.Duration(t.Nano())
		}
	}
	m.before, m.children = m.before+living, living
	m.cpu = ended() + living
	return m
}

func (m moment) since(start moment) cost {
	return cost{cpu: m.before - start.cpu, wall: m.at.Sub(start.at)}
}

// clockOf is the clock of a process's processor time, as clock_getcpuclockid(3) makes it.
func clockOf(pid int) int32 { return int32(^pid<<3 | 2) }

// children are the processes of a sandbox that have not ended.
func children() (pids []int) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for word := range strings.FieldsSeq(string(text)) {
			line, _ := os.ReadFile("/proc/" + word + "/cmdline")
			if pid, err := strconv.Atoi(word); err == nil && strings.HasSuffix(string(line), sandboxVerb+"\x00") {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
