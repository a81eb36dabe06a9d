package reconcile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/store"
)

// hand puts a document without a commit into the copy, as a command beside the agent does.
func (b *bench) hand(c *commit) {
	b.Helper()
	s := snapshotOf(c)
	s.Commit, s.Provenance = "", fleet.ProvenanceHandedOver
	if err := b.open().Put(s); err != nil {
		b.Fatal(err)
	}
}

func handed(cause string, generation string) string {
	return "stado resolver: the registry authority did not answer (" + cause + "); adopting the newer registry this host was handed, directory generation " + generation
}

// TestHandedOver: a refresh that fails, is refused, or passes without an answer looks at the copy, and the generation is the fence.
func TestHandedOver(t *testing.T) {
	base := first(41, "base")
	newer := base.then("a").then("b")
	const silence = "no answer from the registry authority a1 within 30s"
	for name, c := range map[string]struct {
		fail  func(*repo)
		cause string
		next  string // cause of the next read, which this repository answers as before
	}{
		"unreachable": {func(r *repo) { r.err = errRefused }, "connection refused", "connection refused"},
		"refused":     {func(r *repo) { r.tip = base.then("x").with(func(c *commit) { c.generation = 40 }) }, "service directory rollback rejected: generation 40 < 43", "service directory rollback rejected: generation 40 < 43"},
	} {
		t.Run(name, func(t *testing.T) {
			loopTest(t, base, base, func(b *bench) {
				b.start()
				b.wantAdopted(41)
				b.log.list = nil
				b.repo.set(c.fail)
				b.hand(newer)
				reads := b.repo.count()
				b.pass(refresh)
				b.wantAdopted(43)
				b.wantLog(handed(c.cause, "43"), "stado resolver serves generation 43 of the registry, handed over",
					"stado resolver refresh failed, attempt 1, next on the declared 30s interval: "+c.next)
				if s := b.Status(); s.StoreVersion != VersionHandedOver || s.Served.Generation() != 43 {
					t.Errorf("%+v", s)
				}
				if n := b.repo.count() - reads; n != 2 {
					t.Errorf("%d reads; the authority that the copy names is asked at once", n)
				}
			})
		})
	}
	t.Run("silent", func(t *testing.T) {
		loopTest(t, base, base, func(b *bench) {
			b.start()
			b.wantAdopted(41)
			b.log.list = nil
			silent := make(chan struct{})
			b.repo.set(func(r *repo) { r.silent = silent })
			b.hand(newer.with(func(c *commit) { c.authority = "b2" }))
			b.pass(refresh)
			if host := b.Status().AuthorityHost; host != "a1" {
				t.Errorf("a1 is asked, and the state names %s", host)
			}
			b.pass(refresh)
			b.wantAdopted(43)
			if host := b.Status().AuthorityHost; host != "b2" {
				t.Errorf("b2 is asked, and the state names %s", host)
			}
			b.wantLog(handed(silence, "43"), "stado resolver serves generation 43 of the registry, handed over")
			close(silent) // what the old authority says at last is older than what is held
			synctest.Wait()
			b.wantAdopted()
			if s := b.Status(); s.Served.Generation() != 43 || len(s.Refusals) != 1 || s.Refusals[0].Rule != RuleRollback {
				t.Errorf("%+v", s)
			}
		})
	})
}

// TestHandedOverNothingNewer: the refresh fails as before.
func TestHandedOverNothingNewer(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		b.start()
		b.log.list = nil
		b.repo.set(func(r *repo) { r.err = errRefused })
		b.pass(refresh)
		b.wantStatus(`backing_off 1 "connection refused"`)
		b.wantAdopted(41)
	})
}

// TestHandedOverUnreadable: a copy that cannot be read is named beside the authority's own refusal.
func TestHandedOverUnreadable(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		b.start()
		b.repo.set(func(r *repo) { r.err = errRefused })
		if err := os.WriteFile(filepath.Join(b.dir, store.HeldFile), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.pass(refresh)
		s := b.Status()
		if want := "connection refused; this host's last-known-good copy cannot be read: " + filepath.Join(b.dir, store.HeldFile); !strings.HasPrefix(s.Reason, want) || s.Served.Generation() != 41 {
			t.Errorf("%+v", s)
		}
	})
}

// TestHandedOverDuringARead: what a read brings was judged against what was held before, so it is read anew.
func TestHandedOverDuringARead(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base.then("a"), func(b *bench) {
		silent := make(chan struct{})
		b.repo.silent = silent
		b.start()
		b.hand(base.then("x").then("y"))
		close(silent)
		synctest.Wait()
		b.pass(refresh)
		if s := b.Status(); s.Held.Generation != 43 || s.Served.Generation() != 43 {
			t.Errorf("%+v", s)
		}
	})
}

