package duty_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/reconcile/duty"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
)

const interval = 4 * time.Second

func id(n int) string { return fmt.Sprintf("%040x", n) }

// registry is generation n, at commit n, of a fleet of three hosts.
func registry(n int, epoch uint64, names fleet.HostName) *fleet.Snapshot {
	return &fleet.Snapshot{Commit: id(n), Digest: strings.Repeat("d", 63) + fmt.Sprint(n%10), Registry: &fleet.Registry{
		Directory: fleet.Directory{Generation: fleet.Generation(n), Authority: fleet.Authority{Host: names, Repository: "/srv/authority.git", Epoch: epoch}},
		Hosts:     map[fleet.HostName]fleet.Host{"atlas": {}, "boreas": {}, "carme": {}},
	}}
}

// src is a source that says what it is told to.
type src struct {
	name  string
	offer source.Offer
	rest  map[string][]source.Offer // the offers after that to whoever holds a commit, one after the other
	asked map[string]int            // for them
	err   error
	polls int
	bad   map[string]bool // commits that nobody vouches for
}

func (s *src) Poll(_ context.Context, held source.Anchor) (source.Offer, error) {
	s.polls++
	rest, asked := s.rest[held.Commit], s.asked[held.Commit]
	if held.Restart || asked == len(rest) {
		s.asked = map[string]int{}
		return s.offer, s.err
	}
	s.asked[held.Commit]++
	return rest[asked], s.err
}

func (s *src) Policies(context.Context, policies.Revision, policies.Revision) (fleet.Findings, error) {
	return fleet.Findings{{Rule: s.name}}, nil
}

func (s *src) Vouch(_ context.Context, q source.Question) (int, *signature.Refusal, error) {
	for i, c := range q.Commits {
		if s.bad[c] {
			return i, &signature.Refusal{Kind: signature.Unsigned, Commit: c, Author: q.Since}, nil
		}
	}
	return len(s.name), nil, nil
}

func (s *src) String() string { return s.name }

// others are what the other hosts hold; a host without a head is silent until it is asked no more.
type others struct {
	mu    sync.Mutex
	heads map[fleet.HostName]authority.Head
	asked int
	reads []fleet.HostName
}

func (o *others) Held(ctx context.Context, _ *fleet.Registry, host fleet.HostName) (authority.Answer, error) {
	o.mu.Lock()
	o.asked++
	h, ok := o.heads[host]
	o.mu.Unlock()
	if !ok {
		<-ctx.Done()
		return authority.Answer{}, ctx.Err()
	}
	return authority.Answer{Host: host, Held: h}, nil
}

func (o *others) History(_ context.Context, _ *fleet.Registry, host fleet.HostName, file string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads = append(o.reads, host)
	return os.WriteFile(file, nil, 0o600)
}

// counted are how many questions were asked, and which hosts' histories were read.
func (o *others) counted() (asked int, reads []fleet.HostName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked, slices.Clone(o.reads)
}

func (o *others) say(host fleet.HostName, s *fleet.Snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s == nil {
		delete(o.heads, host)
		return
	}
	o.heads[host] = authority.HeadOf(s)
}

// bench is one watch of atlas, whose registry is generation 7 in epoch 2.
type bench struct {
	t       *testing.T
	home    string
	others  *others
	bundles map[string]*src // by commit
	own     *src
	watch   *duty.Watch
	pokes   atomic.Int64
	said    strings.Builder
	fault   func(string) error
	stop    func()
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, home: t.TempDir(), others: &others{heads: map[fleet.HostName]authority.Head{}}, bundles: map[string]*src{}, own: &src{name: "own"}}
	same := registry(7, 2, "atlas")
	b.others.say("boreas", same)
	b.others.say("carme", same)
	b.start()
	return b
}

