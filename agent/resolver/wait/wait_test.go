package wait

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestHeldIsStrictlyOlderThanTheInterval(t *testing.T) {
	l := NewLedger(epoch, 30*time.Second)
	a := l.Open("s", "c", "127.0.0.1:1")
	if a.Standing(epoch.Add(time.Hour)) {
		t.Fatal("an adapter without waits has a held one")
	}
	w, listed := a.Begin(Entry{Host: "h", Endpoint: "127.0.0.1:2", Phase: status.PhaseAnswer}, epoch)
	if listed != 1 {
		t.Fatalf("listed = %d", listed)
	}
	for age, want := range map[time.Duration]bool{0: false, 30 * time.Second: false, 30*time.Second + 1: true} {
		if got := a.Standing(epoch.Add(age)); got != want {
			t.Errorf("Standing at %v = %v, want %v", age, got, want)
		}
		if got := len(a.Held("h", "127.0.0.1:2", epoch.Add(age))) == 1; got != want {
			t.Errorf("Held at %v = %v, want %v", age, got, want)
		}
	}
	if got := a.Held("other", "127.0.0.1:2", epoch.Add(time.Hour)); got != nil {
		t.Errorf("a wait counts against another host: %v", got)
	}
	l.SetInterval(time.Minute)
	if a.Standing(epoch.Add(time.Minute)) || !a.Standing(epoch.Add(time.Minute+1)) {
		t.Error("a standing wait does not follow the interval")
	}
	if ended, listed := w.End(Answered); !ended || listed != 0 {
		t.Errorf("End = %v, %d", ended, listed)
	}
	if ended, _ := w.End(ClientGone); ended {
		t.Error("a wait ended twice")
	}
	if l.Ended(Answered) != 1 || l.Ended(ClientGone) != 0 {
		t.Error("only the first end counts")
	}
}

func TestShedTakesAnswersOfEveryAdapterAndExemptOnes(t *testing.T) {
	l := NewLedger(epoch, time.Second)
	a, b := l.Open("a", "c", "1"), l.Open("b", "c", "2")
	begin := func(ad *Adapter, client string, p status.Phase, at time.Duration) *Wait {
		w, _ := ad.Begin(Entry{Client: client, Phase: p}, epoch.Add(at))
		return w
	}
	begin(a, "old", status.PhaseAnswer, 0)
	begin(b, "old too", status.PhaseAnswer, 1)
	begin(b, "opening", status.PhaseOpen, 2)
	begin(a, "exempt", status.PhaseAnswer, 3).Exempt(epoch)
	begin(a, "young", status.PhaseAnswer, time.Hour)
	shed, opening := l.Shed(epoch.Add(time.Hour))
	var clients []string
	for _, w := range shed {
		clients = append(clients, w.Client)
	}
	if diff := gocmp.Diff([]string{"old", "old too", "exempt"}, clients); diff != "" || opening != 1 {
		t.Errorf("shed %s, opening %d", diff, opening)
	}
	if n := len(l.Snapshot()); n != 2 {
		t.Errorf("%d waits left", n)
	}
}

// TestLedgerModel compares the ledger with a plain slice and the one rule of "held".
func TestLedgerModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{interval: time.Second, now: epoch, adapters: map[string]*Adapter{}}
		m.ledger = NewLedger(epoch, m.interval)
		rt.Repeat(map[string]func(*rapid.T){
			"begin":    m.begin,
			"end":      m.end,
			"exempt":   m.exempt,
			"shed":     m.shed,
			"interval": m.setInterval,
			"pass": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"reopen": m.reopen,
			"":       m.check,
		})
	})
}

type modelWait struct {
	real   *Wait
	name   string // of the adapter
	exempt bool
}

type model struct {
	ledger   *Ledger
	interval time.Duration
	now      time.Time
	adapters map[string]*Adapter
	begun    int
	waits    []*modelWait // by Since, then by entry
}

func (m *model) adapter(name string) *Adapter {
	if m.adapters[name] == nil {
		m.adapters[name] = m.ledger.Open(fleet.ServiceName(name), "c", name)
	}
	return m.adapters[name]
}

func (m *model) begin(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "adapter")
	phase := rapid.SampledFrom([]status.Phase{status.PhaseOpen, status.PhaseAnswer}).Draw(t, "phase")
	late := time.Duration(rapid.IntRange(0, 5).Draw(t, "late")) * time.Microsecond
	since := m.now.Add(-late)
	if since.Before(epoch) {
		since = epoch
	}
	host := rapid.SampledFrom([]fleet.HostName{"h1", "h2"}).Draw(t, "host")
	w, _ := m.adapter(name).Begin(Entry{Client: fmt.Sprint(m.begun), Host: host, Endpoint: "e", Phase: phase}, since)
	m.begun++
	m.waits = append(m.waits, &modelWait{real: w, name: name})
	slices.SortStableFunc(m.waits, func(x, y *modelWait) int { return x.real.Since.Compare(y.real.Since) })
}

func (m *model) pick(t *rapid.T) *modelWait {
	if len(m.waits) == 0 {
		t.Skip("no waits")
	}
	return m.waits[rapid.IntRange(0, len(m.waits)-1).Draw(t, "wait")]
}