// TestAsk: what a source has is judged as a refresh judges it, in parts too, and nothing is written before it is handed over.
func TestAsk(t *testing.T) {
	base := first(41, "base")
	tip := base.then("a").then("b").then("c")
	for _, part := range []int{0, 1, 2} {
		loopTest(t, base, base, func(b *bench) {
			a, err := Ask(t.Context(), b.opts.Store, &repo{tip: tip, part: part})
			if err != nil || a.Refusal != nil || a.Newest != 44 || a.Snapshot.Generation() != 44 || a.Tip != tip.id {
				t.Fatalf("part %d: %+v %v", part, a, err)
			}
			if held, _ := b.opts.Store.Held(); held.Generation != 41 {
				t.Errorf("asking has written %+v", held)
			}
			if err := a.HandOver(b.opts.Store); err != nil {
				t.Fatal(err)
			}
			held, _ := b.opts.Store.Held()
			list, err := b.opts.Store.Log()
			if held.Generation != 44 || held.Commit != tip.id || held.Provenance != fleet.ProvenanceHandedOver || err != nil || len(list) != 4 {
				t.Errorf("%+v %+v %v", held, list, err)
			}
			if err := a.HandOver(b.opts.Store); !errors.Is(err, store.ErrOutdated) {
				t.Errorf("handing over twice: %v", err)
			}
		})
	}
	loopTest(t, base, base, func(b *bench) {
		for name, tip := range map[string]*commit{RuleFork: first(43, "other"), RuleRollback: base.then("x").with(func(c *commit) { c.generation = 40 })} {
			if a, err := Ask(t.Context(), b.opts.Store, &repo{tip: tip}); err != nil || a.Refusal == nil || a.Refusal.Rule != name || a.Snapshot != nil {
				t.Errorf("%s: %+v %v", name, a, err)
			}
		}
		if a, err := Ask(t.Context(), b.opts.Store, &repo{tip: base}); err != nil || a.Refusal != nil || a.Snapshot != nil {
			t.Errorf("what is held: %+v %v", a, err)
		}
		if _, err := Ask(t.Context(), b.opts.Store, &repo{tip: base, err: errRefused}); !errors.Is(err, errRefused) {
			t.Errorf("got %v", err)
		}
	})
}

// TestHandedOverUnderAPart: a part that cannot be held, because somebody has handed a registry over at that moment, is not held on a
// second try either: it was judged against what is not held any more.
func TestHandedOverUnderAPart(t *testing.T) {
	base := first(41, "base")
	offered := base.then("a").then("b").then("c").then("d")
	loopTest(t, base, offered, func(b *bench) {
		l := newLoop(b.Reconciler)
		l.tick = time.NewTimer(refresh)
		defer l.tick.Stop()
		b.repo.part = 3
		res := l.look(t.Context(), inquiry{sources: l.sources()})
		if !res.offer.Partial || res.out.final.Generation() != 44 {
			t.Fatalf("%+v", res)
		}
		b.hand(base.then("x").then("y")) // another history
		if l.settle(res) {
			t.Error("the part was taken")
		}
		if held, _ := b.opts.Store.Held(); held.Generation != 43 || held.Provenance != fleet.ProvenanceHandedOver {
			t.Errorf("%+v", held)
		}
	})
}

// TestHandDocument: a document without a commit is judged as one change from what is held, and refused where signatures are asked for.
func TestHandDocument(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		st := b.opts.Store
		lower := base.then("x").with(func(c *commit) { c.generation = 40 })
		if err := HandDocument(st, snapshotOf(lower), File{}); err == nil || !strings.Contains(err.Error(), "the document is refused: ") {
			t.Errorf("lower: %v", err)
		}
		empty := base.then("x").with(func(c *commit) { c.empty = true })
		if err := HandDocument(st, snapshotOf(empty), File{}); err == nil || !strings.Contains(err.Error(), policies.RuleEmptyFleet) {
			t.Errorf("empty: %v", err)
		}
		digest := st.Snapshot().Digest
		if err := HandDocument(st, snapshotOf(base.then("a")), File{Bases: []string{"other", "another"}}); err == nil ||
			!strings.Contains(err.Error(), "the document is refused: it follows on other, another, and this host holds generation 41 with digest "+digest+" (") {
			t.Errorf("forked: %v", err)
		}
		if err := HandDocument(st, snapshotOf(base.then("a")), File{Bases: []string{"other", digest}}); err != nil {
			t.Fatal(err)
		}
		held, _ := st.Held()
		if held.Generation != 42 || held.Commit != "" || held.Provenance != fleet.ProvenanceHandedOver {
			t.Errorf("%+v", held)
		}
		st.Snapshot().Registry.Trust = &fleet.Trust{Mode: fleet.TrustTip}
		if err := HandDocument(st, snapshotOf(base.then("a").then("b")), File{}); err == nil || !strings.Contains(err.Error(), "asks for signatures (trust mode tip): STADO-SIGN-001: the document carries no signature") {
			t.Errorf("unsigned: %v", err)
		}
	})
	loopTest(t, nil, base, func(b *bench) {
		if err := HandDocument(b.opts.Store, snapshotOf(base), File{}); err == nil {
			t.Error("a document follows on nothing")
		}
	})
}
