package reconcile

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// TestAskReset: ancestry is all that a person's word passes by.
func TestAskReset(t *testing.T) {
	base := func() *commit { return first(41, "base") }
	orphan := func(generation fleet.Generation) *commit { return first(generation, "anew") }
	trusting := base().trusting("tip ada")
	for _, c := range []struct {
		name      string
		held, tip *commit
		named     string // empty: the tip
		says      string // empty: it may be accepted
	}{
		{name: "anew", held: base(), tip: orphan(42)},
		{name: "anew, and further", held: base(), tip: orphan(60)},
		{name: "the same document", held: base(), tip: base().with(func(c *commit) { c.trailers = map[string]string{"Anew": "x"} })},
		{name: "another commit", held: base(), tip: orphan(42), named: orphan(43).id, says: "the authority's branch is at " + orphan(42).id + ", not at " + orphan(43).id},
		{name: "what is held", held: base(), tip: first(41, "base"), says: "nothing was reset: commit "},
		{name: "a descendant", held: base(), tip: base().then("a"), says: "nothing was reset: commit "},
		{name: "lower", held: base(), tip: orphan(40), says: "STADO-FENCE-001: service directory rollback rejected: generation 40 < 41"},
		{name: "reused", held: base(), tip: orphan(41), says: "STADO-FENCE-002: generation 41 reused: held "},
		{name: "a leap", held: base(), tip: orphan(41 + fleet.MaxLeap + 1), says: "STADO-FENCE-004: generation leap refused"},
		{name: "unstamped", held: base().with(func(c *commit) { c.stamped = true }), tip: orphan(41), says: "STADO-FENCE-005: pending: waiting for a generation"},
		{name: "broken", held: base(), tip: orphan(42).with(func(c *commit) { c.broken = true }), says: "refused: "},
		{name: "empty", held: base(), tip: orphan(42).with(func(c *commit) { c.empty = true }), says: policies.RuleEmptyFleet},
		{name: "unsigned", held: trusting, tip: orphan(42), says: "STADO-SIGN-001"},
		{name: "signed by a stranger", held: trusting, tip: orphan(42).by("eve"), says: "STADO-SIGN-003"},
		{name: "signed", held: trusting, tip: orphan(42).by("ada")},
	} {
		t.Run(c.name, func(t *testing.T) {
			held := c.held
			loopTest(t, held, c.tip, func(b *bench) {
				named := c.named
				if named == "" {
					named = b.repo.tip.id
				}
				st := b.opts.Store
				r, err := AskReset(b.Context(), st, b.repo, named)
				if now, _ := st.Held(); now.Commit != held.id {
					b.Fatalf("asking has written %+v", now)
				}
				if c.says != "" {
					if _, ok := errors.AsType[*ResetError](err); !ok || !strings.Contains(err.Error(), c.says) {
						b.Errorf("got %v\nwant %s", err, c.says)
					}
					return
				}
				if err != nil {
					b.Fatal(err)
				}
				if err := r.Accept(st, "made anew"); err != nil {
					b.Fatal(err)
				}
				now, _ := st.Held()
				if now.Commit != named || now.Generation != r.Generation || now.Reset == nil || now.Reset.FromCommit != held.id || now.Reset.FromGeneration != 41 || now.Reset.Reason != "made anew" {
					b.Errorf("held %+v", now)
				}
				list, err := st.Log()
				if last := list[len(list)-1]; err != nil || len(list) != 2 || last.Commit != named || last.Reset == nil || last.Reset.Reason != "made anew" {
					b.Errorf("journal %+v, %v", list, err)
				}
				if err := r.Accept(st, "twice"); !errors.Is(err, store.ErrOutdated) {
					b.Errorf("twice: %v", err)
				}
				if again := b.open(); again.Snapshot().Commit != named || len(again.Blockers()) > 0 {
					b.Errorf("after a start: %+v, %v", again.Snapshot(), again.Blockers())
				} else if list, err := again.Log(); err != nil || len(list) != 2 {
					b.Errorf("journal after a start: %+v, %v", list, err)
				}
			})
		})
	}
}

