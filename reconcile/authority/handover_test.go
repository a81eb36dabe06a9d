package authority_test

import (
	"math"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
)

func TestPush(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*authority.Push)
		want   authority.Reason
		says   string
	}{
		{"above the copy, the authority silent", nil, "", ""},
		{"claimed for it", func(p *authority.Push) {
			p.Promised = &authority.Promise{Generation: 8, Mover: "new", Nonce: "n1"}
		}, "", ""},
		{
			"the authority answers", func(p *authority.Push) { p.Authority = authority.Reading{} }, authority.ReasonAnswers,
			"the registry authority answers; a registry it would serve is pushed through it, without --last-known-good",
		},
		{
			"this host is the authority", func(p *authority.Push) { p.Self = "old" }, authority.ReasonAlready,
			"this host, old, is the registry authority; a registry is pushed to it without --last-known-good",
		},
		{
			"no copy", func(p *authority.Push) { p.Copy = nil }, authority.ReasonNoCopy,
			"this host, a1, keeps no last-known-good copy of the registry; run its agent until it has read one, or choose another host",
		},
		{
			"a copy that cannot be read", func(p *authority.Push) { p.Copy, p.CopyError = nil, "held.json is damaged" }, authority.ReasonNoCopy,
			"this host's last-known-good copy cannot be read: held.json is damaged; and the registry authority did not answer: no answer from the registry authority old within 30s",
		},
		{
			"a copy that names none", func(p *authority.Push) { p.Copy = naming(p.Copy, fleet.Authority{}) }, authority.ReasonNoAuthority,
			"the last-known-good copy of this host, a1, names no registry authority; set service_directory.authority in its registry",
		},
		{
			"equal", func(p *authority.Push) { p.Offered = 7 }, authority.ReasonNotAbove,
			"service directory generation 7 is not above the 7 this host's last-known-good copy holds; a copy is never rolled back",
		},
		{
			"lower", func(p *authority.Push) { p.Offered = 6 }, authority.ReasonNotAbove,
			"service directory generation 6 is not above the 7 this host's last-known-good copy holds; a copy is never rolled back",
		},
		{"claimed by another", func(p *authority.Push) {
			p.Promised = &authority.Promise{Generation: 9, Mover: "a2", Nonce: "n2"}
		}, authority.ReasonPromised, "generation 9 is claimed by a2; waiting"},
	} {
		p := authority.Push{
			Path: "registry.json", Self: "a1", Copy: copyOf(7, "", "a1", "new"), Authority: silent,
			Offered: 8, Owner: authority.Owner{Mover: "new", Nonce: "n1"},
		}
		if c.change != nil {
			c.change(&p)
		}
		r, err := p.Decide()
		if got := reasonOf(t, err); got != c.want || err != nil && err.Error() != c.says {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
		if err != nil {
			continue
		}
		if got := asJSON(t, r); got != `{
  "state": "handed-over",
  "directory_generation": 8,
  "authority_unanswered": "no answer from the registry authority old within 30s"
}
` {
			t.Errorf("%s: %s", c.name, got)
		}
		const says = "handed registry.json to this host's last-known-good copy at service directory generation 8; the authority did not answer: no answer from the registry authority old within 30s"
		if got := r.Say(p.Path); got != says {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestReviewPeers(t *testing.T) {
	mine := held(7)
	peer := func(host fleet.HostName, generation int, names fleet.HostName, r authority.Relation) authority.Peer {
		h := held(generation)
		h.Authority = names
		return authority.Peer{Host: host, Held: h, Relation: r}
	}
	moved := peer("a1", 6, "new", authority.Forked)
	moved.Held.Epoch, moved.Base = mine.Epoch+1, "b0"
	left := peer("a1", 9, "older", authority.Forked)
	left.Held.Epoch = mine.Epoch - 1
	for _, c := range []struct {
		name  string
		peers []authority.Peer
		duty  authority.Duty
		from  fleet.HostName
		says  string
	}{
		{"alone", nil, authority.DutyServe, "", ""},
		{"equals and stragglers", []authority.Peer{peer("a1", 7, "old", authority.Equal), peer("a2", 6, "old", authority.Behind)}, authority.DutyServe, "", ""},
		{
			"a successor",
			[]authority.Peer{peer("a1", 8, "new", authority.Ahead), peer("a2", 9, "new", authority.Ahead)},
			authority.DutyStepDown, "a2",
			"this host is no longer the registry authority: generation 9 names new",
		},
		{"this host, later", []authority.Peer{peer("a1", 8, "old", authority.Ahead)}, authority.DutyAdopt, "a1", ""},
		{
			"another history",
			[]authority.Peer{peer("a1", 8, "new", authority.Forked)},
			authority.DutyDispute, "a1",
			"authority disputed: host a1 holds generation 8, which names new and does not descend from generation 7 held here; nothing is written until the two histories are joined (stado registry heal)",
		},
		{"another history of the same generation", []authority.Peer{peer("a1", 7, "new", authority.Forked)}, authority.DutyDispute, "a1", ""},
		{"another history, behind", []authority.Peer{peer("a1", 6, "new", authority.Forked)}, authority.DutyServe, "", ""},
		{
			"another history, behind, in which the role has moved",
			[]authority.Peer{peer("a2", 8, "other", authority.Forked), moved},
			authority.DutyStepDown, "a1",
			"this host is no longer the registry authority: generation 6 names new; the commits made here since their merge base b0 are in nobody else's history: this host holds generation 7, commit " + mine.Commit +
				", and a1 holds generation 6, commit " + moved.Held.Commit + "; join the two with stado registry heal on new",
		},
		{"another history, ahead, from which the role has moved", []authority.Peer{left}, authority.DutyServe, "", ""},
		{"a successor and another history", []authority.Peer{peer("a1", 9, "a1", authority.Forked), peer("a2", 8, "new", authority.Ahead)}, authority.DutyStepDown, "a2", ""},
		{"one that cannot be compared", []authority.Peer{peer("a1", 9, "new", authority.Unknown)}, authority.DutyServe, "", ""},
	} {
		r := authority.ReviewPeers(mine, c.peers)
		if r.Forked != (c.duty == authority.DutyStepDown && r.Head == moved.Held) {
			t.Errorf("%s: %+v", c.name, r)
		}
		if r.Duty != c.duty || r.From != c.from || c.says != "" && r.Sentence != c.says {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func TestPlanJoin(t *testing.T) {
	side := func(generation int, epoch uint64, names fleet.HostName) authority.Head {
		h := held(generation)
		h.Epoch, h.Authority = epoch, names
		return h
	}
	ours := side(9, 3, "old")
	for _, c := range []struct {
		name     string
		theirs   authority.Head
		relation authority.Relation
		prefer   fleet.HostName
		kind     authority.JoinKind
		stands   fleet.HostName
		first    fleet.Generation // of the first parent
		want     authority.Reason
	}{
		{"equal", ours, authority.Equal, "", authority.JoinNothing, "", 0, ""},
		{"theirs is behind", side(8, 3, "old"), authority.Behind, "", authority.JoinPush, "", 0, ""},
		{"ours is behind", side(10, 4, "new"), authority.Ahead, "", authority.JoinAdopt, "", 0, ""},
		{"they moved, we wrote", side(8, 4, "new"), authority.Forked, "", authority.JoinMerge, "new", 8, ""},
		{"we moved, they wrote", side(12, 2, "new"), authority.Forked, "", authority.JoinMerge, "old", 9, ""},
		{"nobody moved", side(10, 3, "old"), authority.Forked, "", authority.JoinMerge, "old", 10, ""},
		{"nobody moved, ours is higher", side(8, 3, "old"), authority.Forked, "", authority.JoinMerge, "old", 9, ""},
		{"both moved", side(9, 3, "new"), authority.Forked, "", "", "", 0, authority.ReasonPrefer},
		{"both moved, a stranger is preferred", side(9, 3, "new"), authority.Forked, "a1", "", "", 0, authority.ReasonPrefer},
		{"both moved, theirs is preferred", side(8, 3, "new"), authority.Forked, "new", authority.JoinMerge, "new", 9, ""},
		{"both moved, ours is preferred", side(8, 3, "new"), authority.Forked, "old", authority.JoinMerge, "old", 8, ""},
		{"it cannot be told", side(9, 3, "new"), authority.Unknown, "", "", "", 0, authority.ReasonForked},
	} {
		j, err := authority.PlanJoin(ours, c.theirs, c.relation, c.prefer)
		if got := reasonOf(t, err); got != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
		if j.Kind != c.kind || j.Authority != c.stands || j.Parents[0].Generation != c.first {
			t.Errorf("%s: %+v", c.name, j)
		}
		if j.Kind == authority.JoinMerge && (j.Generation <= max(ours.Generation, c.theirs.Generation) || j.Parents[0] == j.Parents[1]) {
			t.Errorf("%s: %+v", c.name, j)
		}
	}
	last := side(9, 4, "new")
	last.Generation = math.MaxUint64
	if _, err := authority.PlanJoin(ours, last, authority.Forked, ""); reasonOf(t, err) != authority.ReasonExhausted {
		t.Errorf("at the end of the numbers: %v", err)
	}
}

func TestBeginWrites(t *testing.T) {
	s := situation(fleet.QuorumMajority, "a1")
	if _, err := authority.BeginEdit(s); reasonOf(t, err) != authority.ReasonWrongHost || err.Error() != "this host, new, is not the registry authority: generation 7 names old; write there" {
		t.Errorf("an edit elsewhere: %v", err)
	}
	s.Self = "old"
	m, err := authority.BeginEdit(s)
	if err != nil || m.To != "old" || m.Claim().Through != "old" || m.Epoch != 3 || m.Generation != 8 {
		t.Errorf("an edit: %+v, %v", m, err)
	}
	mine := &authority.Promise{Generation: 9, Mover: "old", Nonce: "n1"}
	for name, c := range map[string]struct {
		generation fleet.Generation
		promised   *authority.Promise
		want       authority.Reason
	}{
		"the next one":              {8, nil, ""},
		"a leap":                    {12, nil, ""},
		"the same claim once more":  {9, mine, ""},
		"promised to another claim": {9, &authority.Promise{Generation: 9, Mover: "old", Nonce: "n2"}, authority.ReasonPromised},
		"below what is promised":    {8, mine, authority.ReasonPromised},
		"held":                      {7, nil, authority.ReasonHolds},
	} {
		now := s
		now.Promised = c.promised
		edit, err := authority.BeginEdit(now)
		if err != nil {
			t.Fatal(err)
		}
		edit, err = edit.At(c.generation, c.promised)
		if reasonOf(t, err) != c.want || err == nil && edit.Generation != c.generation {
			t.Errorf("an edit at generation %d, %s: %+v, %v", c.generation, name, edit, err)
		}
	}
	if step := m.Promote(authority.Head{}).Copied().Stored(authority.StoreResult{Version: commit(8)}).Next(nil, true); step.Do != authority.DoFinish {
		t.Errorf("an edit is read from the authority: %+v", step)
	}
	theirs := held(9)
	theirs.Epoch, theirs.Authority = 2, "a1"
	j, err := authority.PlanJoin(authority.HeadOf(s.Copy), theirs, authority.Forked, "")
	if err != nil {
		t.Fatal(err)
	}
	m, err = authority.BeginJoin(s, j, s.Copy)
	if err != nil || m.Generation != 10 || *m.Joins != theirs || m.To != "old" || m.Epoch != 3 {
		t.Errorf("a join: %+v, %v", m, err)
	}
	// Both have moved: the role moves once more, from the first parent's authority to the preferred one.
	theirs.Epoch = 3
	j, err = authority.PlanJoin(authority.HeadOf(s.Copy), theirs, authority.Forked, "old")
	if err != nil {
		t.Fatal(err)
	}
	first := naming(copyOf(9, fleet.QuorumMajority, "a1"), fleet.Authority{Host: "a1", Epoch: 3})
	m, err = authority.BeginJoin(s, j, first)
	if err != nil {
		t.Fatal(err)
	}
	if a := m.Document(first.Registry, "/usr/bin/stado", "/srv/registry.git").Directory.Authority; a.Host != "old" || a.Epoch != 4 || m.Joins.Generation != 7 {
		t.Errorf("a join that moves: %+v, %+v", a, m)
	}
	s.Copy = copyOf(8, fleet.QuorumMajority, "a1", "new")
	if _, err := authority.BeginJoin(s, j, s.Copy); reasonOf(t, err) != authority.ReasonOvertaken {
		t.Errorf("a plan that is old: %v", err)
	}
	s.Self = "new"
	if _, err := authority.BeginJoin(s, j, s.Copy); reasonOf(t, err) != authority.ReasonWrongHost {
		t.Errorf("a join elsewhere: %v", err)
	}
	s.Copy = nil
	if _, err := authority.BeginEdit(s); reasonOf(t, err) != authority.ReasonNoCopy {
		t.Errorf("an edit of nothing: %v", err)
	}
	if _, err := authority.BeginJoin(s, j, nil); reasonOf(t, err) != authority.ReasonNoCopy {
		t.Errorf("a join of nothing: %v", err)
	}
}

// TestTake: the document of a move through the authority is taken by the host that it names, under a promise for it.
func TestTake(t *testing.T) {
	owner := authority.Owner{Mover: "new", Nonce: "n1"}
	promise := &authority.Promise{Generation: 8, Mover: "new", Nonce: "n1"}
	take := authority.Take{Self: "new", Copy: copyOf(7, "", "a1", "new"), Promised: promise, Offered: 8, Owner: owner}
	for _, c := range []struct {
		name   string
		change func(*authority.Take)
		want   authority.Reason
		says   string
	}{
		{"promised", func(*authority.Take) {}, "", ""},
		{"no copy", func(t *authority.Take) { t.Copy = nil }, authority.ReasonNoCopy, "keeps no last-known-good copy"},
		{"a damaged copy", func(t *authority.Take) { t.Copy, t.CopyError = nil, "held.json is damaged" }, authority.ReasonNoCopy, "held.json is damaged"},
		{"for another host", func(t *authority.Take) { t.Owner.Mover = "a1" }, authority.ReasonWrongHost, "generation 8 names a1 as the registry authority, and this host is new"},
		{"nothing promised", func(t *authority.Take) { t.Promised = nil }, authority.ReasonPromised, "has not promised generation 8"},
		{"another claim", func(t *authority.Take) { t.Owner.Nonce = "n2" }, authority.ReasonPromised, "has not promised generation 8"},
		{"another generation", func(t *authority.Take) { t.Offered = 9 }, authority.ReasonPromised, "has not promised generation 9"},
		{"given back", func(t *authority.Take) {
			t.Promised = promise.Release(authority.Claim{Generation: 8, Mover: "new", Nonce: "n1"})
		}, authority.ReasonEnded, "was given back"},
	} {
		now := take
		c.change(&now)
		r, err := now.Decide()
		if got := reasonOf(t, err); got != c.want || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && r != (authority.PushReceipt{State: authority.StateHandedOver, Generation: 8}) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}
