package reconcile

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stado.internal/stado/reconcile/store"
)

// suspend does what `stado agent suspend` does beside the agent.
func (b *bench) suspend(lasting time.Duration) {
	b.Helper()
	s := store.Suspension{Reason: "a migration", Since: time.Now().UTC()}
	if lasting > 0 {
		until := time.Now().Add(lasting).UTC()
		s.Until = &until
	}
	if err := b.open().Suspend(s); err != nil {
		b.Fatal(err)
	}
	b.Poke()
	synctest.Wait()
}

func (b *bench) resume() {
	b.Helper()
	if was, err := b.open().Resume(); err != nil || was == nil {
		b.Fatal(was, err)
	}
	b.Poke()
	synctest.Wait()
}

// TestSuspended: the running agent notices at once, goes on asking and judging, serves what it holds, and adopts when it is told to go on.
func TestSuspended(t *testing.T) {
	base := first(41, "base")
	next := base.then("a").then("b")
	for _, part := range []int{0, 1} { // also of an offer in parts
		loopTest(t, base, base, func(b *bench) {
			b.repo.part = part
			b.start()
			b.wantAdopted(41)
			b.log.list = nil
			b.suspend(0)
			b.wantLog("adoption is suspended on this host since 2000-01-01T00:00:00Z: a migration (end it: stado agent resume)")
			if s := b.Status(); s.Suspended == nil || s.Suspended.Reason != "a migration" {
				t.Errorf("%+v", s)
			}
			b.wantStatus(`serving 0 ""`) // nothing is kept back
			reads := b.repo.count()
			b.repo.set(func(r *repo) { r.tip = next })
			b.pass(3 * refresh)
			b.wantAdopted()
			b.wantLog()
			b.wantStatus(`serving 0 "" ` + RuleSuspended)
			s := b.Status()
			if s.Held.Generation != 41 || s.OfferedGeneration < 42 || !*s.Reachable || b.repo.count() < reads+3 {
				t.Errorf("%d reads, %+v", b.repo.count()-reads, s)
			}
			if text := s.Refusals[0].Sentence; !strings.Contains(text, "is not adopted: adoption is suspended on this host since 2000-01-01T00:00:00Z: a migration (end it: stado agent resume)") {
				t.Error(text)
			}
			if age := time.Since(*s.LoadedAt); age < 2*refresh {
				t.Errorf("what is served counts as confirmed %s ago", age)
			}
			b.resume()
			b.wantAdopted(43)
			b.wantStatus(`serving 0 ""`)
			b.wantLog("adoption goes on: the suspension of 2000-01-01T00:00:00Z has ended (a migration)", serves(next))
			if s := b.Status(); s.Suspended != nil {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestSuspendedUntil: the end comes by the clock, at the first refresh behind it.
func TestSuspendedUntil(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base.then("a"), func(b *bench) {
		b.suspend(90 * time.Second)
		b.start()
		b.wantAdopted(41)
		b.wantStatus(`serving 0 "" ` + RuleSuspended)
		b.pass(89 * time.Second)
		b.wantAdopted()
		b.pass(1 * time.Second)
		if s := b.Status(); s.Suspended != nil {
			t.Errorf("it is over: %+v", s)
		}
		b.pass(refresh)
		b.wantAdopted(42)
		b.wantStatus(`serving 0 ""`)
	})
}

// TestSuspendedFromTheStart: a new agent serves what the store holds; where nothing is held it says why nothing is served.
func TestSuspendedFromTheStart(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base.then("a"), func(b *bench) {
		b.suspend(0)
		b.repo.err = errRefused
		b.start()
		b.wantAdopted(41) // by the recovery
		b.repo.set(func(r *repo) { r.err = nil })
		b.pass(2 * refresh)
		b.wantAdopted()
		b.wantStatus(`serving 0 "" ` + RuleSuspended)
	})
	loopTest(t, nil, base, func(b *bench) {
		b.suspend(0)
		b.start()
		b.wantAdopted()
		if s := b.Status(); s.Phase != PhaseBackingOff || !strings.Contains(s.Reason, "generation 41 is not adopted: adoption is suspended on this host since ") {
			t.Errorf("%+v", s)
		}
		b.resume()
		b.wantAdopted(41)
	})
}

// TestSuspendedDuringARead: what a read brings that began before is kept back too, and a silent authority does not hide the suspension.
func TestSuspendedDuringARead(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		b.start()
		b.wantAdopted(41)
		silent := make(chan struct{})
		b.repo.set(func(r *repo) { r.silent, r.tip = silent, base.then("a") })
		b.pass(refresh)
		b.suspend(0)
		if s := b.Status(); s.Suspended == nil {
			t.Error("it is not shown")
		}
		close(silent)
		synctest.Wait()
		b.wantAdopted()
		b.repo.set(func(r *repo) { r.silent = nil })
		b.resume()
		b.wantAdopted(42)
	})
}
