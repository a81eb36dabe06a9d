package reconcile

import (
	"fmt"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
)

// TestFence is the whole table: generation below, equal, above and far above × digest × ancestry × mode.
func TestFence(t *testing.T) {
	const held = 41
	kinds := map[string]Kind{
		"below": Rollback, "below/other": Rollback, "below/descends": Rollback, "below/other/descends": Rollback,
		"equal": Same, "equal/descends": Advance, "equal/other": Reused, "equal/other/descends": Reused,
		"above": Fork, "above/other": Fork, "above/descends": Adopt, "above/other/descends": Adopt,
		"far": Fork, "far/other": Fork, "far/descends": Leap, "far/other/descends": Leap,

		"below/stamped": Rollback, "below/other/stamped": Rollback, "below/descends/stamped": Rollback, "below/other/descends/stamped": Rollback,
		"equal/stamped": Same, "equal/descends/stamped": Advance, "equal/other/stamped": Reused, "equal/other/descends/stamped": Pending,
		"above/stamped": Fork, "above/other/stamped": Fork, "above/descends/stamped": Adopt, "above/other/descends/stamped": Adopt,
		"far/stamped": Fork, "far/other/stamped": Fork, "far/descends/stamped": Leap, "far/other/descends/stamped": Leap,
	}
	rules := map[Kind]string{
		Adopt: "", Same: "", Advance: "", Pending: "STADO-FENCE-005",
		Rollback: "STADO-FENCE-001", Reused: "STADO-FENCE-002", Fork: "STADO-FENCE-003", Leap: "STADO-FENCE-004",
	}
	generations := map[string]fleet.Generation{"below": held - 1, "equal": held, "above": held + 1, "far": held + fleet.MaxLeap + 1}
	for name, want := range kinds {
		words := strings.Split(name, "/")
		has := func(w string) bool { return strings.Contains("/"+name+"/", "/"+w+"/") }
		standing := Standing{Commit: "aaaa", Generation: held, Digest: "d1", Stamped: has("stamped")}
		offered := Offered{Commit: "bbbb", Generation: generations[words[0]], Digest: "d1", Descends: has("descends")}
		if has("other") {
			offered.Digest = "d2"
		}
		v := Fence(standing, offered)
		if v.Kind != want || v.Kind.Rule() != rules[want] {
			t.Errorf("%s: %s (%s), want %s (%s)", name, v.Kind, v.Kind.Rule(), want, rules[want])
		}
		if (v.Sentence == "") != (rules[want] == "") {
			t.Errorf("%s: verdict %s with sentence %q", name, v.Kind, v.Sentence)
		}
	}
	if len(kinds) != 4*2*2*2 {
		t.Errorf("the table has %d rows", len(kinds))
	}
}

func TestFenceCorners(t *testing.T) {
	held := Standing{Commit: "aaaa", Generation: 41, Digest: "d1"}
	for _, c := range []struct {
		name    string
		held    Standing
		offered Offered
		want    Kind
		says    string
	}{
		{"nothing held", Standing{}, Offered{Commit: "b", Generation: 1 << 60}, Adopt, ""},
		{"the held commit itself", held, Offered{Commit: "aaaa", Generation: 41, Digest: "d1", Descends: true}, Same, ""},
		{"largest leap", held, Offered{Commit: "b", Generation: 41 + fleet.MaxLeap, Digest: "d2", Descends: true}, Adopt, ""},
		{
			"number space used up", held,
			Offered{Commit: "b", Generation: 1<<64 - 1, Digest: "d2", Descends: true},
			Leap,
			"generation leap refused: generation 18446744073709551615 is 18446744073709551574 above the held 41",
		},
		{"handed over, commit arrives", Standing{Generation: 41, Digest: "d1"}, Offered{Commit: "b", Generation: 41, Digest: "d1"}, Advance, ""},
		{"handed over, newer", Standing{Generation: 41, Digest: "d1"}, Offered{Commit: "b", Generation: 42, Digest: "d2"}, Adopt, ""},
		{
			"handed over, older",
			Standing{Generation: 41, Digest: "d1"},
			Offered{Commit: "b", Generation: 40, Digest: "d2"},
			Rollback,
			"service directory rollback rejected: generation 40 < 41",
		},
		{"reused", held, Offered{Commit: "b", Generation: 41, Digest: "d2", Descends: true}, Reused, "generation 41 reused: held d1, offered d2 (on the branch, run: stado bump --onto origin/main)"},
		{
			"fork", held,
			Offered{Commit: "bbbb", Generation: 42, Digest: "d2", MergeBase: "cccc"},
			Fork,
			"fork refused: commit bbbb (generation 42) does not descend from the held commit aaaa (generation 41), their merge base is cccc",
		},
		{"orphan", held, Offered{Commit: "bbbb", Generation: 42, Digest: "d2"}, Fork, "they have no commit in common"},
	} {
		if v := Fence(c.held, c.offered); v.Kind != c.want || !strings.HasPrefix(v.Sentence, c.says) && !strings.Contains(v.Sentence, c.says) {
			t.Errorf("%s: %s %q, want %s %q", c.name, v.Kind, v.Sentence, c.want, c.says)
		}
	}
}

// FuzzFence holds the promise over all numbers: nothing is adopted that is not higher, and nothing confirms that is not equal.
func FuzzFence(f *testing.F) {
	f.Add(uint64(41), uint64(42), true, true, true)
	f.Add(uint64(0), uint64(0), false, false, false)
	f.Fuzz(func(t *testing.T, held, offered uint64, same, descends, stamped bool) {
		o := Offered{Commit: "b", Generation: fleet.Generation(offered), Digest: "d2", Descends: descends}
		if same {
			o.Digest = "d1"
		}
		v := Fence(Standing{Commit: "a", Generation: fleet.Generation(held), Digest: "d1", Stamped: stamped}, o)
		state := fmt.Sprintf("%s of %d over %d, same %v, descends %v", v.Kind, offered, held, same, descends)
		switch v.Kind {
		case Adopt:
			if held != 0 && (offered <= held || !descends || offered-held > fleet.MaxLeap) {
				t.Error(state)
			}
		case Same, Advance:
			if offered != held || !same {
				t.Error(state)
			}
		case Pending, Rollback, Reused, Fork, Leap:
			if held == 0 {
				t.Error(state)
			}
		}
	})
}
