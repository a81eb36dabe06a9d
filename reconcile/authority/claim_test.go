package authority_test

import (
	"math"
	"testing"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
)

func held(generation int) authority.Head {
	return authority.Head{Commit: commit(generation), Generation: fleet.Generation(generation), Epoch: 3, Digest: digest(generation), Authority: "old"}
}

func claimOf(generation fleet.Generation, mover fleet.HostName, nonce string) authority.Claim {
	return authority.Claim{Generation: generation, Mover: mover, Nonce: nonce, Incarnation: "i9", Base: held(7)}
}

// asked is a host that has promised generation 9 to m1, holding generation 7.
func asked() authority.Host {
	return authority.Host{
		Name: "a1", Incarnation: "i1", Held: held(7), Hosts: []fleet.HostName{"a1", "m1", "m2", "old"},
		Promised: &authority.Promise{Generation: 9, Mover: "m1", Nonce: "n1", Incarnation: "i9", Base: held(7)},
	}
}

func TestDecide(t *testing.T) {
	joining := claimOf(10, "m2", "n2")
	joining.Joins = new(held(8))
	through := claimOf(10, "m2", "n2")
	through.Through = "old"
	for _, c := range []struct {
		name   string
		change func(*authority.Host)
		claim  authority.Claim
		base   authority.Relation
		want   authority.Reason // empty: granted
		stored bool             // a promise is made durable first
		says   string
	}{
		{"a first claim", func(h *authority.Host) { h.Promised = nil }, claimOf(8, "m2", "n2"), authority.Equal, "", true, ""},
		{"a higher one than the promised", nil, claimOf(10, "m2", "n2"), authority.Equal, "", true, ""},
		{"the same again", nil, claimOf(9, "m1", "n1"), authority.Ahead, "", false, ""},
		{"on a base that is not known here", nil, claimOf(10, "m2", "n2"), authority.Unknown, "", true, ""},
		{"on a base that is behind: the answer says what is held", nil, claimOf(10, "m2", "n2"), authority.Behind, "", true, ""},
		{"the promised generation", nil, claimOf(9, "m2", "n2"), authority.Equal, authority.ReasonPromised, false, "host a1 has promised generation 9 to m1"},
		{"under another nonce", nil, claimOf(9, "m1", "n2"), authority.Equal, authority.ReasonPromised, false, "host a1 has promised generation 9 to m1"},
		{"a lower one", nil, claimOf(8, "m2", "n2"), authority.Equal, authority.ReasonPromised, false, "host a1 has promised generation 9 to m1"},
		{
			"a promise that was given back is not given twice", func(h *authority.Host) { h.Promised.Ended = authority.Released },
			claimOf(9, "m2", "n2"),
			authority.Equal, authority.ReasonPromised, false,
			"host a1 has promised generation 9 to m1, which gave it up; claim a higher one",
		},
		{
			"a claim that lapsed", func(h *authority.Host) { h.Promised.Ended = authority.Lapsed },
			claimOf(9, "m1", "n1"),
			authority.Equal, authority.ReasonEnded, false, "the claim of generation 9 by m1 has lapsed; claim a higher one",
		},
		{"the held generation", nil, claimOf(7, "m2", "n2"), authority.Equal, authority.ReasonHolds, false, "host a1 holds generation 7, which names old; generation 7 is not to be had"},
		{"nothing is held", func(h *authority.Host) { h.Held = authority.Head{} }, claimOf(10, "m2", "n2"), authority.Unknown, authority.ReasonRecovering, false, ""},
		{
			"a lost anchor", func(h *authority.Host) { h.Recovering = true },
			claimOf(10, "m2", "n2"),
			authority.Equal, authority.ReasonRecovering, false,
			"recovering: host a1 lost its anchor and does not know what it has promised; it grants again when every other host has said what it holds",
		},
		{"a stranger", nil, claimOf(10, "m3", "n2"), authority.Equal, authority.ReasonUnregistered, false, "host m3 is not registered in generation 7 of the registry"},
		{
			"another history", nil, claimOf(10, "m2", "n2"), authority.Forked, authority.ReasonForked, false,
			"host a1 holds generation 7, commit " + commit(7) + ", from which the claim's base, generation 7, commit " + commit(7) + ", does not descend; join the two histories first",
		},
		{
			"the authority answers", func(h *authority.Host) { h.Answers = true },
			claimOf(10, "m2", "n2"),
			authority.Equal, authority.ReasonAnswers, false,
			"the registry authority old answers; move the role through it with stado placement move on old",
		},
		{"the authority answers, and asks itself", func(h *authority.Host) { h.Answers = true }, through, authority.Equal, "", true, ""},
		{"the authority answers, and histories are joined", func(h *authority.Host) { h.Answers = true }, joining, authority.Ahead, "", true, ""},
		{"the largest leap", nil, claimOf(7+fleet.MaxLeap, "m2", "n2"), authority.Equal, "", true, ""},
		{
			"a leap", nil, claimOf(math.MaxUint64, "m2", "n2"), authority.Equal, authority.ReasonLeap, false,
			"generation leap refused: generation 18446744073709551615 is 18446744073709551608 above the held 7, and one change may raise it by 1000000 at most",
		},
	} {
		h := asked()
		if c.change != nil {
			c.change(&h)
		}
		a, p := h.Decide(c.claim, c.base)
		if a.Granted != (c.want == "") || a.Refused != c.want || (p != nil) != c.stored {
			t.Errorf("%s: %+v, stores %+v", c.name, a, p)
		}
		if c.says != "" && a.Sentence != c.says {
			t.Errorf("%s: %q", c.name, a.Sentence)
		}
		if a.Host != "a1" || a.Held != h.Held || a.Nonce != c.claim.Nonce || a.Generation != c.claim.Generation || a.Incarnation != "i1" {
			t.Errorf("%s: the answer is %+v", c.name, a)
		}
		if p != nil && (a.Promised != p || p.Generation != c.claim.Generation || p.Mover != c.claim.Mover || p.Incarnation != "i9" || p.Base != c.claim.Base) {
			t.Errorf("%s: stores %+v and answers %+v", c.name, p, a)
		}
	}
}

