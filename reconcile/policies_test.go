package reconcile

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/source"
)

func ruled(c *commit, has bool) *commit { return c.with(func(n *commit) { n.policies = has }) }

// same is a change that leaves the generation to be stamped.
func same(c *commit, word string) *commit {
	return c.then(word).with(func(n *commit) { n.generation, n.policies = c.generation, c.policies })
}

// TestOwnPolicies holds that a change is judged by the policies of the commit before it, whatever it does to them, and that what was
// refused does not become "the commit before".
func TestOwnPolicies(t *testing.T) {
	free := first(41, "base")
	base := ruled(first(41, "base"), true)
	stamping := ruled(first(41, "base").with(func(n *commit) { n.stamped = true }), true)
	plain := ruled(first(41, "base").with(func(n *commit) { n.stamped = true }), false)
	for _, c := range []struct {
		name      string
		held, tip *commit
		admitted  []fleet.Generation
		refused   string
		pending   bool
	}{
		{name: "kept", held: base, tip: base.then("a"), admitted: []fleet.Generation{42}},
		{name: "broken", held: base, tip: ruled(base.then("ugly"), true), refused: "STADO-POLICY-001"},
		{name: "none", held: free, tip: free.then("ugly"), admitted: []fleet.Generation{42}},
		{name: "brought with the change", held: free, tip: ruled(free.then("ugly"), true), admitted: []fleet.Generation{42}},
		{name: "taken away with the change", held: base, tip: base.then("ugly"), refused: "STADO-POLICY-001"},
		{name: "taken away before the change", held: base, tip: ruled(base.touched(), false).then("ugly"), admitted: []fleet.Generation{42}},
		{name: "brought before the change", held: free, tip: ruled(free.touched(), true).then("ugly"), refused: "STADO-POLICY-001"},
		{name: "taken away by a refused commit", held: base, tip: base.then("bad").then("ugly"), refused: "STADO-POLICY-001"},
		{name: "taken away by an admitted commit", held: base, tip: base.then("a").then("ugly"), admitted: []fleet.Generation{42, 43}},
		{name: "unstamped", held: stamping, tip: same(stamping, "ugly"), refused: "STADO-POLICY-001"},
		{name: "brought unstamped", held: plain, tip: ruled(same(plain, "a"), true).then("ugly"), refused: "STADO-POLICY-001"},
		{name: "brought unstamped, and kept", held: plain, tip: same(ruled(same(plain, "a"), true), "b"), pending: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			anchor, snapshot := heldAt(c.held)
			w := walk{judge: judgeWord, own: func(previous, next policies.Revision) (fleet.Findings, error) {
				return (&repo{}).Policies(t.Context(), previous, next)
			}}
			out, err := w.admit(anchor, snapshot, offer(c.tip, source.Anchor{Commit: anchor.Commit}), trail{})
			if err != nil {
				t.Fatal(err)
			}
			var generations []fleet.Generation
			for _, a := range out.admitted {
				generations = append(generations, a.Generation)
			}
			if diff := cmp.Diff(c.admitted, generations); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
			checkRefusal(t, out, c.tip, c.refused, "")
			if out.pending != c.pending {
				t.Errorf("pending %v", out.pending)
			}
		})
	}
}

// TestGap names what lies between a commit and what it is judged against.
func TestGap(t *testing.T) {
	base := first(41, "base")
	anchor, snapshot := heldAt(base)
	side := first(60, "side").then("joined")
	for name, c := range map[string]struct {
		tip  *commit
		gaps []policies.Gap
	}{
		"children":               {base.then("a").then("b"), []policies.Gap{policies.GapNone, policies.GapNone}},
		"after a refused one":    {base.then("bad").then("b").then("c"), []policies.Gap{policies.GapNone, policies.GapRefused, policies.GapNone}},
		"after a broken one":     {base.then("x").with(func(n *commit) { n.broken = true }).then("b"), []policies.Gap{policies.GapRefused}},
		"after an untouched one": {base.touched().then("b"), []policies.Gap{policies.GapNone}},
	} {
		if got := gapsOf(t, offer(c.tip, source.Anchor{Commit: base.id})); !cmp.Equal(got, c.gaps) {
			t.Errorf("%s: %v, want %v", name, got, c.gaps)
		}
	}
	// A merge whose first parent is another history: only the merge itself descends from what is held.
	merged := source.Offer{Tip: side.id, Descends: true, Steps: []source.Step{side.step()}}
	if got := gapsOf(t, merged); !cmp.Equal(got, []policies.Gap{policies.GapMerged}) {
		t.Errorf("merged: %v", got)
	}
	anchor.Commit = "" // handed over without one
	var got []policies.Gap
	w := walk{judge: func(_, next policies.Revision) fleet.Findings { got = append(got, next.Gap); return nil }}
	if _, err := w.admit(anchor, snapshot, source.Offer{Tip: side.id, Steps: []source.Step{side.step()}}, trail{}); err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(got, []policies.Gap{policies.GapUnknown}) {
		t.Errorf("handed over: %v", got)
	}
}

