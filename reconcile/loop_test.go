package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/source"
)

var errRefused = errors.New("connection refused")

const waiting = `starting 0 "reading its first registry snapshot from the authority a1 before binding any port"`

func recovery(cause string, c *commit) string {
	return fmt.Sprintf("stado resolver recovery: the registry authority's first snapshot did not answer (%s); serving generation %d from the registry store immediately while authority retries continue", cause, c.generation)
}

func TestBeforeRun(t *testing.T) {
	loopTest(t, nil, nil, func(b *bench) {
		b.wantStatus(`starting 0 "reading this host's registry store before binding any port"`)
	})
}

// TestHeldFirstReadSilent is the seed's authority that accepts and says nothing: at exactly one interval the store is served, and the
// read that was given up goes on without ever bringing back what is older.
func TestHeldFirstReadSilent(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base.then("a"), func(b *bench) {
		silent := make(chan struct{})
		b.repo.silent = silent
		b.start()
		b.wantStatus(waiting)
		b.pass(refresh - 1)
		b.wantStatus(waiting)
		b.wantAdopted()
		b.pass(1)
		b.wantAdopted(41)
		b.wantStatus(`serving 0 ""`)
		s := b.Status()
		if s.StoreVersion != VersionLastKnownGood || *s.Reachable || s.Detail != "no answer from the registry authority a1 within 30s" {
			t.Errorf("%+v", s)
		}
		b.wantLog(recovery("no answer from the registry authority a1 within 30s", base), serves(base))
		b.pass(refresh)
		b.wantStatus(`backing_off 1 "no answer from the registry authority a1 within 30s"`)
		b.wantLog("stado resolver refresh failed, attempt 1, next on the declared 30s interval: no answer from the registry authority a1 within 30s")
		if n := b.repo.count(); n != 1 {
			t.Errorf("%d reads at once", n)
		}
		b.repo.set(func(r *repo) { r.silent = nil })
		close(silent)
		synctest.Wait()
		b.wantAdopted(42)
		b.wantStatus(`serving 0 ""`)
		b.wantLog(serves(base.then("a")), "stado resolver refresh recovered after 1 failed attempts")
	})
}

// TestLateFailure holds that a read which fails after its interval is one failure, told again with its real cause.
func TestLateFailure(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		b.start()
		b.wantLog(serves(base))
		silent := make(chan struct{})
		b.repo.set(func(r *repo) { r.silent, r.err = silent, errRefused })
		b.pass(2 * refresh)
		b.wantStatus(`backing_off 1 "no answer from the registry authority a1 within 30s"`)
		close(silent)
		synctest.Wait()
		b.wantStatus(`backing_off 1 "connection refused"`)
		b.wantLog("stado resolver refresh failed, attempt 1, next on the declared 30s interval: no answer from the registry authority a1 within 30s",
			"stado resolver refresh failed, attempt 1, next on the declared 30s interval: connection refused")
		b.pass(refresh)
		b.wantStatus(`backing_off 2 "connection refused"`)
	})
}

func TestAbandonedReadBringsAnOlderDocument(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base.then("a"), base, func(b *bench) {
		silent := make(chan struct{})
		b.repo.silent = silent
		b.start()
		b.pass(refresh)
		b.wantAdopted(42)
		close(silent)
		synctest.Wait()
		b.wantAdopted()
		b.wantStatus(`backing_off 1 "service directory rollback rejected: generation 41 < 42" STADO-FENCE-001`)
	})
}

func TestHeldFirstReadFails(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base.then("a"), func(b *bench) {
		b.repo.err = errRefused
		b.start()
		b.wantAdopted(41)
		b.wantStatus(`serving 0 ""`)
		b.wantLog(recovery("connection refused", base), serves(base))
		b.pass(refresh)
		b.wantStatus(`backing_off 1 "connection refused"`)
		b.repo.set(func(r *repo) { r.err = nil })
		b.pass(refresh)
		b.wantAdopted(42)
		b.wantStatus(`serving 0 ""`)
	})
}

