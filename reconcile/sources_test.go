package reconcile

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

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
		if s := b.Status(); *s.Reachable || s.Detail != instead || s.OfferedGeneration != 44 {
			t.Errorf("%+v", s)
		}
		b.pass(refresh)
		b.wantLog()

		m[0].set(func(r *repo) { r.tip = newest.then("d") })
		b.pass(refresh)
		b.wantAdopted(45)
		b.repo.set(func(r *repo) { r.err, r.tip = nil, newest.then("d") })
		b.pass(refresh)
		if s := b.Status(); !*s.Reachable || s.Detail != "" {
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
				m := b.mirrors(base.touched(), tips[0], tips[1])
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

// TestAdvancesToABadTip: what an authority has before a tip that is refused counts for more than a mirror that has nothing new.
func TestAdvancesToABadTip(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base.then("a").then("bad"), func(b *bench) {
		b.more = []Source{&repo{name: "A", tip: base}}
		b.start()
		b.wantAdopted(42)
		if s := b.Status(); s.Served.Generation() != 42 || len(s.Refusals) != 1 || s.Refusals[0].Rule != "STADO-TEST-001" {
			t.Errorf("%+v", s)
		}
	})
}

// TestMirrorsAgree plays sources at random commits of a random history against the rule: what is taken is the newest of them when it
// descends from all others that follow on what is held, and nothing otherwise.
func TestMirrorsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := []*commit{first(41, "base")}
		for range rapid.IntRange(1, 6).Draw(t, "commits") {
			from := rapid.SampledFrom(all).Draw(t, "parent")
			all = append(all, from.then(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "word")))
		}
		tips := rapid.SliceOfN(rapid.SampledFrom(all), 1, 3).Draw(t, "tips")
		var answers []result
		for i, tip := range tips {
			r := &repo{name: string(rune('A' + i)), tip: tip, part: rapid.IntRange(0, 2).Draw(t, "part")}
			o, err := r.Poll(t.Context(), source.Anchor{Commit: all[0].id, Generation: 41, Digest: all[0].digest()})
			if err != nil {
				t.Fatal(err)
			}
			w := walk{judge: judgeWord}
			held := store.Held{Commit: all[0].id, Generation: 41, Digest: all[0].digest()}
			out, err := w.admit(held, snapshotOf(all[0]), o, trail{})
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, result{from: r, offer: o, held: held, out: out})
		}
		best, fork := furthest(t.Context(), answers)
		ends := map[string]*commit{}
		for _, r := range answers {
			i := slices.IndexFunc(all, func(c *commit) bool { return c.id == r.end().Commit })
			ends[r.from.String()] = all[i]
		}
		newest := slices.MaxFunc(slices.Collect(maps.Values(ends)), func(a, b *commit) int { return cmp.Compare(a.generation, b.generation) })
		agree := true
		for _, c := range ends {
			agree = agree && (c == newest || slices.ContainsFunc(newest.chain(), c.is))
		}
		switch {
		case agree && (fork != nil || best == nil || best.end().Generation != newest.generation):
			t.Fatalf("%v, %+v of %v", best, fork, ends)
		case !agree && (fork == nil || best != nil):
			t.Fatalf("%v is taken of %v", best, ends)
		}
	})
}
