package resolver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
	"stado.internal/stado/porttest"
)

func TestAdapters(t *testing.T) {
	g := newRig(t, nil)
	web := porttest.Address(t)
	socket := "unix://" + filepath.Join(t.TempDir(), "db.sock")
	g.apply(registry{
		generation: 1, api: porttest.Address(t), adapters: []fleet.Adapter{adapterOf("web", web), adapterOf("db", socket)},
		endpoints: map[fleet.ServiceName]string{"web": serve(t, named("web")), "db": serve(t, named("db"))},
	}.snapshot(), "a1")
	for address, want := range map[string]string{web: "web", socket: "db"} {
		if got := ask(t, dial(t, address)); got != want {
			t.Errorf("%s is answered by %s", address, got)
		}
	}
	if info, err := os.Stat(strings.TrimPrefix(socket, "unix://")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	doc := g.document()
	if !doc.Listening || len(doc.Adapters) != 2 || !doc.API.Listening || len(doc.Candidates) != 2 || !doc.Candidates[0].Eligible || doc.Reason != "" {
		t.Errorf("%+v", doc)
	}
}

// One snapshot moves an adapter, swaps the addresses of two, changes a protocol and adds one; a download over a kept adapter runs on.
func TestApplyTouchesOnlyWhatChanged(t *testing.T) {
	g := newRig(t, nil)
	step := make(chan struct{})
	slow := serve(t, func(c net.Conn) {
		for range step {
			if _, err := c.Write([]byte("chunk")); err != nil {
				t.Error(err)
			}
		}
	})
	urls := map[fleet.ServiceName]string{"slow": slow, "a": serve(t, named("a")), "b": serve(t, named("b")), "c": serve(t, named("c"))}
	kept, from, to, one, two := porttest.Address(t), porttest.Address(t), porttest.Address(t), porttest.Address(t), porttest.Address(t)
	api := porttest.Address(t)
	first := registry{generation: 1, api: api, endpoints: urls, adapters: []fleet.Adapter{
		adapterOf("slow", kept), adapterOf("c", from), adapterOf("a", one), adapterOf("b", two),
	}}
	g.apply(first.snapshot(), "a1")
	download := dial(t, kept)
	chunk := make([]byte, 5)
	read := func() {
		t.Helper()
		step <- struct{}{}
		if _, err := io.ReadFull(download, chunk); err != nil {
			t.Fatal(err)
		}
	}
	read()
	leaving := dial(t, from)
	if got := ask(t, leaving); got != "c" {
		t.Fatal(got)
	}

	second := first
	second.generation = 2
	changed := adapterOf("slow", kept)
	changed.Protocol = fleet.ProtocolTCP
	second.adapters = []fleet.Adapter{adapterOf("c", to), changed, adapterOf("a", two), adapterOf("b", one)}
	g.apply(second.snapshot(), "a1")
	read()
	close(step)
	if rest, err := io.ReadAll(download); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v", rest, err)
	}
	for address, want := range map[string]string{to: "c", two: "a", one: "b"} {
		if got := ask(t, dial(t, address)); got != want {
			t.Errorf("%s is answered by %s, not %s", address, got, want)
		}
	}
	if _, err := net.Dial("tcp", from); err == nil {
		t.Error("the adapter still listens where it was")
	}
	if got := ask(t, leaving); got != "c" {
		t.Error("a relay of the removed adapter was cut")
	}
	doc := g.document()
	for _, l := range doc.Adapters {
		if !l.Listening || l.Problem != "" {
			t.Errorf("%+v", l)
		}
	}
	if doc.Adapters[0].Bind != to || doc.Adapters[1].Bind != kept {
		t.Error("the adapters are not in declared order")
	}
}

// New connections of a kept listener follow the new route at once.
func TestRouteChangesUnderAKeptListener(t *testing.T) {
	g := newRig(t, nil)
	bind, api := porttest.Address(t), porttest.Address(t)
	r := registry{generation: 1, api: api, adapters: []fleet.Adapter{adapterOf("web", bind)}, endpoints: map[fleet.ServiceName]string{"web": serve(t, named("old"))}}
	g.apply(r.snapshot(), "a1")
	before := dial(t, bind)
	if got := ask(t, before); got != "old" {
		t.Fatal(got)
	}
	r.generation, r.endpoints = 2, map[fleet.ServiceName]string{"web": serve(t, named("new"))}
	g.apply(r.snapshot(), "a1")
	if got := ask(t, dial(t, bind)); got != "new" {
		t.Errorf("a new connection is answered by %s", got)
	}
	if got := ask(t, before); got != "old" {
		t.Errorf("the relay in flight is answered by %s", got)
	}
}