func TestFirstReadAnswers(t *testing.T) {
	base := first(41, "base")
	for name, c := range map[string]struct{ held, tip *commit }{
		"new":     {nil, base},
		"same":    {base, base},
		"newer":   {base, base.then("a").then("b")},
		"touched": {base, base.touched()},
	} {
		t.Run(name, func(t *testing.T) {
			loopTest(t, c.held, c.tip, func(b *bench) {
				b.start()
				b.wantAdopted(c.tip.generation)
				b.wantStatus(`serving 0 ""`)
				b.wantLog(serves(c.tip))
				s := b.Status()
				if s.StoreVersion != c.tip.id || !*s.Reachable || s.OfferedCommit != c.tip.id || s.OfferedGeneration != c.tip.generation ||
					s.AuthorityHost != "a1" || s.Held.Commit != c.tip.id || !s.LoadedAt.Equal(time.Now()) {
					t.Errorf("%+v", s)
				}
				b.pass(10 * refresh)
				b.wantAdopted()
				b.wantLog()
			})
		})
	}
}

// TestHeldRefusedFirst holds that an authority which offers what must be refused does not answer.
func TestHeldRefusedFirst(t *testing.T) {
	base := first(41, "base")
	for name, c := range map[string]struct {
		tip         *commit
		rule, cause string
	}{
		"rollback": {first(40, "x"), RuleRollback, "service directory rollback rejected: generation 40 < 41"},
		"fork":     {first(42, "x"), RuleFork, sayFork(Standing{Commit: base.id, Generation: 41}, Offered{Commit: first(42, "x").id, Generation: 42})},
		"bad":      {base.then("bad"), "STADO-TEST-001", "commit " + base.then("bad").id + " refused: hosts/a1.cue:7: STADO-TEST-001: the word is bad (use another)"},
	} {
		t.Run(name, func(t *testing.T) {
			loopTest(t, base, c.tip, func(b *bench) {
				b.start()
				b.wantAdopted(41)
				b.wantStatus(`serving 0 "" ` + c.rule)
				b.wantLog(recovery(c.cause, base), serves(base))
				b.pass(refresh)
				b.wantStatus(fmt.Sprintf("backing_off 1 %q %s", c.cause, c.rule))
				if s := b.Status(); !*s.Reachable || s.StoreVersion != VersionLastKnownGood {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestNothingHeld(t *testing.T) {
	base := first(41, "base")
	loopTest(t, nil, base, func(b *bench) {
		b.repo.err = errRefused
		b.start()
		b.wantStatus(`backing_off 1 "connection refused"`)
		b.wantLog("stado resolver refresh failed, attempt 1, next on the declared 30s interval: connection refused")
		b.pass(refresh)
		b.wantStatus(`backing_off 2 "connection refused"`)
		b.repo.set(func(r *repo) { r.err, r.tip = nil, base.then("bad") })
		b.pass(refresh)
		b.wantAdopted()
		refused := "commit " + base.then("bad").id + " refused: hosts/a1.cue:7: STADO-TEST-001: the word is bad (use another)"
		b.wantStatus(fmt.Sprintf("backing_off 3 %q STADO-TEST-001", refused))
		b.repo.set(func(r *repo) { r.tip = base })
		b.pass(refresh)
		b.wantAdopted(41)
		b.wantStatus(`serving 0 ""`)
		b.wantLog("stado resolver refresh failed, attempt 2, next on the declared 30s interval: connection refused",
			"stado resolver refresh failed, attempt 3, next on the declared 30s interval: "+refused,
			serves(base), "stado resolver refresh recovered after 3 failed attempts")
	})
}

func TestNothingHeldAndSilent(t *testing.T) {
	loopTest(t, nil, first(41, "base"), func(b *bench) {
		silent := make(chan struct{})
		b.repo.silent = silent
		b.start()
		b.pass(refresh)
		b.wantStatus(`starting 1 "reading its first registry snapshot from the authority forge before binding any port"`)
		b.pass(2 * refresh)
		b.wantAdopted()
		close(silent)
		synctest.Wait()
		b.wantAdopted(41)
		b.wantStatus(`serving 0 ""`)
	})
}

// TestRefusedThenGood holds what a refusal does while it stands: the old generation is served, the refusal keeps its first instant, the
// log has it once, and the next good commit clears it.
func TestRefusedThenGood(t *testing.T) {
	base := first(41, "base")
	bad := base.then("bad")
	loopTest(t, base, base, func(b *bench) {
		b.start()
		b.wantAdopted(41)
		b.wantLog(serves(base))
		b.repo.set(func(r *repo) { r.tip = bad })
		b.pass(refresh)
		since := b.Status().Refusals[0].Since
		b.pass(10 * refresh)
		refused := "commit " + bad.id + " refused: hosts/a1.cue:7: STADO-TEST-001: the word is bad (use another)"
		s := b.Status()
		b.wantStatus(fmt.Sprintf("backing_off %d %q STADO-TEST-001", s.Attempt, refused))
		if r := s.Refusals[0]; !r.Since.Equal(since) || r.Commit != bad.id || len(r.Findings) != 2 || s.Attempt < 10 {
			t.Errorf("%+v after %d attempts, since %v", r, s.Attempt, since)
		}
		if s.Served.Generation() != 41 || s.OfferedGeneration != 42 || s.OfferedCommit != bad.id {
			t.Errorf("%+v", s)
		}
		b.wantLog("stado resolver refresh failed, attempt 1, next on the declared 30s interval: " + refused)
		b.repo.set(func(r *repo) { r.err = errRefused })
		b.pass(refresh)
		if r := b.Status().Refusals; len(r) != 1 || r[0].Commit != bad.id {
			t.Errorf("a refusal fell when the authority did: %+v", r)
		}
		b.repo.set(func(r *repo) { r.tip, r.err = bad.then("good"), nil })
		b.pass(refresh)
		b.wantAdopted(43)
		b.wantStatus(`serving 0 ""`)
	})
}

// TestGoodBehindBadTip holds that what is good below a bad tip is served, and the tip's refusal stands.
func TestGoodBehindBadTip(t *testing.T) {
	base := first(41, "base")
	tip := base.then("a").then("bad")
	loopTest(t, base, base, func(b *bench) {
		b.start()
		b.repo.set(func(r *repo) { r.tip = tip })
		b.pass(refresh)
		b.wantAdopted(41, 42)
		s := b.Status()
		if s.Phase != PhaseBackingOff || s.Refusals[0].Commit != tip.id || s.StoreVersion != tip.parent.id || s.OfferedGeneration != 43 {
			t.Errorf("%+v", s)
		}
		list, err := b.opts.Store.Log()
		if err != nil || len(list) != 2 || list[1].Commit != tip.parent.id || list[1].Subject != "a" {
			t.Errorf("journal %+v, %v", list, err)
		}
	})
}

// TestEmptyFleet runs the real judge: the last host goes only by the commit's own word.
func TestEmptyFleet(t *testing.T) {
	base := first(41, "base")
	emptied := base.then("x").with(func(n *commit) { n.empty = true })
	allowed := base.then("x").with(func(n *commit) { n.empty, n.trailers = true, map[string]string{"Stado-Allow": "empty-fleet"} })
	loopTest(t, base, emptied, func(b *bench) {
		b.judge = policies.Judge
		b.start()
		b.wantStatus(`serving 0 "" ` + policies.RuleEmptyFleet)
		b.repo.set(func(r *repo) { r.tip = allowed })
		b.pass(refresh)
		b.wantAdopted(41, 42)
		b.wantStatus(`serving 0 ""`)
	})
}

func TestPending(t *testing.T) {
	base := first(41, "base").with(func(n *commit) { n.stamped = true })
	unstamped := base.then("a").with(func(n *commit) { n.generation = 41 })
	loopTest(t, base, unstamped, func(b *bench) {
		b.start()
		b.wantAdopted(41)
		b.wantStatus(`serving 0 ""`)
		b.wantLog(serves(base))
		if s := b.Status(); s.Detail != "pending: waiting for a generation" {
			t.Errorf("detail %q", s.Detail)
		}
		b.pass(10*time.Minute - refresh)
		b.wantStatus(`serving 0 ""`)
		b.pass(2 * refresh)
		b.wantStatus(`serving 0 "" STADO-FENCE-005`)
		b.wantLog(sayPendingLong(unstamped.id))
		b.pass(2 * refresh)
		b.wantLog()
		b.repo.set(func(r *repo) { r.tip = unstamped.then("a") })
		b.pass(refresh)
		b.wantAdopted(42)
		b.wantStatus(`serving 0 ""`)
	})
}

// TestLimitIsARefusal holds that a commit which cannot be evaluated within its limits is the commit's fault, not an absent authority.
func TestLimitIsARefusal(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		b.start()
		bomb := &source.Error{Phase: source.PhasePack, Remote: "https://forge/registry", Kind: source.KindLimit, Cause: "evaluation limit: memory, 512 MiB"}
		b.repo.set(func(r *repo) { r.err = fmt.Errorf("poll: %w", bomb) })
		b.pass(refresh)
		s := b.Status()
		if len(s.Refusals) != 1 || s.Refusals[0].Rule != source.RuleLimit || !*s.Reachable || s.Phase != PhaseBackingOff {
			t.Errorf("%+v", s)
		}
		b.repo.set(func(r *repo) {
			r.err = &source.Error{Phase: source.PhaseStore, Kind: source.KindNoSpace, Cause: "no space left on device"}
		})
		b.pass(refresh)
		if s := b.Status(); s.Reachable != nil || s.Detail == "" {
			t.Errorf("a full disk here says this of the authority: %v %q", *s.Reachable, s.Detail)
		}
	})
}

// TestSpread holds the bounds of the interval between polls, and that no refresh is skipped while they fail.
func TestSpread(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		b.opts.Rand = rand.New(rand.NewPCG(1, 2)).Float64
		b.start()
		b.pass(50 * refresh)
		b.repo.set(func(r *repo) { r.err = errRefused })
		b.pass(150 * refresh)
		least, most := refresh, time.Duration(0)
		for i, at := range b.repo.polls[2:] {
			gap := at.Sub(b.repo.polls[i+1])
			least, most = min(least, gap), max(most, gap)
		}
		if least < refresh*8/10 || most > refresh || most-least < refresh/10 {
			t.Errorf("polls lie between %v and %v apart", least, most)
		}
	})
}

// TestSecondPoll holds that the refresh after the first read may come at any time within the interval, and the ones after it only in the
// last fifth.
func TestSecondPoll(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		b.opts.Rand = func() float64 { return 0.75 }
		b.start()
		for i, wait := range []time.Duration{refresh / 4, refresh * 85 / 100, refresh * 85 / 100} {
			b.pass(wait - 1)
			if n := b.repo.count(); n != i+1 {
				t.Errorf("%d polls before refresh %d", n, i+2)
			}
			b.pass(1)
			if n := b.repo.count(); n != i+2 {
				t.Errorf("%d polls at refresh %d", n, i+2)
			}
		}
	})
}

func TestDeclaredInterval(t *testing.T) {
	base := first(41, "base").with(func(n *commit) { n.refresh = 5 })
	loopTest(t, nil, base, func(b *bench) {
		b.start()
		b.pass(5*time.Second + 1) // the interval that the first document declared
		if n := b.repo.count(); n != 2 {
			t.Errorf("%d polls", n)
		}
		b.repo.set(func(r *repo) { r.tip = base.then("slow").with(func(n *commit) { n.refresh = 60 }) })
		b.pass(5 * time.Second)
		b.wantAdopted(41, 42)
		b.pass(59 * time.Second)
		if n := b.repo.count(); n != 3 {
			t.Errorf("%d polls", n)
		}
		b.pass(time.Second)
		if n := b.repo.count(); n != 4 {
			t.Errorf("%d polls", n)
		}
	})
}

// TestHeldDeclaresTheFirstInterval holds that the first read is given the interval of the held document, not the one of the flag.
func TestHeldDeclaresTheFirstInterval(t *testing.T) {
	base := first(41, "base").with(func(n *commit) { n.refresh = 5 })
	loopTest(t, base, base, func(b *bench) {
		b.repo.silent = make(chan struct{})
		b.start()
		b.pass(5*time.Second - 1)
		b.wantAdopted()
		b.pass(1)
		b.wantAdopted(41)
		b.wantLog(recovery("no answer from the registry authority a1 within 5s", base), serves(base))
	})
}

func TestPoke(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		b.start()
		b.repo.set(func(r *repo) { r.tip = base.then("a") })
		b.Poke()
		synctest.Wait()
		b.wantAdopted(41, 42)
		silent := make(chan struct{})
		b.repo.set(func(r *repo) { r.silent = silent })
		for range 5 {
			b.Poke() // the first begins a read, the others add up to one more
			synctest.Wait()
		}
		b.repo.set(func(r *repo) { r.silent = nil })
		close(silent)
		synctest.Wait()
		if n := b.repo.count(); n != 4 {
			t.Errorf("%d polls", n)
		}
	})
}

// TestEnd holds that Run waits for the read it began, and that a read cut short by the end is no failure of the authority.
func TestEnd(t *testing.T) {
	loopTest(t, nil, first(41, "base"), func(b *bench) {
		b.repo.silent = make(chan struct{})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- b.Reconciler.Run(ctx) }()
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		b.wantLog()
		if b.Status().Attempt != 0 {
			t.Errorf("%+v", b.Status())
		}
	})
}
