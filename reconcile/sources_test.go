package reconcile

import (
	"errors"
	"testing"
	"testing/synctest"

	"stado.internal/stado/fleet"
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
		b.wantStatus(`serving 0 ""`)

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
