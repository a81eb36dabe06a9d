package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// heldAt is the anchor and snapshot of a host that holds a commit; nil holds nothing.
func heldAt(c *commit) (store.Held, *fleet.Snapshot) {
	if c == nil {
		return store.Held{}, nil
	}
	registry, err := fleet.Decode(c.document())
	if err != nil {
		panic(err)
	}
	return store.Held{Commit: c.id, Generation: c.generation, Digest: c.digest()},
		&fleet.Snapshot{Commit: c.id, Digest: c.digest(), Document: c.document(), Registry: registry}
}

func admitted(held, tip *commit) outcome {
	anchor, snapshot := heldAt(held)
	w := walk{judge: judgeWord, now: time.Unix(1_700_000_000, 0)}
	out, err := w.admit(anchor, snapshot, offer(tip, source.Anchor{Commit: anchor.Commit}), trail{})
	if err != nil {
		panic(err) // nobody is asked who could fail
	}
	return out
}

func TestAdmit(t *testing.T) {
	base := first(41, "base")
	bad := func(c *commit) *commit { return c.then("bad") }
	broken := func(c *commit) *commit { return c.then("x").with(func(n *commit) { n.broken = true }) }
	same := func(c *commit, word string) *commit { // changed without its generation
		return c.then(word).with(func(n *commit) { n.generation = c.generation })
	}
	lower := func(c *commit) *commit { return c.then("x").with(func(n *commit) { n.generation = c.generation - 1 }) }
	stamped := base.then("stamped").with(func(n *commit) { n.stamped = true })
	guarded := base.then("guarded")
	allowed := guarded.then("x").with(func(n *commit) { n.trailers = map[string]string{"Stado-Allow": "empty-fleet"} })
	for _, c := range []struct {
		name      string
		held, tip *commit
		admitted  string // generations
		final     *commit
		observed  *commit
		refused   string // rule of the tip
		says      string
		pending   bool
	}{
		{name: "nothing new", held: base, tip: base},
		{name: "one step", held: base, tip: base.then("a"), admitted: "[42]", final: base.then("a")},
		{name: "a week", held: base, tip: base.then("a").then("b").then("c"), admitted: "[42 43 44]", final: base.then("a").then("b").then("c")},
		{name: "untouched document", held: base, tip: base.touched().touched(), observed: base.touched().touched()},
		{name: "step and untouched", held: base, tip: base.then("a").touched(), admitted: "[42]", final: base.then("a").touched()},
		{name: "bad tip", held: base, tip: bad(base), refused: "STADO-TEST-001", says: "refused: hosts/a1.cue:7: STADO-TEST-001: the word is bad (use another)"},
		{name: "bad tip behind a good one", held: base, tip: bad(base.then("a")), admitted: "[42]", final: base.then("a"), refused: "STADO-TEST-001"},
		{name: "bad superseded", held: base, tip: bad(base).then("b"), admitted: "[43]", final: bad(base).then("b")},
		{name: "bad taken back", held: base, tip: bad(base).touched().with(func(n *commit) { n.generation, n.word = 41, "base" }), observed: bad(base).touched().with(func(n *commit) { n.generation, n.word = 41, "base" })},
		{name: "broken tip", held: base, tip: broken(base), refused: "STADO-SCHEMA-001", says: "hosts/a1.cue:3:5: STADO-SCHEMA-001: unknown field"},
		{name: "broken superseded", held: base, tip: broken(base).then("b"), admitted: "[43]", final: broken(base).then("b")},
		{name: "generation forgotten", held: base, tip: same(base, "a"), refused: RuleReused, says: "generation 41 reused: held " + base.digest()},
		{name: "generation forgotten, then raised", held: base, tip: same(base, "a").then("a"), admitted: "[42]", final: same(base, "a").then("a")},
		{name: "generation taken back", held: base, tip: lower(base), refused: RuleRollback, says: "service directory rollback rejected: generation 40 < 41"},
		{name: "rollback inside the offer", held: base, tip: base.then("a").then("b").then("c").with(func(n *commit) { n.generation = 42 }), admitted: "[42 43]", final: base.then("a").then("b"), refused: RuleRollback},
		{name: "leap", held: base, tip: base.then("a").with(func(n *commit) { n.generation = 41 + fleet.MaxLeap + 1 }), refused: RuleLeap},
		{name: "rewound", held: base.then("a"), tip: base, refused: RuleRollback},
		{name: "rewound past an untouched document", held: base.touched(), tip: base},
		{name: "sibling", held: base.then("a"), tip: base.then("b").then("c"), refused: RuleFork},
		{name: "sibling of the same generation", held: base.then("a"), tip: base.then("b"), refused: RuleReused},
		{name: "orphan", held: base, tip: first(50, "x"), refused: RuleFork},
		{name: "broken orphan", held: base, tip: first(50, "x").with(func(n *commit) { n.broken = true }), refused: RuleFork},
		{name: "orphan with the held document", held: base, tip: first(40, "other").then("base")},
		{name: "nothing held", tip: base.then("a"), admitted: "[42]", final: base.then("a")},
		{name: "nothing held, bad history", tip: bad(base).then("b"), admitted: "[43]", final: bad(base).then("b")},
		{name: "nothing held, bad tip", tip: bad(base), refused: "STADO-TEST-001"},
		{name: "nothing held, broken tip", tip: broken(base), refused: "STADO-SCHEMA-001"},
		{name: "unstamped", held: stamped, tip: same(stamped, "a"), pending: true},
		{name: "unstamped twice", held: stamped, tip: same(same(stamped, "a"), "b"), pending: true},
		{name: "unstamped and broken", held: stamped, tip: broken(stamped), refused: "STADO-SCHEMA-001"},
		{name: "stamped", held: stamped, tip: same(stamped, "a").then("a"), admitted: "[43]", final: same(stamped, "a").then("a")},
		{name: "stamped, then unstamped", held: stamped, tip: same(same(stamped, "a").then("a"), "b"), admitted: "[43]", final: same(stamped, "a").then("a"), pending: true},
		{name: "judged by the mode of the last admitted", held: base, tip: same(base.then("s").with(func(n *commit) { n.stamped = true }), "x"), admitted: "[42]", final: base.then("s").with(func(n *commit) { n.stamped = true }), pending: true},
		{name: "guarded", held: guarded, tip: guarded.then("x"), refused: "STADO-TEST-002"},
		{name: "guarded, allowed by the commit's trailer", held: guarded, tip: allowed, admitted: "[43]", final: allowed},
		{name: "judged against the last admitted", held: base, tip: base.then("guarded").then("x"), admitted: "[42]", final: base.then("guarded"), refused: "STADO-TEST-002"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := admitted(c.held, c.tip)
			var generations []fleet.Generation
			for _, a := range out.admitted {
				generations = append(generations, a.Generation)
			}
			if got := fmt.Sprint(generations); got != c.admitted && (len(generations) > 0 || c.admitted != "") {
				t.Errorf("admitted %s, want %s", got, c.admitted)
			}
			checkFinal(t, out, c.final)
			if want := c.observed.ID(); out.observed != want {
				t.Errorf("observed %q, want %q", out.observed, want)
			}
			checkRefusal(t, out, c.tip, c.refused, c.says)
			if out.pending != c.pending {
				t.Errorf("pending %v", out.pending)
			}
		})
	}
}