// TestKeeps: which documents a promise keeps away, and what is left of it after another and after its end.
func TestKeeps(t *testing.T) {
	one := &authority.Promise{Generation: 9, Mover: "m1", Nonce: "n1"}
	over := func(p *authority.Promise, c authority.Claim) *authority.Promise {
		h := asked()
		h.Promised = p
		_, next := h.Decide(c, authority.Equal)
		return next
	}
	two := over(one, claimOf(12, "m2", "n2"))
	three := over(two, claimOf(14, "m1", "n3"))
	released := two.Release(claimOf(12, "m2", "n2"))
	raised := over(one, claimOf(11, "m1", "n1"))
	for _, c := range []struct {
		name       string
		promise    *authority.Promise
		generation fleet.Generation
		mover      fleet.HostName
		nonce      string
		want       authority.Reason
	}{
		{"no promise", nil, 8, "old", "", ""},
		{"above", one, 10, "old", "", ""},
		{"the claimed document", one, 9, "m1", "n1", ""},
		{"the claimed document, fetched", one, 9, "m1", "", ""},
		{"the mover's under another nonce", one, 9, "m1", "n2", authority.ReasonPromised},
		{"at it", one, 9, "old", "", authority.ReasonPromised},
		{"below it", one, 8, "old", "", authority.ReasonPromised},
		{"replaced: the lower claim is kept", two, 9, "m1", "n1", authority.ReasonPromised},
		{"replaced: the new one below the old", two, 9, "m2", "n2", authority.ReasonPromised},
		{"replaced: the new one", two, 12, "m2", "n2", ""},
		{"given back: what it replaced stands again for its mover", released, 9, "m1", "n1", ""},
		{"given back: and for nobody else", released, 9, "old", "", authority.ReasonPromised},
		{"given back: the rest is free", released, 10, "old", "", ""},
		{"given back: but not for that claim", released, 12, "m2", "n2", authority.ReasonEnded},
		{"given back: nor the mover for ever", released, 12, "m2", "", ""},
		{"replaced twice", three, 12, "m2", "n2", authority.ReasonPromised},
		{"replaced twice: nobody's", three.Release(claimOf(14, "m1", "n3")), 9, "m1", "n1", authority.ReasonPromised},
		{"raised under its nonce gives the lower one up", raised.Release(claimOf(11, "m1", "n1")), 9, "old", "", ""},
	} {
		r := c.promise.Keeps(c.generation, authority.Owner{Mover: c.mover, Nonce: c.nonce})
		got := authority.Reason("")
		if r != nil {
			got = r.Reason
		}
		if got != c.want {
			t.Errorf("%s: %q, %+v", c.name, got, r)
		}
	}
	if r := one.Keeps(8, authority.Owner{Mover: "old"}); r.Sentence != "generation 9 is claimed by m1; waiting" {
		t.Errorf("says %q", r.Sentence)
	}
	for name, c := range map[string]authority.Claim{"another": claimOf(12, "m1", "n1"), "lower": claimOf(9, "m2", "n2")} {
		if p := two.Release(c); p != nil {
			t.Errorf("the release of %s gives %+v", name, p)
		}
	}
	if p := released.Release(claimOf(12, "m2", "n2")); p != nil {
		t.Errorf("a second release gives %+v", p)
	}
	if p := (*authority.Promise)(nil).Release(claimOf(12, "m2", "n2")); p != nil {
		t.Errorf("a release of nothing gives %+v", p)
	}
}