func TestBindTakenThenFreed(t *testing.T) {
	g := newRig(t, nil)
	holder, err := net.Listen("tcp", porttest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	taken, free, api := holder.Addr().String(), porttest.Address(t), porttest.Address(t)
	r := registry{
		generation: 1, api: api, refresh: 1, adapters: []fleet.Adapter{adapterOf("web", taken), adapterOf("db", free)},
		endpoints: map[fleet.ServiceName]string{"web": serve(t, named("web")), "db": serve(t, named("db"))},
	}
	g.apply(r.snapshot(), "a1")
	_, port, _ := net.SplitHostPort(taken)
	want := "nothing can listen on " + taken + " for web (consumer shop): address already in use; find who holds it with `ss -ltnp 'sport = :" + port +
		"'` and stop it, or give the adapter another port; the resolver tries again at every refresh"
	doc := g.document()
	if doc.Listening || doc.Adapters[0].Listening || doc.Adapters[0].Problem != want || !doc.Adapters[1].Listening {
		t.Errorf("%+v", doc)
	}
	if got := ask(t, dial(t, free)); got != "db" {
		t.Errorf("the other adapter answers %s", got)
	}
	if strings.Count(g.log.String(), want) != 1 {
		t.Error("the sentence is not in the log once")
	}
	_ = holder.Close()
	g.until("the adapter is bound without another snapshot", func() bool { return g.document().Adapters[0].Listening })
	if got := ask(t, dial(t, taken)); got != "web" {
		t.Errorf("answered by %s", got)
	}
	if doc := g.document(); doc.Adapters[0].Problem != "" || !doc.Listening {
		t.Errorf("%+v", doc)
	}
}

func TestHostWithoutResolver(t *testing.T) {
	g := newRig(t, nil)
	bind := porttest.Address(t)
	r := registry{generation: 1, api: porttest.Address(t), adapters: []fleet.Adapter{adapterOf("web", bind)}, endpoints: map[fleet.ServiceName]string{"web": serve(t, named("web"))}}
	g.apply(r.snapshot(), "a1")
	running := dial(t, bind)
	if got := ask(t, running); got != "web" {
		t.Fatal(got)
	}
	g.apply(r.snapshot(), "z9")
	doc := g.document()
	if doc.Listening || doc.API != nil || len(doc.Adapters) != 0 || !strings.Contains(doc.Reason, `host "z9" is not in the registry at generation 1`) {
		t.Errorf("%+v", doc)
	}
	if _, err := net.Dial("tcp", bind); err == nil {
		t.Error("the adapter still listens")
	}
	if got := ask(t, running); got != "web" {
		t.Error("the relay in flight was cut")
	}
}

// The route back into the resolver is refused at once, and the resolver keeps serving.
func TestHeldSelfLoop(t *testing.T) {
	g := newRig(t, nil)
	loop, fine, api := porttest.Address(t), porttest.Address(t), porttest.Address(t)
	_, port, _ := net.SplitHostPort(loop)
	six := "[::1]:" + port
	for name, url := range map[string]string{"address": "http://" + loop, "localhost": "http://localhost:" + port, "API": "http://" + api, "IPv6": "http://" + six} {
		t.Run(name, func(t *testing.T) {
			g.apply(registry{
				generation: 1, api: api, adapters: []fleet.Adapter{adapterOf("loop", loop), adapterOf("six", six), adapterOf("web", fine)},
				endpoints: map[fleet.ServiceName]string{"loop": url, "six": url, "web": serve(t, named("web"))},
			}.snapshot(), "a1")
			got, err := io.ReadAll(dial(t, loop))
			if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 502 Bad Gateway\r\n") || !strings.Contains(string(got), "service loop resolves to "+url+", which is ") {
				t.Errorf("%q, %v", got, err)
			}
			if got := ask(t, dial(t, fine)); got != "web" {
				t.Error("the resolver serves nobody any more")
			}
			for _, c := range g.document().Candidates {
				if c.Eligible != (c.Service == "web") {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

// A request that nobody answers stands in the published list until its client leaves; then the next caller is relayed.
func TestHeldAnswer(t *testing.T) {
	g := newRig(t, nil)
	bind := porttest.Address(t)
	g.apply(registry{
		generation: 1, api: porttest.Address(t), refresh: 1, adapters: []fleet.Adapter{adapterOf("web", bind)},
		endpoints: map[fleet.ServiceName]string{"web": serve(t, silent)},
	}.snapshot(), "a1")
	held := dial(t, bind)
	if _, err := io.WriteString(held, "ping"); err != nil {
		t.Fatal(err)
	}
	g.until("the wait is published", func() bool { return len(g.listed()) == 1 && g.listed()[0].Phase == status.PhaseAnswer })
	g.until("the wait is held", func() bool { return len(status.Held(g.listed(), time.Now(), time.Second)) == 1 })
	got, err := io.ReadAll(dial(t, bind))
	if err != nil || !strings.Contains(string(got), "not relayed: this host's resolver holds 1 connection(s) on that adapter unanswered longer than the 1s refresh interval it declares, ") {
		t.Errorf("%q, %v", got, err)
	}
	if c := g.document().Candidates[0]; c.Eligible || !strings.HasPrefix(c.Reason, "not relayed: ") {
		t.Errorf("%+v", c)
	}
	_ = held.Close()
	g.until("the list is empty", func() bool { return len(g.listed()) == 0 })
	next := dial(t, bind)
	if _, err := io.WriteString(next, "ping"); err != nil {
		t.Fatal(err)
	}
	g.until("the next caller is relayed", func() bool { return len(g.listed()) == 1 })
}

// A reader of a line that announces a wait finds a list that holds it, for every wait.
func TestListIsOnDiskBeforeTheLine(t *testing.T) {
	g := newRig(t, nil)
	bind := porttest.Address(t)
	said := make(chan string, 1)
	g.log.said = func(line string) {
		if !strings.Contains(line, "request sent to ") {
			return
		}
		asking := 0
		for _, w := range g.listed() {
			if w.Phase == status.PhaseAnswer {
				asking++
			}
		}
		said <- fmt.Sprintf("%d on disk, and the line says %s", asking, line[strings.LastIndex(line, "; ")+2:])
	}
	g.apply(registry{
		generation: 1, api: porttest.Address(t), adapters: []fleet.Adapter{adapterOf("web", bind)},
		endpoints: map[fleet.ServiceName]string{"web": serve(t, silent)},
	}.snapshot(), "a1")
	for n := 1; n <= 20; n++ {
		if _, err := io.WriteString(dial(t, bind), "ping"); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-said:
			if want := fmt.Sprintf("%d on disk, and the line says %[1]d open(s) now waiting for an answer", n); got != want {
				t.Errorf("%s; want %s", got, want)
			}
		case <-time.After(limit):
			t.Fatal("the line was never said")
		}
	}
}

// At the end relays get the drain time and new connections none, and the list on disk ends empty.
func TestShutdown(t *testing.T) {
	g := newRig(t, func(o *Options) { o.Drain = limit })
	bind, api := porttest.Address(t), porttest.Address(t)
	finish := make(chan struct{})
	url := serve(t, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 4))
		<-finish
		_, _ = c.Write([]byte("done"))
	})
	finishNow := sync.OnceFunc(func() { close(finish) })
	t.Cleanup(finishNow)
	finishing := g.waiting(bind, api, url)
	ended := make(chan struct{})
	go func() { defer close(ended); g.stop() }()
	g.until("nobody is accepted", func() bool {
		c, err := net.Dial("tcp", bind)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	finishNow()
	if got, err := io.ReadAll(finishing); err != nil || string(got) != "done" {
		t.Errorf("a relay that could finish read %q, %v", got, err)
	}
	_ = finishing.Close()
	<-ended
	g.overAndEmpty(api)
	g.resolver.Apply(registry{generation: 2, api: api}.snapshot(), "a1")
	if _, err := net.Dial("tcp", api); err == nil {
		t.Error("a snapshot after the end binds")
	}
}

// A relay that outlasts the drain time is cut.
func TestShutdownCuts(t *testing.T) {
	g := newRig(t, func(o *Options) { o.Drain = 100 * time.Millisecond })
	bind, api := porttest.Address(t), porttest.Address(t)
	hanging := g.waiting(bind, api, serve(t, silent))
	g.stop()
	if got, err := io.ReadAll(hanging); len(got) != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("it read %q, %v", got, err)
	}
	g.overAndEmpty(api)
}

// waiting is a client of the service at url that waits for an answer, which the published list says.
func (g *rig) waiting(bind, api, url string) net.Conn {
	g.t.Helper()
	g.apply(registry{
		generation: 1, api: api, adapters: []fleet.Adapter{adapterOf("web", bind)}, endpoints: map[fleet.ServiceName]string{"web": url},
	}.snapshot(), "a1")
	c := dial(g.t, bind)
	if _, err := io.WriteString(c, "ping"); err != nil {
		g.t.Fatal(err)
	}
	g.until("it waits", func() bool { list := g.listed(); return len(list) == 1 && list[0].Phase == status.PhaseAnswer })
	return c
}

// overAndEmpty looks at what a resolver that has ended leaves behind.
func (g *rig) overAndEmpty(api string) {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(g.folder, status.WaitingFile))
	if err != nil || strings.TrimSpace(string(data)) != "[]" {
		g.t.Errorf("the list ends as %s, %v", data, err)
	}
	if _, err := net.Dial("tcp", api); err == nil {
		g.t.Error("the API still listens")
	}
}
