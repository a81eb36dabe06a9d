package reconcile

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/store"
)

// TestSay compares every sentence with testdata/say.golden; STADO_UPDATE=1 writes it.
func TestSay(t *testing.T) {
	held := Standing{Commit: "c41", Generation: 41, Digest: "d41"}
	finding := fleet.Finding{Rule: "STADO-SCHEMA-001", Severity: fleet.SeverityError, File: "hosts/a1.cue", Line: 3, Column: 5, Message: "unknown field", Hint: "remove it"}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later := noon.Add(time.Hour)
	warning := fleet.Finding{Rule: "STADO-TEST-003", Severity: fleet.SeverityWarning, Message: "noted"}
	got := strings.Join([]string{
		sayReadingStore,
		sayReadingAuthority("a1"),
		sayNoAnswer("a1", 1500*time.Millisecond),
		sayRecovery("connection refused", 41),
		sayRefreshFailed(3, 30*time.Second, "connection refused"),
		sayRecovered(3),
		sayAdopted(&fleet.Snapshot{Commit: "c42", Registry: &fleet.Registry{Directory: fleet.Directory{Generation: 42}}}),
		sayPending,
		sayPendingLong("c42"),
		sayRollback(40, 41),
		sayReused(41, "d41", "d41b"),
		sayFork(held, Offered{Commit: "x42", Generation: 42, MergeBase: "c40"}),
		sayFork(held, Offered{Commit: "x42", Generation: 42}),
		sayFork(held, Offered{Commit: "x42"}),
		sayLeap(41+fleet.MaxLeap+1, 41),
		sayFindings("c42", fleet.Findings{warning, finding}),
		sayFindings("c42", fleet.Findings{finding, finding, finding}),
		sayFindings("c42", nil),
		sayNoDocument("c42"),
		sayOtherTip("x42", "x43"),
		sayNoReset("c42", "c41"),
		sayNothingToReset,
		sayHeldWithoutRoot,
		sayReset(42, store.Reset{Commit: "x42", FromCommit: "c41", FromGeneration: 41, Reason: "the repository was made anew", At: noon}),
		saySuspended(store.Suspension{Reason: "a migration", Since: noon}),
		saySuspended(store.Suspension{Reason: "a migration", Since: noon, Until: &later}),
		sayResumed(store.Suspension{Reason: "a migration", Since: noon}),
	}, "\n") + "\n"
	golden(t, "testdata/say.golden", got)
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("STADO_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("sentences (-want +got):\n%s", diff)
	}
}