// start starts a watch on the state directory, as a process does.
func (b *bench) start() {
	b.t.Helper()
	w, err := duty.New(duty.Options{
		Home: durable.Folder{Path: b.home, Fault: func(p string) error {
			if b.fault != nil {
				return b.fault(p)
			}
			return nil
		}},
		Peers: b.others, Self: func(*fleet.Snapshot) fleet.HostName { return "atlas" }, Interval: func(*fleet.Snapshot) time.Duration { return interval },
		Bundle: func(file string) (reconcile.Source, error) {
			return b.bundles[strings.TrimSuffix(filepath.Base(file), ".bundle")], nil
		},
		Poke: func() { b.pokes.Add(1) }, Changed: func() {}, Log: slog.New(slog.NewTextHandler(&b.said, nil)),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	b.watch, b.stop = w, func() { cancel(); running.Wait() }
}

// history is what a bundle of a registry is to commit 7: ahead, or forked at a base.
func (b *bench) history(s *fleet.Snapshot, base string) {
	offer := source.Offer{Tip: s.Commit, Descends: base == "", MergeBase: base, Steps: []source.Step{step(s)}}
	b.bundles[s.Commit] = &src{name: "bundle", offer: offer}
}

func step(s *fleet.Snapshot) source.Step {
	return source.Step{Commit: s.Commit, Registry: s.Registry, Digest: s.Digest}
}

// read reads twice, so that what the first round found is known, and gives the tip.
func (b *bench) read(served *fleet.Snapshot) (string, error) {
	b.t.Helper()
	var offer source.Offer
	var err error
	for range 2 {
		guarded := b.watch.Guard(b.own, served)
		offer, err = guarded.Poll(b.t.Context(), source.Anchor{Commit: served.Commit, Generation: served.Generation()})
		synctest.Wait()
	}
	return offer.Tip, err
}

func (b *bench) reads(served *fleet.Snapshot, tip string) {
	b.t.Helper()
	if got, err := b.read(served); err != nil || got != tip {
		b.t.Errorf("the tip is %q, %v, want %q", got, err, tip)
	}
}

// stands compares the record, in memory and on disk.
func (b *bench) stands(d authority.Duty, sentence string) *duty.Record {
	b.t.Helper()
	r, err := duty.Load(b.home)
	if err != nil {
		b.t.Fatal(err)
	}
	if m := b.watch.Record(); (m == nil) != (r == nil) || m != nil && (m.Duty != r.Duty || m.Sentence != r.Sentence || m.Other != r.Other || m.From != r.From) {
		b.t.Errorf("the disk has %+v, memory %+v", r, m)
	}
	switch {
	case r == nil && d == authority.DutyServe:
	case r == nil || r.Duty != d || !strings.HasPrefix(r.Sentence, sentence) || r.Repository != "/srv/authority.git":
		b.t.Errorf("the record is %+v, want %s: %s", r, d, sentence)
	}
	return r
}

func bubble(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		f(t, b)
		b.stop()
	})
}

var mine = registry(7, 2, "atlas")

// silence is how long a round with silent hosts takes.
const silence = 10 * time.Second

func pass(d time.Duration) { time.Sleep(d) }

// However often this host is read, a round starts five seconds after the one before.
func TestRounds(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.own.offer.Tip = "own"
		for round := 1; round <= 4; round++ {
			for range 10 {
				b.reads(mine, "own")
				pass(490 * time.Millisecond)
			}
			if asked, _ := b.others.counted(); asked != 2*round {
				t.Errorf("%d questions in %d rounds of two", asked, round)
			}
			pass(100 * time.Millisecond)
			synctest.Wait()
		}
	})
}

func TestServe(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.own.offer.Tip = "own"
		b.others.say("carme", registry(6, 2, "atlas"))
		begun := time.Now()
		b.reads(mine, "own")
		b.stands(authority.DutyServe, "")
		if _, reads := b.others.counted(); len(reads) > 0 || b.pokes.Load() > 0 || time.Since(begun) > 0 {
			t.Errorf("%v were read, %d pokes, after %s", reads, b.pokes.Load(), time.Since(begun))
		}
		other := registry(7, 2, "boreas")
		if b.watch.Guard(b.own, other) != reconcile.Source(b.own) || b.watch.Guard(b.own, nil) != reconcile.Source(b.own) {
			t.Error("a host that is no authority asks")
		}
	})
}