func checkFinal(t *testing.T, out outcome, want *commit) {
	t.Helper()
	if want == nil {
		if out.final != nil {
			t.Errorf("generation %d of commit %s would be held", out.final.Generation(), out.final.Commit)
		}
		return
	}
	if out.final == nil || out.final.Commit != want.id || out.final.Digest != want.digest() || out.final.Generation() != want.generation {
		t.Fatalf("would hold %+v, want commit %s of generation %d", out.final, want.id, want.generation)
	}
	last := out.admitted[len(out.admitted)-1]
	if last.Digest != want.digest() || last.Author != "A" || last.Subject != want.word {
		t.Errorf("the journal would end in %+v", last)
	}
}

func checkRefusal(t *testing.T, out outcome, tip *commit, rule, says string) {
	t.Helper()
	if rule == "" {
		if out.refusal != nil {
			t.Errorf("refused: %+v", out.refusal)
		}
		return
	}
	if out.refusal == nil || out.refusal.Rule != rule || out.refusal.Commit != tip.id || !strings.Contains(out.refusal.Sentence, says) {
		t.Errorf("refused %+v, want %s of %s saying %q", out.refusal, rule, tip.id, says)
	}
}

// ID is the commit's, empty for nil.
func (c *commit) ID() string {
	if c == nil {
		return ""
	}
	return c.id
}

// TestAdmitFillsTheStore covers a store whose anchor stands and whose document is damaged: the commit that carries it heals it without
// being judged again, and what follows is judged against it.
func TestAdmitFillsTheStore(t *testing.T) {
	base := first(41, "base")
	held := base.then("bad") // admitted once, by rules that have changed since
	anchor, _ := heldAt(held)
	_, older := heldAt(base)
	for name, c := range map[string]struct {
		served *fleet.Snapshot
		tip    *commit
		want   *commit
	}{
		"nothing served":        {nil, held, held},
		"previous served":       {older, held, held},
		"moved on, untouched":   {older, held.touched(), held.touched()},
		"moved on":              {older, held.then("a"), held.then("a")},
		"moved on, none served": {nil, held.then("a"), held.then("a")},
	} {
		o := offer(c.tip, source.Anchor{Commit: anchor.Commit})
		if len(o.Steps) == 0 {
			o.Steps = offer(c.tip, source.Anchor{}).Steps
		}
		w := walk{judge: judgeWord}
		out, err := w.admit(anchor, c.served, o, trail{})
		if err != nil || out.final == nil || out.final.Commit != c.want.id || out.final.Digest != c.want.digest() || out.refusal != nil {
			t.Errorf("%s: %+v", name, out)
		}
	}
	w := walk{judge: judgeWord}
	if out, err := w.admit(anchor, older, offer(base, source.Anchor{Commit: anchor.Commit}), trail{}); err != nil || out.final != nil || out.refusal.Rule != RuleRollback {
		t.Errorf("the fence fell to what is served: %+v", out)
	}
}

// TestRefusalNamesTheMistake holds that a forgotten generation is reported with what the judges say of the commit, warnings included.
func TestRefusalNamesTheMistake(t *testing.T) {
	base := first(41, "base")
	out := admitted(base, base.then("bad").with(func(n *commit) { n.generation = 41 }))
	var rules []string
	for _, f := range out.refusal.Findings {
		rules = append(rules, f.Rule)
	}
	if diff := cmp.Diff([]string{"STADO-TEST-003", "STADO-TEST-001"}, rules); diff != "" || out.refusal.Rule != RuleReused {
		t.Errorf("%s: %s", out.refusal.Rule, diff)
	}
}
