package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// TestSources: who does not answer, or offers what the fence refuses, is passed over for the next one; when nobody answers the first
// one's words stand, and the others are named beside them.
func TestSources(t *testing.T) {
	base := first(41, "base")
	newer := base.then("a")
	loopTest(t, base, newer, func(b *bench) {
		second := &repo{tip: newer}
		b.more = []Source{second}
		b.repo.err = errRefused
		b.start()
		b.wantAdopted(42)
		b.wantStatus(`serving 0 ""`)

		b.repo.set(func(r *repo) { r.err, r.tip = nil, base }) // the old authority is back, and goes back
		newest := newer.then("b")
		second.set(func(r *repo) { r.tip = newest })
		b.pass(refresh)
		b.wantAdopted(43)
		b.wantStatus(`serving 0 "" STADO-FENCE-001`)

		second.set(func(r *repo) { r.err = errors.New("no route to host") })
		b.pass(refresh)
		b.wantStatus(`backing_off 1 "service directory rollback rejected: generation 41 < 43; the repository of the test, asked in its place: no route to host" STADO-FENCE-001`)
		b.repo.set(func(r *repo) { r.err = errRefused })
		b.pass(refresh)
		b.wantStatus(`backing_off 2 "connection refused; the repository of the test, asked in its place: no route to host" STADO-FENCE-001`)

		b.repo.set(func(r *repo) { r.err, r.tip = nil, newest.then("c") })
		asked := second.count()
		b.pass(refresh)
		b.wantAdopted(44)
		if second.count() != asked {
			t.Error("a source that answers is not enough")
		}
	})
}

// TestSourcesFollow: the order is that of the snapshot which is held by then.
func TestSourcesFollow(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base.then("a"), func(b *bench) {
		moved := &repo{tip: base.then("a").then("b")}
		b.opts.Sources = func(held *fleet.Snapshot) []Source {
			if held.Generation() > 41 {
				return []Source{moved, b.repo}
			}
			return []Source{b.repo}
		}
		b.start()
		b.wantAdopted(42)
		b.pass(refresh)
		b.wantAdopted(43)
		synctest.Wait()
		if n := b.repo.count(); n != 1 {
			t.Errorf("the first source was read %d times", n)
		}
	})
}

// mirrors are sources that stand beside a first one which is silent.
func (b *bench) mirrors(tips ...*commit) []*repo {
	b.repo.err = errRefused
	var out []*repo
	for i, tip := range tips {
		m := &repo{name: string(rune('A' + i)), tip: tip}
		out, b.more = append(out, m), append(b.more, m)
	}
	return out
}

// TestMostAdvanced: all sources are asked in the place of a silent first one, and the one that is furthest on counts. The status says so.
func TestMostAdvanced(t *testing.T) {
	base := first(41, "base")
	newest := base.then("a").then("b").then("c")
	loopTest(t, base, nil, func(b *bench) {
		m := b.mirrors(base.then("a"), newest, base.then("a").then("b"), first(40, "old"))
		b.start()
		b.wantAdopted(44)
		b.wantStatus(`serving 0 ""`)
		instead := "the registry authority did not answer (connection refused); the registry is read from B in its place"
		b.wantLog(instead, serves(newest))
		if s := b.Status(); *s.Reachable || s.Detail != instead || s.Instead != "B" || s.OfferedGeneration != 0 {
			t.Errorf("%+v", s)
		}
		b.pass(refresh)
		b.wantLog()

		m[0].set(func(r *repo) { r.tip = newest.then("d") })
		b.pass(refresh)
		b.wantAdopted(45)
		b.repo.set(func(r *repo) { r.err, r.tip = nil, newest.then("d") })
		b.pass(refresh)
		if s := b.Status(); !*s.Reachable || s.Detail != "" || s.Instead != "" {
			t.Errorf("%+v", s)
		}
		b.wantLog(strings.Replace(instead, "from B", "from A", 1), serves(newest.then("d")), sayAnswersAgain)
	})
}