// TestAskResetOfNothing: without a held commit there is no history, a silent source is no refusal, and what keeps others away keeps this away.
func TestAskResetOfNothing(t *testing.T) {
	base, tip := first(41, "base"), first(42, "anew")
	refusal := func(b *bench, want string) {
		b.Helper()
		if _, err := AskReset(b.Context(), b.opts.Store, b.repo, tip.id); err == nil || !strings.Contains(err.Error(), want) {
			b.Errorf("got %v, want %s", err, want)
		}
	}
	loopTest(t, nil, tip, func(b *bench) { refusal(b, sayNothingToReset) })
	loopTest(t, base, tip, func(b *bench) {
		b.repo.err = errRefused
		refusal(b, errRefused.Error())
	})
	loopTest(t, base, tip, func(b *bench) {
		b.hand(base.then("a").with(func(c *commit) { c.generation = 42 }))
		if _, err := b.opts.Store.Reload(); err != nil {
			b.Fatal(err)
		}
		refusal(b, sayHeldWithoutRoot)
	})
	loopTest(t, base, tip, func(b *bench) {
		if err := b.opts.Store.Promise(&authority.Promise{Generation: 42, Mover: "b2", Nonce: "n", Incarnation: "i"}); err != nil {
			b.Fatal(err)
		}
		refusal(b, RulePromised)
	})
	loopTest(t, base, tip, func(b *bench) {
		r, err := AskReset(b.Context(), b.opts.Store, b.repo, tip.id)
		if err != nil {
			b.Fatal(err)
		}
		b.suspend(0)
		if err := r.Accept(b.opts.Store, "x"); !errors.Is(err, store.ErrSuspended) {
			b.Errorf("while adoption is suspended: %v", err)
		}
	})
}

// TestAcceptedReset: the running agent refuses the fork, by itself for ever; it goes on from the commit once a person has accepted it, says
// so at every start, and forgets it with the next generation.
func TestAcceptedReset(t *testing.T) {
	base, tip := first(41, "base"), first(43, "anew")
	loopTest(t, base, tip, func(b *bench) {
		b.start()
		b.wantAdopted(41)
		b.pass(10 * refresh)
		b.wantAdopted()
		if s := b.Status(); len(s.Refusals) != 1 || s.Refusals[0].Rule != RuleFork {
			b.Fatalf("%+v", s)
		}
		command := b.open()
		r, err := AskReset(b.Context(), command, &repo{tip: tip}, tip.id)
		if err == nil {
			err = r.Accept(command, "made anew")
		}
		if err != nil {
			b.Fatal(err)
		}
		b.log.list = nil
		b.Poke()
		synctest.Wait()
		b.wantAdopted(43)
		b.wantStatus(`serving 0 ""`)
		held, _ := b.opts.Store.Held()
		said := sayReset(43, *held.Reset)
		if !b.logged(said) {
			b.Errorf("the log lacks %s:\n%s", said, b.log.list)
		}
		b.repo.set(func(r *repo) { r.tip = base.then("a").then("b").then("c") }) // the old history is the fork now
		b.pass(refresh)
		if s := b.Status(); s.Served.Generation() != 43 || len(s.Refusals) != 1 || s.Refusals[0].Rule != RuleFork {
			b.Errorf("%+v", s)
		}
		b.repo.set(func(r *repo) { r.tip = tip.touched() })
		b.pass(refresh)
		if held, _ := b.opts.Store.Held(); held.Reset == nil {
			b.Error("it is forgotten under the same document")
		}
		b.repo.set(func(r *repo) { r.tip = tip.touched().then("on") })
		b.pass(refresh)
		b.wantAdopted(43, 44)
		if held, _ := b.opts.Store.Held(); held.Reset != nil {
			b.Errorf("it outlives its document: %+v", held)
		}
	})
}

// TestResetTransient: an error of the source is not a refusal.
func TestResetTransient(t *testing.T) {
	loopTest(t, first(41, "base"), first(42, "anew"), func(b *bench) {
		b.repo.err = &source.Error{Phase: source.PhaseConnect, Kind: source.KindUnreachable, Cause: "no route"}
		_, err := AskReset(b.Context(), b.opts.Store, b.repo, first(42, "anew").id)
		if _, refused := errors.AsType[*ResetError](err); refused || err == nil {
			b.Errorf("got %v", err)
		}
	})
}
