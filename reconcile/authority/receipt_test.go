package authority_test

import (
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
)

// TestReceipts holds the JSON that `stado placement move --authority --json` prints, and the sentence of a partial one.
func TestReceipts(t *testing.T) {
	moved := func(s authority.Situation, granted ...fleet.HostName) authority.Move {
		m, err := authority.Begin(s)
		if err != nil {
			t.Fatal(err)
		}
		m, out := m.Settle(granting(m, granted...))
		if out.Course != authority.Proceed {
			t.Fatalf("%+v", out)
		}
		return m.Promote(authority.Head{Commit: commit(8), Generation: 8, Digest: digest(8)}).Copied()
	}
	took := authority.HandOver{Receipt: &authority.PushReceipt{State: authority.StateHandedOver, Generation: 8, Unanswered: "no answer from the registry authority old within 30s"}}
	version := authority.StoreResult{Version: commit(8)}

	taken := moved(situation("", "a1", "a2"), "new", "a1", "a2").Stored(version).Handed("a1", took).Handed("a2", took).Receipt()
	if taken.State != authority.StateTaken || taken.Err() != nil {
		t.Errorf("%+v: %v", taken, taken.Err())
	}
	golden(t, "taken.json", asJSON(t, taken))

	partial := moved(situation("", "a1", "a2"), "new").Stored(authority.StoreResult{Error: "authority.git: no space left on device"}).
		Handed("a1", took).Handed("a2", authority.HandOver{Error: "no registry authority SSH connection path answered"}).Receipt()
	golden(t, "partial.json", asJSON(t, partial))
	const says = "the registry authority role was taken by new at service directory generation 8 only partly: the store did not take it: authority.git: no space left on device; not handed to a2 (no registry authority SSH connection path answered); run the same command again to go on"
	if err := partial.Err(); err == nil || err.Error() != says {
		t.Errorf("%v", err)
	}

	// Two hosts: the other one is the authority that is down, and a majority of two is both.
	golden(t, "two-hosts.json", asJSON(t, moved(situation(""), "new").Stored(version).Receipt()))

	// The authority answers, and the role moves through it.
	s := situation("", "a1")
	s.Self, s.Authority = "old", authority.Reading{}
	golden(t, "through.json", asJSON(t, moved(s, "old", "new", "a1").Handed("new", authority.HandOver{Receipt: &authority.PushReceipt{State: authority.StateHandedOver, Generation: 8}}).Stored(version).Receipt()))

	unfinished := moved(situation("", "a1"), "new").Receipt()
	if unfinished.State != authority.StatePartial || unfinished.Store.Error == "" || len(unfinished.Hosts) != 1 || unfinished.Hosts[0].Error == "" {
		t.Errorf("%+v", unfinished)
	}
}