// The first read waits for hosts that do not answer, for half an interval; later ones do not.
func TestSilent(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.own.offer.Tip = "own"
		b.others.say("boreas", nil)
		begun := time.Now()
		guarded := b.watch.Guard(b.own, mine)
		for i, want := range []time.Duration{interval / 2, interval / 2} {
			offer, err := guarded.Poll(t.Context(), source.Anchor{Commit: mine.Commit})
			if took := time.Since(begun); err != nil || offer.Tip != "own" || took != want*time.Duration(i+1) {
				t.Errorf("read %d: %+v, %v after %s", i, offer, err, took)
			}
		}
		pass(silence) // the end of the first round
		synctest.Wait()
		begun = time.Now()
		if _, err := guarded.Poll(t.Context(), source.Anchor{Commit: mine.Commit}); err != nil || time.Since(begun) > 0 {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// A newer registry of the same history is read in place of this host's own repository, once the record of it is durable.
func TestStepDown(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		next := registry(8, 3, "boreas")
		b.others.say("boreas", next)
		b.others.say("carme", next)
		b.history(next, "")
		b.fault = func(string) error { return errors.New("no space left on device") }
		if _, err := b.read(mine); err == nil || !strings.Contains(err.Error(), "no space left on device") || b.own.polls > 1 {
			t.Errorf("%v, and its own repository was read %d times", err, b.own.polls)
		}
		b.stands(authority.DutyServe, "")
		b.fault = nil
		b.reads(mine, next.Commit)
		const says = "this host is no longer the registry authority: generation 8 names boreas"
		if r := b.stands(authority.DutyStepDown, says); r.Sentence != says || r.Forked || r.From != "boreas" {
			t.Errorf("%+v", r)
		}
		guarded := b.watch.Guard(b.own, mine)
		if _, err := guarded.Poll(t.Context(), source.Anchor{Commit: mine.Commit}); err != nil {
			t.Fatal(err)
		}
		findings, _ := guarded.Policies(t.Context(), policies.Revision{}, policies.Revision{})
		if n, _, _ := guarded.Vouch(t.Context(), source.Question{}); n != len("bundle") || findings[0].Rule != "bundle" {
			t.Errorf("the offer of the bundle is judged by another source: %v, %d", findings, n)
		}
		if _, reads := b.others.counted(); len(reads) != 1 || b.pokes.Load() != 1 || strings.Count(b.said.String(), says) != 1 {
			t.Errorf("read from %v, %d pokes\n%s", reads, b.pokes.Load(), b.said.String())
		}
		b.watch.Adopted(next)
		b.stands(authority.DutyStepDown, says)
		b.stop()
		b.start()
		b.stands(authority.DutyStepDown, says)
		back := registry(9, 4, "atlas")
		b.watch.Adopted(back)
		b.others.say("boreas", back)
		b.others.say("carme", back)
		b.reads(back, b.own.offer.Tip)
		b.stands(authority.DutyServe, "")
	})
}

// A host that is told of its successor by its own registry has stepped down too; one that never was the authority has nothing to say.
func TestAdopted(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.watch.Adopted(registry(6, 1, "carme"))
		b.stands(authority.DutyServe, "")
		b.watch.Adopted(mine)
		b.stands(authority.DutyServe, "")
		b.watch.Adopted(registry(8, 3, "boreas"))
		b.stands(authority.DutyStepDown, "this host is no longer the registry authority: generation 8 names boreas")
		b.watch.Adopted(registry(9, 3, "boreas"))
		b.stands(authority.DutyStepDown, "this host is no longer the registry authority: generation 8 names boreas")
		b.watch.Adopted(registry(10, 4, "carme"))
		b.stands(authority.DutyStepDown, "this host is no longer the registry authority: generation 10 names carme")
	})
}