// gapsOf are the gaps that the judges see of an offer to a host that holds the generation 41 of "base".
func gapsOf(t *testing.T, o source.Offer) []policies.Gap {
	t.Helper()
	anchor, snapshot := heldAt(first(41, "base"))
	var got []policies.Gap
	w := walk{judge: func(previous, next policies.Revision) fleet.Findings {
		got = append(got, next.Gap)
		return judgeWord(previous, next)
	}}
	if _, err := w.admit(anchor, snapshot, o, trail{}); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestStampedInParts runs the real judge over changes that wait for their generation while the offer comes in parts: the stamp commit is
// judged against the change before it, not against what is held.
func TestStampedInParts(t *testing.T) {
	for _, part := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			base := first(41, "base").with(func(n *commit) { n.stamped = true })
			tip := same(same(base, "a"), "b").then("b").with(func(n *commit) {
				n.trailers = map[string]string{source.TrailerKind: source.KindStamp}
			})
			loopTest(t, base, tip, func(b *bench) {
				var gaps []policies.Gap
				b.judge = func(previous, next policies.Revision) fleet.Findings {
					gaps = append(gaps, next.Gap)
					return policies.Judge(previous, next)
				}
				b.repo.part = part
				b.start()
				b.wantAdopted(42)
				if !cmp.Equal(gaps, []policies.Gap{policies.GapNone, policies.GapNone, policies.GapNone}) {
					t.Errorf("the judge saw gaps %v", gaps)
				}
				b.wantStatus(`serving 0 ""`)
				for i, word := range []string{"by hand", "b"} { // with a change, and alone
					b.repo.set(func(r *repo) { r.tip = tip.then(word) })
					b.pass(refresh)
					b.wantStatus(fmt.Sprintf(`backing_off %d %q STADO-GEN-004`, i+1, b.Status().Reason))
				}
			})
		})
	}
}

// TestUnownedIsNotObserved holds that a commit which leaves the document as it is, and is refused for how it is written down, does not
// become the commit that is held.
func TestUnownedIsNotObserved(t *testing.T) {
	base := first(41, "base")
	unowned := base.touched().with(func(n *commit) { n.unowned = true })
	out := admitted(base, unowned)
	checkRefusal(t, out, unowned, "STADO-SCOPE-001", "path not owned")
	if out.observed != "" {
		t.Errorf("observed %s", out.observed)
	}
	mended := unowned.touched()
	if out := admitted(base, mended); out.observed != mended.id || out.refusal != nil {
		t.Errorf("mended: %+v", out)
	}
}

// TestPoliciesNotAsked holds that nothing of an offer counts when the fleet's own policies could not be asked.
func TestPoliciesNotAsked(t *testing.T) {
	base := ruled(first(41, "base"), true)
	tip := base.then("a")
	loopTest(t, base, tip, func(b *bench) {
		b.repo.policyErr = errors.New("no child")
		b.start()
		b.wantAdopted(41) // what was held
		b.pass(refresh)
		b.wantStatus(`backing_off 1 "no child"`)
		b.repo.set(func(r *repo) { r.policyErr = nil })
		b.pass(refresh)
		b.wantAdopted(42)
		b.wantStatus(`serving 0 ""`)
		synctest.Wait()
		if diff := cmp.Diff([]string{base.id + " " + tip.id, base.id + " " + tip.id, base.id + " " + tip.id}, b.repo.judged); diff != "" {
			t.Errorf("judged (-want +got):\n%s", diff)
		}
	})
}
