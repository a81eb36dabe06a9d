package authority_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
)

var silent = authority.Reading{Cause: "no answer from the registry authority old within 30s"}

func situation(quorum fleet.Quorum, hosts ...fleet.HostName) authority.Situation {
	return authority.Situation{Self: "new", To: "new", Copy: copyOf(7, quorum, append(hosts, "new")...), Incarnation: "i1", Authority: silent, Nonce: "n1"}
}

func TestBegin(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*authority.Situation)
		want   authority.Reason
		says   string
	}{
		{"on the host that is to have the role", nil, "", ""},
		{
			"on the authority, while it answers",
			func(s *authority.Situation) { s.Self, s.Authority = "old", authority.Reading{} },
			"", "",
		},
		{
			"on any other host", func(s *authority.Situation) { s.Self = "a1" }, authority.ReasonWrongHost,
			"this host is a1, and the registry authority role is taken by the host that is to have it; run stado placement move --authority --to-host new on new",
		},
		{
			"already the authority", func(s *authority.Situation) { s.Self, s.To = "old", "old" }, authority.ReasonAlready,
			"host old is already the registry authority; nothing is to be moved",
		},
		{
			"no copy", func(s *authority.Situation) { s.Copy = nil }, authority.ReasonNoCopy,
			"this host, new, keeps no last-known-good copy of the registry; run its agent until it has read one, or choose another host",
		},
		{
			"a copy that cannot be read",
			func(s *authority.Situation) {
				s.Copy, s.CopyError = nil, "slot-a.json is damaged (the checksum does not match the content)"
			},
			authority.ReasonNoCopy,
			"this host's last-known-good copy cannot be read: slot-a.json is damaged (the checksum does not match the content); and the registry authority did not answer: no answer from the registry authority old within 30s",
		},
		{
			"a copy that names none", func(s *authority.Situation) { s.Copy = naming(s.Copy, fleet.Authority{}) }, authority.ReasonNoAuthority,
			"the last-known-good copy of this host, new, names no registry authority; set service_directory.authority in its registry",
		},
		{
			"the authority answers", func(s *authority.Situation) { s.Authority = authority.Reading{} }, authority.ReasonAnswers,
			"the registry authority old answers; move the role through it with stado placement move on old",
		},
		{
			"a forge answers",
			func(s *authority.Situation) {
				s.Copy, s.Authority = naming(s.Copy, fleet.Authority{Remote: "https://forge.example/fleet.git"}), authority.Reading{}
			},
			authority.ReasonAnswers,
			"the registry authority forge.example answers; move the role through it with stado placement move on forge.example",
		},
		{
			"no host of the registry", func(s *authority.Situation) { s.Self, s.To = "b9", "b9" }, authority.ReasonUnregistered,
			"host b9 is not registered in generation 7 of the registry",
		},
	} {
		s := situation(fleet.QuorumNone, "a1")
		if c.change != nil {
			c.change(&s)
		}
		m, err := authority.Begin(s)
		if got := reasonOf(t, err); got != c.want || err != nil && err.Error() != c.says {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
		if err == nil && (m.Generation != 8 || m.Epoch != 4 || m.Nonce != "n1" || m.Fenced != "old" || m.To != "new" || m.Through != (s.Self == "old")) {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
}

func TestBeginAbovePromises(t *testing.T) {
	s := situation(fleet.QuorumNone)
	s.Promised = &authority.Promise{Generation: 11, Mover: "a1", Nonce: "n0"}
	if m, err := authority.Begin(s); err != nil || m.Generation != 12 {
		t.Errorf("%+v, %v", m, err)
	}
	s.Promised.Generation = 1<<64 - 1
	if _, err := authority.Begin(s); reasonOf(t, err) != authority.ReasonExhausted {
		t.Errorf("at the end of the numbers: %v", err)
	}
}

// answer is what a host says to a move.
func answer(m authority.Move, h authority.Host, base authority.Relation) authority.Reply {
	a, _ := h.Decide(m.Claim(), base)
	return authority.Reply{Answer: &a}
}

// granting are hosts that hold generation 7, as replies to a move.
func granting(m authority.Move, names ...fleet.HostName) map[fleet.HostName]authority.Reply {
	out := map[fleet.HostName]authority.Reply{}
	for _, n := range names {
		out[n] = answer(m, authority.Host{Name: n, Held: held(7), Hosts: m.Electorate}, authority.Equal)
	}
	return out
}

func TestSettle(t *testing.T) {
	promised := func(m authority.Move, name, mover fleet.HostName) authority.Reply {
		return answer(m, authority.Host{Name: name, Held: held(7), Hosts: m.Electorate, Promised: &authority.Promise{Generation: m.Generation + 2, Mover: mover, Nonce: "n9"}}, authority.Equal)
	}
	holding := func(m authority.Move, generation int, relation authority.Relation) authority.Reply {
		r := answer(m, authority.Host{Name: "a1", Held: held(generation), Hosts: m.Electorate}, authority.Behind)
		r.Relation = relation
		return r
	}
	for _, c := range []struct {
		name     string
		quorum   fleet.Quorum
		replies  func(authority.Move) map[fleet.HostName]authority.Reply
		course   authority.Course
		reason   authority.Reason
		next     fleet.Generation
		majority bool
	}{
		{"everybody that answers grants", "", func(m authority.Move) map[fleet.HostName]authority.Reply { return granting(m, "new", "a1") }, authority.Proceed, "", 8, false},
		{"a majority grants", "", func(m authority.Move) map[fleet.HostName]authority.Reply { return granting(m, "new", "a1", "a2") }, authority.Proceed, "", 8, true},
		{"a majority is required and grants", fleet.QuorumMajority, func(m authority.Move) map[fleet.HostName]authority.Reply { return granting(m, "new", "a1", "a2") }, authority.Proceed, "", 8, true},
		{"a majority is required", fleet.QuorumMajority, func(m authority.Move) map[fleet.HostName]authority.Reply { return granting(m, "new", "a1") }, authority.Stop, authority.ReasonNoQuorum, 8, false},
		{"this host did not promise", "", func(m authority.Move) map[fleet.HostName]authority.Reply { return granting(m, "a1", "a2") }, authority.Stop, authority.ReasonNoQuorum, 8, false},
		{"another claim, whose mover answers", "", func(m authority.Move) map[fleet.HostName]authority.Reply {
			r := granting(m, "new", "a2")
			r["a1"] = promised(m, "a1", "a2")
			return r
		}, authority.Again, authority.ReasonPromised, 11, false},
		{"another claim, whose mover is silent", "", func(m authority.Move) map[fleet.HostName]authority.Reply {
			r := granting(m, "new")
			r["a1"] = promised(m, "a1", "a2")
			return r
		}, authority.Stop, authority.ReasonPromised, 8, false},
		{"another claim, whose mover is silent, where a majority is required", fleet.QuorumMajority, func(m authority.Move) map[fleet.HostName]authority.Reply {
			r := granting(m, "new")
			r["a1"] = promised(m, "a1", "a2")
			return r
		}, authority.Again, authority.ReasonPromised, 11, false},
		{"another claim beside a majority", fleet.QuorumMajority, func(m authority.Move) map[fleet.HostName]authority.Reply {
			r := granting(m, "new", "a2", "old")
			r["a1"] = promised(m, "a1", "a2")
			return r
		}, authority.Proceed, "", 8, true},
		{"the authority answers somebody", "", func(m authority.Move) map[fleet.HostName]authority.Reply {
			r := granting(m, "new", "a2")
			r["a1"] = answer(m, authority.Host{Name: "a1", Held: held(7), Hosts: m.Electorate, Answers: true}, authority.Equal)
			return r
		}, authority.Stop, authority.ReasonAnswers, 8, false},
		{"a higher registry of this history", "", func(m authority.Move) map[fleet.HostName]authority.Reply {
			r := granting(m, "new", "a2")
			r["a1"] = holding(m, 9, authority.Ahead)
			return r
		}, authority.Rebase, "", 8, false},
		{"a higher registry of another history", "", func(m authority.Move) map[fleet.HostName]authority.Reply {
			r := granting(m, "new", "a2")
			r["a1"] = holding(m, 9, authority.Forked)
			return r
		}, authority.Stop, authority.ReasonForked, 8, false},
		{"an answer to another claim", "", func(m authority.Move) map[fleet.HostName]authority.Reply {
			r := granting(m, "new")
			m.Nonce = "n0"
			return mergeReplies(r, granting(m, "a1", "a2"))
		}, authority.Proceed, "", 8, false},
	} {
		m, err := authority.Begin(situation(c.quorum, "a1", "a2"))
		if err != nil {
			t.Fatal(err)
		}
		next, out := m.Settle(c.replies(m))
		if out.Course != c.course || next.Generation != c.next || next.Nonce != "n1" {
			t.Errorf("%s: %+v, %+v", c.name, out, next)
		}
		if out.Refusal != nil && out.Refusal.Reason != c.reason || out.Refusal == nil && c.reason != "" {
			t.Errorf("%s: %+v", c.name, out.Refusal)
		}
		if out.Refusal != nil && out.Release.Generation != 8 {
			t.Errorf("%s: releases %+v", c.name, out.Release)
		}
		if out.Course == authority.Proceed && next.Receipt().Quorum != c.majority {
			t.Errorf("%s: quorum %t", c.name, next.Receipt().Quorum)
		}
	}
}

func mergeReplies(a, b map[fleet.HostName]authority.Reply) map[fleet.HostName]authority.Reply {
	maps.Copy(a, b)
	return a
}

// TestRebase: the hosts of the registry that is built on are the electorate.
func TestRebase(t *testing.T) {
	m, err := authority.Begin(situation(fleet.QuorumMajority, "a1"))
	if err != nil {
		t.Fatal(err)
	}
	replies := granting(m, "new", "a1")
	higher := naming(copyOf(7, fleet.QuorumMajority, "new", "a1", "a2", "a3"), fleet.Authority{Host: "a3", Epoch: 4})
	higher.Digest = digest(6)
	m = m.Rebase(higher)
	if len(m.Electorate) != 5 || m.Fenced != "a3" || m.Epoch != 5 {
		t.Errorf("on %+v", m)
	}
	if _, out := m.Settle(replies); out.Course != authority.Stop || out.Refusal.Reason != authority.ReasonNoQuorum {
		t.Errorf("two of five: %+v", out)
	}
	if step := m.Next([]fleet.HostName{"new", "a1"}, false); step.Do != authority.DoAsk || !slices.Equal(step.Hosts, []fleet.HostName{"a2", "a3", "old"}) {
		t.Errorf("asks %+v", step)
	}
	above := copyOf(8, fleet.QuorumMajority, "new", "a1")
	next, out := m.Rebase(above).Settle(replies)
	if out.Course != authority.Again || out.Refusal.Reason != authority.ReasonHolds || next.Generation != 9 || next.Base.Generation != 8 {
		t.Errorf("on a base of the claimed generation: %+v, %+v", out, next)
	}
	names := naming(higher, fleet.Authority{Host: "new", Epoch: 4})
	if _, out := m.Rebase(names).Settle(replies); out.Course != authority.Stop || out.Refusal.Reason != authority.ReasonAlready {
		t.Errorf("on a base that names this host: %+v", out)
	}
}

func TestTriesEnd(t *testing.T) {
	m, err := authority.Begin(situation(fleet.QuorumMajority, "a1", "a2"))
	if err != nil {
		t.Fatal(err)
	}
	for try := 1; ; try++ {
		replies := granting(m, "new")
		replies["a1"] = answer(m, authority.Host{Name: "a1", Held: held(7), Hosts: m.Electorate, Promised: &authority.Promise{Generation: m.Generation, Mover: "a2", Nonce: "n9"}}, authority.Equal)
		next, out := m.Settle(replies)
		if out.Course == authority.Stop {
			if try != 5 || next.Phase != authority.PhaseAbandoned {
				t.Errorf("stops at try %d: %+v", try, next)
			}
			return
		}
		if next.Generation <= m.Generation {
			t.Fatalf("tries %d after %d", next.Generation, m.Generation)
		}
		m = next
	}
}

func TestPause(t *testing.T) {
	for draw, want := range map[float64]time.Duration{0: 30 * time.Second, 0.5: 60 * time.Second} {
		if got := authority.Pause(30*time.Second, draw); got != want {
			t.Errorf("%v: %v", draw, got)
		}
	}
}

// TestSteps is one whole move, killed before each of its writes: it goes on under the same generation and nonce, and what was done is not
// done again.
func TestSteps(t *testing.T) {
	s := situation(fleet.QuorumNone, "a1", "a2")
	begun, err := authority.Begin(s)
	if err != nil {
		t.Fatal(err)
	}
	promoted := authority.Head{Commit: commit(8), Generation: 8, Epoch: 4, Digest: digest(8), Authority: "new"}
	after := s
	after.Copy = naming(copyOf(8, "", "a1", "a2", "new"), fleet.Authority{Host: "new", Epoch: 4})
	settled, out := begun.Settle(granting(begun, "new", "a1"))
	if out.Course != authority.Proceed {
		t.Fatalf("%+v", out)
	}
	written := settled.Promote(promoted)
	copied := written.Copied()
	stored := copied.Stored(authority.StoreResult{Version: commit(8)})
	one := stored.Handed("a1", authority.HandOver{Receipt: &authority.PushReceipt{State: authority.StateHandedOver, Generation: 8}})
	missed := one.Handed("a2", authority.HandOver{Error: "no route to host"})
	for _, c := range []struct {
		name   string
		record authority.Move
		now    authority.Situation
		point  authority.Point
		do     authority.Do // once resumed
		hosts  []fleet.HostName
		alone  bool // goes on at the start of the agent
	}{
		{"begun", begun, s, authority.PointBegun, authority.DoPromise, nil, false},
		{"promoted, before the copy", written, s, authority.PointPromoted, authority.DoPromise, nil, false},
		{"promoted, after the copy", written, after, authority.PointPromoted, authority.DoStore, nil, true},
		{"copied", copied, after, authority.PointCopied, authority.DoStore, nil, true},
		{"the store refused", copied.Stored(authority.StoreResult{Error: "no space"}), after, authority.PointStored, authority.DoStore, nil, true},
		{"stored", stored, after, authority.PointStored, authority.DoHandOver, []fleet.HostName{"a1", "a2"}, true},
		{"one host handed", one, after, authority.PointHanded, authority.DoHandOver, []fleet.HostName{"a2"}, true},
		{"one host missed", missed, after, authority.PointHanded, authority.DoHandOver, []fleet.HostName{"a2"}, true},
	} {
		if got := c.record.Point(); got != c.point {
			t.Errorf("%s: written at %s", c.name, got)
		}
		if got := c.record.Interrupted(authority.HeadOf(c.now.Copy)); got != c.alone {
			t.Errorf("%s: goes on by itself: %t", c.name, got)
		}
		m, err := c.record.Resume(c.now)
		if err != nil || m.Generation != 8 || m.Nonce != "n1" {
			t.Errorf("%s: %+v, %v", c.name, m, err)
			continue
		}
		if step := m.Next(nil, false); step.Do != c.do || !slices.Equal(step.Hosts, c.hosts) {
			t.Errorf("%s: %+v", c.name, step)
		}
	}
	if step := missed.Next(nil, false); step.Do != authority.DoFinish {
		t.Errorf("a run hands over once: %+v", step)
	}
	if _, ok := one.Taken("a2", held(7)); ok {
		t.Error("a2 holds something else and took it")
	}
	taken, ok := one.Taken("a2", promoted)
	if !ok || taken.Receipt().State != authority.StateTaken || taken.Receipt().Err() != nil || taken.Next(nil, false).Do != authority.DoFinish {
		t.Errorf("%t: %+v", ok, taken.Receipt())
	}
}

// TestThroughSteps: the role moves through the authority, killed before each of its writes. The new host has the document before the
// store does that everybody reads; when it cannot have it, the store is left as it is.
func TestThroughSteps(t *testing.T) {
	s := situation(fleet.QuorumNone, "a1")
	s.Self, s.Authority = "old", authority.Reading{}
	begun, err := authority.Begin(s)
	if err != nil || begun.Leaves != s.Copy.Registry.Directory.Authority {
		t.Fatalf("%+v, %v", begun, err)
	}
	promoted := authority.Head{Commit: commit(8), Generation: 8, Epoch: 4, Digest: digest(8), Authority: "new"}
	after := s
	after.Copy = naming(copyOf(8, "", "a1", "new"), fleet.Authority{Host: "new", Epoch: 4})
	copied := begun.Promote(promoted).Copied()
	missed := copied.Handed("new", authority.HandOver{Error: "no route to host"})
	mirrored := copied.Handed("new", authority.HandOver{Receipt: &authority.PushReceipt{State: authority.StateHandedOver, Generation: 8}})
	refused := mirrored.Stored(authority.StoreResult{Error: "no space"})
	for _, c := range []struct {
		name    string
		record  authority.Move
		now     authority.Situation
		point   authority.Point
		then    authority.Do // in the same run
		resumed authority.Do
		state   authority.State
	}{
		{"begun", begun, s, authority.PointBegun, authority.DoPromise, authority.DoPromise, authority.StatePartial},
		{"promoted", begun.Promote(promoted), s, authority.PointPromoted, authority.DoCopy, authority.DoPromise, authority.StatePartial},
		{"copied", copied, after, authority.PointCopied, authority.DoMirror, authority.DoMirror, authority.StatePartial},
		{"the new host was missed", missed, after, authority.PointHanded, authority.DoFinish, authority.DoMirror, authority.StatePartial},
		{"the new host has it", mirrored, after, authority.PointHanded, authority.DoStore, authority.DoStore, authority.StatePartial},
		{"the store refused", refused, after, authority.PointStored, authority.DoFinish, authority.DoStore, authority.StatePartial},
		{"stored", mirrored.Stored(authority.StoreResult{Version: commit(8)}), after, authority.PointStored, authority.DoFinish, authority.DoFinish, authority.StateTaken},
	} {
		if got := c.record.Point(); got != c.point {
			t.Errorf("%s: written at %s", c.name, got)
		}
		if step := c.record.Next(nil, false); step.Do != c.then || step.Do == authority.DoMirror && (!slices.Equal(step.Hosts, []fleet.HostName{"new"}) || step.Point != authority.PointMirror) {
			t.Errorf("%s: %+v", c.name, step)
		}
		if r := c.record.Receipt(); r.State != c.state || (r.Err() == nil) != (c.state == authority.StateTaken) {
			t.Errorf("%s: %+v", c.name, r)
		}
		if got := c.record.Interrupted(authority.HeadOf(c.now.Copy)); got != (c.record.Phase == authority.PhaseCopied) {
			t.Errorf("%s: goes on by itself: %t", c.name, got)
		}
		m, err := c.record.Resume(c.now)
		if err != nil || m.Generation != 8 || m.Nonce != "n1" || !m.Through {
			t.Errorf("%s: %+v, %v", c.name, m, err)
			continue
		}
		if step := m.Next(nil, false); step.Do != c.resumed {
			t.Errorf("%s, run again: %+v", c.name, step)
		}
	}
}

func TestResumeRefuses(t *testing.T) {
	s := situation(fleet.QuorumNone, "a1")
	begun, err := authority.Begin(s)
	if err != nil {
		t.Fatal(err)
	}
	copied := begun.Promote(authority.Head{Generation: 8, Digest: digest(8)}).Copied()
	for _, c := range []struct {
		name   string
		record authority.Move
		change func(*authority.Situation)
		want   authority.Reason
	}{
		{"to another host", begun, func(s *authority.Situation) { s.To = "a1" }, authority.ReasonUnfinished},
		{"the anchor is lost", begun, func(s *authority.Situation) { s.Incarnation = "i2" }, authority.ReasonLost},
		{"no copy", begun, func(s *authority.Situation) { s.Copy = nil }, authority.ReasonNoCopy},
		{"the authority answers again", begun, func(s *authority.Situation) { s.Authority = authority.Reading{} }, authority.ReasonAnswers},
		{"the generation is used", begun, func(s *authority.Situation) { s.Copy = copyOf(8, "", "a1", "new") }, authority.ReasonOvertaken},
		{"the role is had already", begun, func(s *authority.Situation) { s.Copy = naming(s.Copy, fleet.Authority{Host: "new"}) }, authority.ReasonOvertaken},
		{"the role moved on", copied, func(s *authority.Situation) {
			s.Copy = naming(copyOf(9, "", "a1", "new"), fleet.Authority{Host: "a1"})
		}, authority.ReasonOvertaken},
	} {
		now := s
		c.change(&now)
		if _, err := c.record.Resume(now); reasonOf(t, err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAbandon(t *testing.T) {
	s := situation(fleet.QuorumNone, "a1")
	begun, err := authority.Begin(s)
	if err != nil {
		t.Fatal(err)
	}
	promoted := begun.Promote(authority.Head{Generation: 8, Digest: digest(8)})
	mine := authority.Head{Generation: 8, Digest: digest(8), Authority: "new"}
	for _, c := range []struct {
		name        string
		record      authority.Move
		held        authority.Head
		incarnation string
		want        authority.Reason
	}{
		{"begun", begun, held(7), "i1", ""},
		{"promoted and not written", promoted, held(7), "i1", ""},
		{"promoted and written", promoted, mine, "i1", authority.ReasonWritten},
		{"copied", promoted.Copied(), mine, "i1", authority.ReasonWritten},
		{"copied and lost", promoted.Copied(), held(7), "i2", ""},
		{"copied and overtaken", promoted.Copied(), authority.Head{Generation: 9, Digest: digest(9), Authority: "a1"}, "i1", ""},
	} {
		m, err := c.record.Abandon(c.held, c.incarnation)
		if reasonOf(t, err) != c.want || (err == nil) != (m.Phase == authority.PhaseAbandoned) {
			t.Errorf("%s: %+v, %v", c.name, m, err)
		}
	}
	through := promoted
	through.Through = true
	for name, c := range map[string]struct {
		record authority.Move
		want   authority.Reason
	}{
		"the new host is not told": {through.Copied(), ""},
		"it refuses":               {through.Copied().Handed("new", authority.HandOver{Error: "no"}), ""},
		"it has taken it":          {through.Copied().Handed("new", authority.HandOver{Receipt: &authority.PushReceipt{}}), authority.ReasonWritten},
	} {
		if _, err := c.record.Abandon(mine, "i1"); reasonOf(t, err) != c.want {
			t.Errorf("through the authority, %s: %v", name, err)
		}
	}
	if m, _ := begun.Abandon(held(7), "i1"); m.Next(nil, false).Do != authority.DoFinish {
		t.Error("an abandoned move goes on")
	}
}

func TestDocument(t *testing.T) {
	s := situation(fleet.QuorumNone, "a1")
	m, err := authority.Begin(s)
	if err != nil {
		t.Fatal(err)
	}
	next := m.Document(s.Copy.Registry, "/usr/local/bin/stado", "/var/lib/stado/authority.git")
	want := fleet.Authority{Host: "new", Command: "/usr/local/bin/stado", Repository: "/var/lib/stado/authority.git", Branch: "main", Epoch: 4}
	if next.Directory.Authority != want || next.Directory.Generation != 8 {
		t.Errorf("%+v", next.Directory)
	}
	if s.Copy.Registry.Directory.Generation != 7 {
		t.Error("the base has changed")
	}
	back := *next
	back.Directory.Generation, back.Directory.Authority = s.Copy.Registry.Directory.Generation, s.Copy.Registry.Directory.Authority
	if d := cmp.Diff(s.Copy.Registry, &back); d != "" {
		t.Errorf("more is new than generation and authority:\n%s", d)
	}
}