func TestLapse(t *testing.T) {
	one := &authority.Promise{Generation: 9, Mover: "m1", Nonce: "n1", Below: authority.Kept{Generation: 8, Mover: "m2"}}
	const refresh = 5 * time.Minute
	if p := one.Lapse(3, 10*refresh-1, refresh, fleet.QuorumNone); p != nil {
		t.Errorf("early: %+v", p)
	}
	if p := one.Lapse(3, authority.LapseAfter(time.Second)-1, time.Second, fleet.QuorumNone); p != nil || authority.LapseAfter(time.Second) < 10*time.Minute {
		t.Errorf("while a move may still ask and hand over: %+v", p)
	}
	if p := one.Lapse(3, time.Hour, refresh, fleet.QuorumMajority); p != nil {
		t.Errorf("where a majority is required: %+v", p)
	}
	for _, held := range []fleet.Generation{9, 10} {
		if p := one.Lapse(held, time.Hour, refresh, ""); p != nil {
			t.Errorf("it was used, since generation %d is held: %+v", held, p)
		}
	}
	p := one.Lapse(8, 10*refresh, refresh, "")
	if p == nil || p.Ended != authority.Lapsed || p.Below != (authority.Kept{}) || one.Ended != authority.Standing {
		t.Fatalf("%+v from %+v", p, one)
	}
	if r := p.Keeps(8, authority.Owner{Mover: "old"}); r != nil {
		t.Errorf("keeps away: %v", r)
	}
	if p := p.Lapse(8, time.Hour, refresh, ""); p != nil {
		t.Errorf("lapses again: %+v", p)
	}
	if p := (*authority.Promise)(nil).Lapse(8, time.Hour, refresh, ""); p != nil {
		t.Errorf("of nothing: %+v", p)
	}
}

func TestRejoin(t *testing.T) {
	registry := copyOf(7, fleet.QuorumMajority, "a1", "m1", "m2").Registry
	all := func() map[fleet.HostName]authority.Answer {
		return map[fleet.HostName]authority.Answer{
			"old": authority.Host{Name: "old", Held: held(6)}.Report(),
			"m1":  authority.Host{Name: "m1", Held: held(7), Promised: &authority.Promise{Generation: 9, Mover: "m1", Nonce: "n1"}}.Report(),
			"m2":  authority.Host{Name: "m2", Held: held(7), Promised: &authority.Promise{Generation: 12, Mover: "m2", Nonce: "n2", Ended: authority.Released}}.Report(),
		}
	}
	floor, wanting := authority.Rejoin("a1", held(7), registry, all())
	if wanting != nil || floor == nil || floor.Generation != 12 || floor.Below != (authority.Kept{Generation: 9, Mover: "m1"}) || floor.Ended == authority.Standing {
		t.Fatalf("%+v, wanting %v", floor, wanting)
	}
	h := asked()
	h.Promised = floor
	if a, _ := h.Decide(claimOf(12, "m2", "n3"), authority.Equal); a.Granted {
		t.Errorf("grants what it may have granted: %+v", a)
	}
	if a, _ := h.Decide(claimOf(13, "m2", "n3"), authority.Equal); !a.Granted {
		t.Errorf("refuses what it cannot have granted: %+v", a)
	}
	for name, change := range map[string]func(map[fleet.HostName]authority.Answer){
		"is silent":        func(m map[fleet.HostName]authority.Answer) { delete(m, "m1") },
		"recovers as well": func(m map[fleet.HostName]authority.Answer) { m["m1"] = authority.Host{Name: "m1"}.Report() },
		"holds more": func(m map[fleet.HostName]authority.Answer) {
			m["m1"] = authority.Host{Name: "m1", Held: held(8)}.Report()
		},
	} {
		answers := all()
		change(answers)
		if floor, wanting := authority.Rejoin("a1", held(7), registry, answers); floor != nil || len(wanting) != 1 || wanting[0] != "m1" {
			t.Errorf("when m1 %s: %+v, wanting %v", name, floor, wanting)
		}
	} // Where none is required this host may be the one that is behind for good; what the others hold bounds its promises all the same.
	answers := all()
	answers["m1"] = authority.Host{Name: "m1", Held: held(14)}.Report()
	if floor, _ := authority.Rejoin("a1", held(7), copyOf(7, "", "a1", "m1", "m2").Registry, answers); floor == nil || floor.Generation != 14 {
		t.Errorf("behind m1: %+v", floor)
	}
}