func (m *model) end(t *rapid.T) {
	w := m.pick(t)
	ended, listed := w.real.End(rapid.SampledFrom([]Reason{Answered, ClientGone, ServiceGone, Cut}).Draw(t, "reason"))
	m.waits = slices.DeleteFunc(m.waits, func(x *modelWait) bool { return x == w })
	if again, _ := w.real.End(Shed); !ended || again || listed != len(m.listed("")) {
		t.Fatalf("End = %v then %v, %d listed", ended, again, listed)
	}
}

func (m *model) exempt(t *rapid.T) {
	w := m.pick(t)
	if got := w.real.Exempt(m.now); got == w.exempt {
		t.Fatalf("Exempt = %v on a wait with exempt=%v", got, w.exempt)
	}
	w.exempt = true
	if p := w.real.Published(); p.UnprovenSince == nil || p.UnprovenSince.After(m.now) {
		t.Fatalf("the list does not say so: %+v", p)
	}
}

func (m *model) shed(t *rapid.T) {
	var want []*Wait
	opening := 0
	kept := m.waits[:0:0]
	for _, w := range m.waits {
		switch {
		case m.now.Sub(w.real.Since) <= m.interval:
			kept = append(kept, w)
		case w.real.Phase == status.PhaseOpen:
			opening++
			kept = append(kept, w)
		default:
			want = append(want, w.real)
		}
	}
	got, gotOpening := m.ledger.Shed(m.now)
	byClient := func(x, y *Wait) int { return strings.Compare(x.Client, y.Client) }
	slices.SortFunc(got, byClient)
	slices.SortFunc(want, byClient)
	if !slices.Equal(got, want) || gotOpening != opening {
		t.Fatalf("shed %d, want %d; opening %d, want %d", len(got), len(want), gotOpening, opening)
	}
	m.waits = kept
}

func (m *model) setInterval(t *rapid.T) {
	m.interval = time.Duration(rapid.IntRange(1, 5).Draw(t, "s")) * time.Second
	m.ledger.SetInterval(m.interval)
}

// reopen gives a handle back and takes it again, as a removed and re-declared adapter does.
func (m *model) reopen(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "adapter")
	if a := m.adapters[name]; a != nil {
		a.Close()
		delete(m.adapters, name)
	}
}

func (m *model) listed(name string) []status.Wait {
	out := []status.Wait{}
	for _, w := range m.waits {
		if name == "" || w.name == name {
			out = append(out, w.real.Published())
		}
	}
	return out
}

func (m *model) check(t *rapid.T) {
	byEntry := func(x, y status.Wait) int {
		return cmp.Or(x.Since.Compare(y.Since), strings.Compare(x.Client, y.Client))
	}
	got, want := m.ledger.Snapshot(), m.listed("")
	if !slices.IsSortedFunc(got, func(x, y status.Wait) int { return x.Since.Compare(y.Since) }) {
		t.Fatal("the list is not ordered by age")
	}
	slices.SortFunc(got, byEntry)
	slices.SortFunc(want, byEntry)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("list differs: %s", diff)
	}
	for _, name := range []string{"a", "b", "c"} {
		a := m.adapter(name)
		held := status.Held(m.listed(name), m.now, m.interval)
		if a.Standing(m.now) != (len(held) > 0) {
			t.Fatalf("adapter %s: Standing = %v with %d held", name, a.Standing(m.now), len(held))
		}
		if n := len(a.Held("h1", "e", m.now)) + len(a.Held("h2", "e", m.now)); n != len(held) {
			t.Fatalf("adapter %s: %d held, want %d", name, n, len(held))
		}
	}
}

func TestForgetsAdaptersWithoutHandlesAndWaits(t *testing.T) {
	l := NewLedger(epoch, time.Second)
	a := l.Open("s", "c", "1")
	w, _ := a.Begin(Entry{}, epoch)
	a.Close()
	if again := l.Open("s", "c", "1"); again != a || !again.Standing(epoch.Add(time.Minute)) {
		t.Error("a wait of a removed adapter is forgotten when the adapter comes back")
	}
	a.Close()
	w.End(Cut)
	if len(l.adapters) != 0 {
		t.Errorf("%d adapters kept", len(l.adapters))
	}
}

func TestConcurrentUse(t *testing.T) {
	l := NewLedger(epoch, time.Nanosecond)
	a := l.Open("s", "c", "1")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				w, _ := a.Begin(Entry{Phase: status.PhaseAnswer}, epoch.Add(time.Duration(i)))
				a.Standing(epoch)
				if i%7 == 0 {
					w.Exempt(epoch)
				}
				if i%50 == 0 {
					l.Shed(epoch.Add(time.Hour))
					l.Snapshot()
				}
				w.End(Answered)
			}
		})
	}
	wg.Wait()
	if n := len(l.Snapshot()); n != 0 {
		t.Errorf("%d waits left", n)
	}
	if l.Ended(Answered)+l.Ended(Shed) != 2000 {
		t.Error("ends are not counted once each")
	}
}

func TestStandingAllocatesNothing(t *testing.T) {
	a := NewLedger(epoch, time.Second).Open("s", "c", "1")
	if n := testing.AllocsPerRun(1000, func() { a.Standing(epoch) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
