package reconcile

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// TestPartialOffer reads an offer in parts, within one refresh: all of it is in the journal, only its end is served.
func TestPartialOffer(t *testing.T) {
	base := first(41, "base")
	tip := base.then("a").then("bad").then("c").then("bad").then("bad").then("bad").then("g")
	loopTest(t, base, tip, func(b *bench) {
		b.repo.part = 2
		b.start()
		b.wantAdopted(48)
		b.wantStatus(`serving 0 ""`)
		list, err := b.opts.Store.Log()
		if err != nil || len(list) != 4 || list[1].Generation != 42 || list[2].Generation != 44 || list[3].Generation != 48 {
			t.Errorf("journal %+v, %v", list, err)
		}
	})
}

// fullAfterOne lets one registry be written, and no other one behind it.
func (b *bench) fullAfterOne() {
	b.mu.Lock()
	defer b.mu.Unlock()
	slots := 0
	b.fault = func(point string) error {
		if name, step, _ := strings.Cut(point, ":"); strings.HasPrefix(name, "slot-") && step == durable.StepCreate {
			slots++
		}
		if slots > 1 {
			return syscall.ENOSPC
		}
		return nil
	}
}

// TestPartAdmitted holds that what an earlier part brought is served when the rest of the offer brings nothing.
func TestPartAdmitted(t *testing.T) {
	base := first(41, "base")
	good := base.then("a").then("b")
	limit := &source.Error{Phase: source.PhasePack, Kind: source.KindLimit, Cause: "evaluation limit: memory, 512 MiB"}
	for _, tc := range []struct {
		name   string
		tip    *commit
		cut    error
		status string
	}{
		{"bad last part", good.then("bad"), nil, "STADO-TEST-001"},
		{"failing last part", good.then("c"), errRefused, ""},
		{"last part beyond a limit", good.then("c"), limit, source.RuleLimit},
		{"last part that does not fit the disk", good.then("c"), nil, store.RuleWrite},
	} {
		for _, served := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, something served: %v", tc.name, served), func(t *testing.T) {
				loopTest(t, base, base, func(b *bench) {
					change := func(r *repo) { r.tip, r.part, r.cut = tc.tip, 2, tc.cut }
					if served {
						b.start()
						b.wantAdopted(41)
					}
					b.repo.set(change)
					if tc.status == store.RuleWrite {
						b.fullAfterOne()
					}
					if served {
						b.pass(refresh)
						b.wantAdopted(43)
					} else {
						b.start()
						b.wantAdopted(43)
					}
					s := b.Status()
					if s.Served.Generation() != 43 || s.Held.Generation != 43 || s.StoreVersion != good.id || s.Phase != PhaseBackingOff {
						t.Errorf("%s: serves %d as %s, holds %d", s.Phase, s.Served.Generation(), s.StoreVersion, s.Held.Generation)
					}
					if tc.status != "" && (len(s.Refusals) != 1 || s.Refusals[0].Rule != tc.status) {
						t.Errorf("refusals %+v", s.Refusals)
					}
					b.pass(2 * refresh)
					if s := b.Status(); s.Served.Generation() < 43 {
						t.Errorf("serves %d later", s.Served.Generation())
					}
				})
			})
		}
	}
}

// stuck is a source that offers the same part for ever.
type stuck struct{ *repo }

func (s stuck) Poll(ctx context.Context, held source.Anchor) (source.Offer, error) {
	o, err := s.repo.Poll(ctx, held)
	o.Partial = true
	return o, err
}

// TestPartWithoutProgress holds that a part which ends where the last one did is asked for again at the next refresh, not at once.
func TestPartWithoutProgress(t *testing.T) {
	base := first(41, "base")
	loopTest(t, base, base.then("bad"), func(b *bench) {
		b.opts.Sources = From(stuck{b.repo})
		b.start()
		b.pass(refresh - 1)
		if n := b.repo.count(); n > 4 { // two refreshes, two reads in each
			t.Errorf("%d reads in the first refresh", n)
		}
		b.wantAdopted(41)
		b.pass(2 * refresh)
		if n := b.repo.count(); n > 12 {
			t.Errorf("%d reads", n)
		}
	})
}