// TestContradiction: of two histories that both follow on what is held none is taken, whichever is longer, until one of them is given up
// or the other one has it in its own.
func TestContradiction(t *testing.T) {
	base := first(41, "base")
	one, other := base.then("x"), base.then("a").then("b")
	for name, tips := range map[string][2]*commit{"one is longer": {one, other}, "one generation": {one, base.then("a")}} {
		t.Run(name, func(t *testing.T) {
			loopTest(t, base, nil, func(b *bench) {
				m := b.mirrors(base, tips[0], tips[1])
				b.start()
				b.wantAdopted(41)
				b.pass(refresh)
				s := b.Status()
				if len(s.Refusals) != 1 || s.Refusals[0].Rule != RuleFork || s.Phase != PhaseBackingOff || *s.Reachable || b.Status().Served.Generation() != 41 {
					t.Errorf("%+v", s)
				}
				for _, part := range []string{"connection refused; fork refused: ", " at commit " + tips[0].id + " (generation 42)", " at commit " + tips[1].id + " (generation "} {
					if !strings.Contains(s.Reason, part) {
						t.Errorf("%q is not in %s", part, s.Reason)
					}
				}
				healed := tips[1].then("healed").with(func(c *commit) { c.merged = tips[0] })
				m[2].set(func(r *repo) { r.tip = healed })
				m[0].set(func(r *repo) { r.tip = base })
				b.pass(refresh)
				b.wantAdopted(healed.generation)
				b.wantStatus(`serving 0 ""`)
			})
		})
	}
}