// Two histories that have both gone on leave this host's own as it is read, until somebody joins them.
func TestForked(t *testing.T) {
	for name, c := range map[string]struct {
		other *fleet.Snapshot
		duty  authority.Duty
		says  string
	}{
		"the role has moved": {registry(6, 3, "boreas"), authority.DutyStepDown, "this host is no longer the registry authority: generation 6 names boreas; the commits made here since their merge base " + id(5)},
		"it has not":         {registry(9, 2, "boreas"), authority.DutyDispute, "authority disputed: host boreas holds generation 9, which names boreas"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				b.own.offer.Tip = "own"
				b.others.say("boreas", c.other)
				b.history(c.other, id(5))
				b.reads(mine, "own")
				if r := b.stands(c.duty, c.says); !r.Forked {
					t.Errorf("%+v", r)
				}
				b.others.say("boreas", nil) // its silence says nothing
				b.stop()
				b.start()
				b.reads(mine, "own")
				pass(silence)
				b.reads(mine, "own")
				b.stands(c.duty, c.says)
				b.others.say("boreas", mine) // people have put it back
				pass(silence)
				b.reads(mine, "own")
				b.reads(mine, "own")
				b.stands(authority.DutyServe, "")
			})
		})
	}
}

// What a command has settled is not brought back.
func TestSettled(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		other := registry(9, 2, "boreas")
		b.others.say("boreas", other)
		b.history(other, id(5))
		b.reads(mine, "")
		b.stands(authority.DutyDispute, "authority disputed")
		healed := registry(10, 2, "atlas")
		b.history(other, other.Commit)
		if err := duty.Write(durable.Folder{Path: b.home}, nil); err != nil {
			t.Fatal(err)
		}
		b.reads(healed, "")
		b.stands(authority.DutyServe, "")
	})
}

func TestAdmits(t *testing.T) {
	r := duty.Record{Duty: authority.DutyStepDown, Host: "atlas", Other: authority.Head{Epoch: 3}}
	disputed := r
	disputed.Duty = authority.DutyDispute
	for _, c := range []struct {
		name     string
		record   duty.Record
		descends bool
		names    fleet.HostName
		epoch    uint64
		admits   bool
	}{
		{"more of this host's own", r, false, "atlas", 2, false},
		{"somebody else's, without what was moved", r, false, "boreas", 4, false},
		{"the other registry", r, true, "boreas", 3, true},
		{"the role back", r, true, "atlas", 4, true},
		{"the role taken back without a move", r, true, "atlas", 3, false},
		{"a join of what is disputed", disputed, true, "atlas", 3, true},
		{"one side of what is disputed", disputed, false, "atlas", 3, false},
	} {
		if got := c.record.Admits(c.descends, fleet.Authority{Host: c.names, Epoch: c.epoch}); got != c.admits {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestDamagedRecord(t *testing.T) {
	home := t.TempDir()
	for _, text := range []string{"", "{", "[]", "{}", `{"duty": "serve", "host": "atlas", "sentence": "x"}`} {
		if err := os.WriteFile(filepath.Join(home, duty.File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := duty.Load(home); err == nil || !strings.Contains(err.Error(), filepath.Join(home, duty.File)) {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
	bubble(t, func(t *testing.T, b *bench) { // the agent runs all the same, and hears the other hosts
		b.stop()
		if err := os.WriteFile(filepath.Join(b.home, duty.File), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.start()
		if r := b.watch.Record(); r == nil || r.Duty != authority.DutyDispute || !strings.Contains(r.Sentence, duty.File+" cannot be read") {
			t.Errorf("%+v", r)
		}
		b.reads(mine, "")
		b.stands(authority.DutyServe, "")
	})
}
