package reconcile

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// TestPromised: a generation that is promised to one mover is taken from nobody else, whatever the parts it comes in; the mover's own
// document is taken, and so is what lies above the promise.
func TestPromised(t *testing.T) {
	base := first(41, "base")
	tip := base.then("a").then("b")
	for _, part := range []int{0, 1} {
		loopTest(t, base, tip, func(b *bench) {
			b.repo.part = part
			if err := b.opts.Store.Promise(&authority.Promise{Generation: 43, Mover: "b2", Nonce: "n1"}); err != nil {
				t.Fatal(err)
			}
			b.start()
			b.wantAdopted(41) // from the store: who offers what is promised to another does not answer
			s := b.Status()
			if len(s.Refusals) != 1 || s.Refusals[0].Rule != RulePromised || !strings.Contains(s.Refusals[0].Sentence, "b2") || s.Held.Generation != 41 {
				t.Fatalf("part %d: %+v", part, s)
			}
			own := tip.with(func(c *commit) { c.trailers = map[string]string{source.TrailerNonce: "n1"} })
			b.repo.set(func(r *repo) { r.tip = own })
			b.pass(refresh)
			if s := b.Status(); s.Held.Generation != 41 {
				t.Errorf("a nonce without its mover is enough: %+v", s)
			}
			b.repo.set(func(r *repo) { r.tip = tip.then("c") })
			b.pass(refresh)
			b.wantAdopted(44)
			b.wantStatus(`serving 0 ""`)
		})
	}
}

// TestPromisedMeanwhile: what another program has promised while the authority was read counts before what that read brought is held.
func TestPromisedMeanwhile(t *testing.T) {
	base := first(41, "base")
	for _, part := range []int{0, 1} {
		loopTest(t, base, base.then("a").then("b"), func(b *bench) {
			b.repo.part = part
			silent := make(chan struct{})
			b.repo.silent = silent
			b.start()
			other, err := store.Open(b.dir, nil)
			if err == nil {
				err = other.Promise(&authority.Promise{Generation: 43, Mover: "b2", Nonce: "n1"})
			}
			if err != nil {
				t.Fatal(err)
			}
			close(silent)
			b.pass(refresh)
			if s := b.Status(); s.Held.Generation != 41 || len(s.Refusals) != 1 || s.Refusals[0].Rule != RulePromised {
				t.Errorf("part %d: %+v", part, s)
			}
		})
	}
	loopTest(t, base, base, func(b *bench) {
		a, err := Ask(t.Context(), b.opts.Store, &repo{tip: base.then("a")})
		if err == nil {
			err = b.opts.Store.Promise(&authority.Promise{Generation: 43, Mover: "b2", Nonce: "n1"})
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := a.HandOver(b.opts.Store); !errors.Is(err, store.ErrOutdated) {
			t.Errorf("handed over in spite of a promise that was made meanwhile: %v", err)
		}
	})
}

// TestPromiseLapses when nobody used it, where no quorum is required; a start of the agent begins anew.
func TestPromiseLapses(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base.then("a"), func(b *bench) {
		if err := b.opts.Store.Promise(&authority.Promise{Generation: 43, Mover: "b2", Nonce: "n1"}); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.pass(authority.LapseAfter(refresh) - refresh)
		if held, _ := b.opts.Store.Held(); held.Promised.Ended != authority.Standing || held.Generation != 41 {
			t.Fatalf("%+v", held)
		}
		b.pass(2 * refresh)
		synctest.Wait()
		held, _ := b.opts.Store.Held()
		if held.Promised.Ended != authority.Lapsed || held.Generation != 42 {
			t.Errorf("%+v %+v", held, held.Promised)
		}
		if !b.logged("the promise of generation 43 to host b2 has lapsed: it was not used for 20m0s") {
			t.Error("nobody is told")
		}
	})
}