// TestOneRegistryTwoHistories: commits that differ are two histories also when they carry the same document: one of them would be the
// anchor, and what follows on the other a fork for ever.
func TestOneRegistryTwoHistories(t *testing.T) {
	base := first(41, "base")
	with := func(c *commit, word string) *commit {
		return c.with(func(n *commit) { n.trailers = map[string]string{"X": word} })
	}
	for name, tips := range map[string][2]*commit{
		"a change":     {with(base.then("a"), "1"), with(base.then("a"), "2")},
		"none":         {with(base.touched(), "1"), with(base.touched(), "2")},
		"one of each":  {base.touched(), base.then("a")},
		"a bad joint":  {base.then("a"), base.then("x").then("y").then("bad").with(func(c *commit) { c.merged = base.then("a") })},
		"of two parts": {base.then("a").then("b"), base.then("a").then("c").then("d").then("e")},
	} {
		t.Run(name, func(t *testing.T) {
			loopTest(t, base, nil, func(b *bench) {
				m := b.mirrors(tips[0], tips[1])
				m[1].part = 2
				b.start()
				if s := b.Status(); s.Held.Commit != base.id || len(s.Refusals) != 1 || s.Refusals[0].Rule != RuleFork {
					t.Errorf("%+v", s)
				}
				b.repo.set(func(r *repo) { r.err, r.tip = nil, tips[1] })
				b.pass(refresh)
				if s := b.Status(); !*s.Reachable || s.Served.Commit != tips[1].id && tips[1].word != "bad" {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// faces shows another tip at its second poll.
type faces struct {
	*repo
	next *commit
}

func (f *faces) Poll(ctx context.Context, held source.Anchor) (source.Offer, error) {
	if f.count() == 1 {
		f.set(func(r *repo) { r.tip = f.next })
	}
	return f.repo.Poll(ctx, held)
}

// TestTwoFaces: a mirror that says of one history that it has the others' in it, and shows another, is passed over.
func TestTwoFaces(t *testing.T) {
	base := first(41, "base")
	a := base.then("a")
	loopTest(t, base, nil, func(b *bench) {
		b.mirrors(a)
		b.more = append(b.more, &faces{repo: &repo{name: "B", tip: base.then("x").then("y")}, next: a.then("b")})
		b.start()
		b.wantAdopted(42)
		if s := b.Status(); s.Served.Commit != a.id {
			t.Errorf("%+v", s)
		}
	})
}

// cutting fails its polls on demand.
type cutting struct {
	*repo
	fails func(poll int) bool
}

func (c *cutting) Poll(ctx context.Context, held source.Anchor) (source.Offer, error) {
	if c.fails(c.count()) {
		c.set(func(r *repo) { r.polls = append(r.polls, time.Now()) })
		return source.Offer{}, errRefused
	}
	return c.repo.Poll(ctx, held)
}

// journal are the generations that were admitted.
func (b *bench) journal() (out []fleet.Generation) {
	b.Helper()
	list, err := b.opts.Store.Log()
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range list {
		out = append(out, a.Generation)
	}
	return out
}

// TestNoPartIsSkipped: a part of an offer that came to nothing, because another source was believed or its own was cut short, is offered
// again: what follows is never judged without it.
func TestNoPartIsSkipped(t *testing.T) {
	signed := first(41, "base").trusting("tip ada")
	unsigned := signed.then("a").then("b").then("c")
	plain := first(41, "base")
	long := plain.then("a").then("bad").then("c").then("d")
	for name, tc := range map[string]struct {
		held         *commit
		first, later *commit
		mirror       *commit
		part         int
		fails        func(int) bool
		want         []fleet.Generation
	}{
		"blocked, beside a mirror without news": {signed, unsigned, unsigned.then("d").by("ada"), signed, 2, nil, []fleet.Generation{41, 42, 43, 44, 45}},
		"blocked, beside another history":       {signed, unsigned, unsigned.then("d").by("ada"), signed.then("x"), 2, nil, []fleet.Generation{41, 42, 43, 44, 45}},
		"cut short after a part":                {plain, long, long, plain, 1, func(n int) bool { return n == 1 }, []fleet.Generation{41, 42, 44, 45}},
		"cut short after a refused part":        {plain, plain.then("bad").then("c"), plain.then("bad").then("c"), plain, 1, func(n int) bool { return n == 1 }, []fleet.Generation{41, 43}},
	} {
		t.Run(name, func(t *testing.T) {
			loopTest(t, tc.held, tc.first, func(b *bench) {
				b.repo.part = tc.part
				src := &cutting{b.repo, func(n int) bool { return tc.fails != nil && tc.fails(n) }}
				mirror := &repo{name: "A", tip: tc.mirror}
				b.opts.Sources = From(src, mirror)
				b.start()
				b.pass(refresh)
				b.repo.set(func(r *repo) { r.tip, r.part = tc.later, 0 })
				b.pass(2 * refresh)
				if got := b.journal(); !slices.Equal(got, tc.want) {
					t.Errorf("admitted %v, want %v; %+v", got, tc.want, b.Status())
				}
			})
		})
	}
}

// TestPartsOfAMirror: a history that is read in parts is read on where its first part was, without asking the silent authority for every
// part; the part of one that was left behind is read again when it counts.
func TestPartsOfAMirror(t *testing.T) {
	base := first(41, "base")
	a := base.then("a")
	c := a.then("bad").then("b").then("c")
	loopTest(t, base, nil, func(b *bench) {
		m := b.mirrors(c, base)
		m[0].part = 1
		b.start()
		b.wantAdopted(45)
		b.wantStatus(`serving 0 ""`)
		if n := b.repo.count(); n != 1 {
			t.Errorf("the silent authority was asked %d times in one refresh", n)
		}

		d := c.then("d").then("e").then("f")
		m[0].set(func(r *repo) { r.tip = d })
		m[1].set(func(r *repo) { r.tip = d })
		b.pass(refresh)
		b.wantAdopted(48)
		m[0].set(func(r *repo) { r.tip = d.then("g") })
		b.pass(refresh)
		if last := m[0].asked[len(m[0].asked)-1]; !last.Restart || b.Status().Served.Generation() != 49 {
			t.Errorf("asked with %+v, and serves %d", last, b.Status().Served.Generation())
		}
	})
}

// slow takes a while for every poll.
type slow struct{ *repo }

func (s *slow) Poll(ctx context.Context, held source.Anchor) (source.Offer, error) {
	select {
	case <-time.After(2 * refresh / 3):
		return s.repo.Poll(ctx, held)
	case <-ctx.Done():
		return source.Offer{}, ctx.Err()
	}
}

// TestLongMirror: however long a mirror goes on, the authority is asked on every refresh.
func TestLongMirror(t *testing.T) {
	base := first(41, "base")
	tip := base
	for range 50 {
		tip = tip.then("bad")
	}
	loopTest(t, base, base.then("good"), func(b *bench) {
		b.repo.err = errRefused
		b.more = []Source{&slow{&repo{name: "A", tip: tip, part: 1}}}
		b.start()
		b.pass(time.Second)
		b.repo.set(func(r *repo) { r.err = nil })
		b.pass(3 * refresh)
		if s := b.Status(); s.Served.Generation() != 42 || s.Instead != "" {
			t.Errorf("%+v", s)
		}
	})
}

// TestAdvancesToABadTip: what an authority has before a tip that is refused counts, whatever mirrors have.
func TestAdvancesToABadTip(t *testing.T) {
	base := first(41, "base")
	for name, mirror := range map[string]*commit{"behind": base, "another history": base.then("x"), "a longer one": base.then("x").then("y").then("z")} {
		t.Run(name, func(t *testing.T) {
			loopTest(t, base, base.then("a").then("bad"), func(b *bench) {
				b.more = []Source{&repo{name: "A", tip: mirror}}
				b.start()
				b.wantAdopted(42)
				b.pass(refresh)
				if s := b.Status(); s.Served.Commit != base.then("a").id || len(s.Refusals) != 1 || s.Refusals[0].Rule != "STADO-TEST-001" {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestSeenBesideAMirror: what is wrong with the authority stands while a mirror is read, and a mirror that has nothing new does not make
// what is served fresh.
func TestSeenBesideAMirror(t *testing.T) {
	base := first(41, "base")
	for name, tc := range map[string]struct {
		err       error
		reachable bool
		rule      string
	}{
		"silent":         {errRefused, false, ""},
		"beyond a limit": {&source.Error{Phase: source.PhasePack, Kind: source.KindLimit, Cause: "evaluation limit: memory"}, true, source.RuleLimit},
		"credentials":    {&source.Error{Phase: source.PhaseConnect, Kind: source.KindPermission, Cause: "cannot read the credential file"}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			loopTest(t, base, base, func(b *bench) {
				b.more = []Source{&repo{name: "A", tip: base}, &repo{name: "B", tip: first(41, "x").then("other")}}
				b.start()
				loaded := *b.Status().LoadedAt
				b.repo.set(func(r *repo) { r.err = tc.err })
				b.pass(3 * refresh)
				s := b.Status()
				if s.Phase != PhaseServing || s.Reachable == nil || *s.Reachable != tc.reachable || s.Instead != "A" || !s.LoadedAt.Equal(loaded) {
					t.Errorf("%+v", s)
				}
				want := cmp.Or(tc.rule, RuleFork) // else B's history, which is another one
				if len(s.Refusals) != 1 || s.Refusals[0].Rule != want {
					t.Errorf("%+v", s.Refusals)
				}
				b.repo.set(func(r *repo) { r.err = nil })
				b.pass(refresh)
				if s := b.Status(); !*s.Reachable || len(s.Refusals) > 0 || s.Instead != "" || s.LoadedAt.Equal(loaded) {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestHandedBesideAMirror: a mirror that has nothing new keeps nothing away that somebody hands over.
func TestHandedBesideAMirror(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		b.mirrors(base)
		b.start()
		b.hand(base.then("a"))
		b.pass(refresh)
		b.wantAdopted(41, 42)
	})
}

// TestMirrorsAgree plays sources at random commits of a random history against the rule: what is taken is a newest one of them that has
// all others in its history, and nothing when there is none such.
func TestMirrorsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := first(41, "base")
		all := []*commit{base}
		for range rapid.IntRange(1, 8).Draw(t, "commits") {
			from := rapid.SampledFrom(all).Draw(t, "parent")
			next := from.then(rapid.SampledFrom([]string{"a", "b", "c", "bad"}).Draw(t, "word"))
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				next = from.touched()
			case 1:
				next = next.with(func(c *commit) { c.merged = rapid.SampledFrom(all).Draw(t, "merged") })
			}
			all = append(all, next)
		}
		held := store.Held{Commit: base.id, Generation: 41, Digest: base.digest()}
		var answers []result
		var ends []*commit
		for i := range rapid.IntRange(1, 3).Draw(t, "mirrors") {
			r := &repo{name: string(rune('A' + i)), tip: rapid.SampledFrom(all).Draw(t, "tip")}
			o, err := r.Poll(t.Context(), source.Anchor{Commit: base.id, Generation: 41, Digest: base.digest()})
			if err != nil {
				t.Fatal(err)
			}
			w := walk{judge: judgeWord}
			out, err := w.admit(held, snapshotOf(base), o, trail{})
			if err != nil {
				t.Fatal(err)
			}
			if res := (result{from: r, offer: o, held: held, out: out}); res.answered() || res.advances() {
				answers = append(answers, res)
				ends = append(ends, all[slices.IndexFunc(all, func(c *commit) bool { return c.id == res.end().Commit })])
			}
		}
		best, fork := furthest(t.Context(), answers)
		newest := fleet.Generation(0)
		for _, c := range ends {
			newest = max(newest, c.generation)
		}
		agreed := slices.ContainsFunc(ends, func(c *commit) bool {
			return c.generation == newest && !slices.ContainsFunc(ends, func(other *commit) bool { return !c.has(other.id) })
		})
		switch {
		case best != nil && (fork != nil || best.end().Generation != newest):
			t.Fatalf("%+v is taken, %v", best.end(), fork)
		case best != nil:
			end := all[slices.IndexFunc(all, func(c *commit) bool { return c.id == best.end().Commit })]
			for _, c := range ends {
				if !end.has(c.id) {
					t.Fatalf("%s is taken, which does not have %s", end.id, c.id)
				}
			}
		case len(answers) > 0 && fork == nil:
			t.Fatal("nothing is taken, and nothing said")
		case agreed && !slices.ContainsFunc(answers, func(r result) bool { return r.offer.Tip != r.end().Commit }):
			t.Fatalf("nothing is taken although one has all others: %v", fork)
		}
	})
}
