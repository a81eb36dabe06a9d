package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/store"
)

// faultPoints is above the number of named points that one admission passes, so that a drawn number reaches every one of them, and now
// and then none: then the process is killed while it serves.
const faultPoints = 30

// TestKilledAgentLosesNothing kills agents at drawn points of their writes while commits land. Every start after a kill must find a
// whole document of one generation, never below the one before. The seed is printed; STADO_SEED replays it.
func TestKilledAgentLosesNothing(t *testing.T) {
	t.Parallel()
	rounds := 20
	if os.Getenv("STADO_SOAK") != "" {
		rounds = 200
	}
	draw := drawn(t)
	l := newLab(t, http.HandlerFunc(greet))
	held := 0
	for round := range rounds {
		if round > 0 && draw.IntN(4) > 0 {
			l.land(fmt.Sprintf("round %d", round))
		}
		n := 1 + draw.IntN(faultPoints)
		at := fmt.Sprintf("%s=*=%d", faultVariable, n)
		r := l.start(at)
		l.until("an end or an adoption", func() bool { return r.ended() || r.serves(l.generation) })
		if r.ended() && r.cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("round %d (%s): the agent did not start:\n%s", round, at, r.output())
		}
		r.kill()
		held = l.checkHeld(fmt.Sprintf("round %d (%s)", round, at), held)
	}
	r := l.start()
	l.until("the last generation after all kills", func() bool { return r.serves(l.generation) })
	r.stop()
	held = l.checkHeld("after all kills", held)

	// With the repository gone the copy is served.
	if err := os.Rename(l.repo, l.repo+".gone"); err != nil {
		t.Fatal(err)
	}
	r = l.start()
	l.until("the copy, without the repository", func() bool { return r.holds(held) })
	if _, err := fetch(l.url(l.adapter)); err != nil {
		t.Errorf("without the repository the adapter must serve: %v", err)
	}
	r.stop()
}

// checkHeld reads what a killed agent left: one whole document, not below what was held before.
func (l *lab) checkHeld(when string, before int) int {
	l.t.Helper()
	view, err := store.Read(filepath.Join(l.home, registryFolder))
	if err != nil {
		l.t.Fatalf("%s: %v", when, err)
	}
	if len(view.Blockers) > 0 {
		l.t.Fatalf("%s: a kill left damage: %+v", when, view.Blockers)
	}
	if view.Snapshot == nil {
		if before != 0 {
			l.t.Fatalf("%s: generation %d was held and nothing is", when, before)
		}
		return 0
	}
	generation := int(view.Snapshot.Generation())
	if generation < before {
		l.t.Fatalf("%s: generation %d after %d", when, generation, before)
	}
	mark := fmt.Sprintf("g%d", generation)
	r := view.Snapshot.Registry
	if r.Hosts["a1"].Labels["mark"] != mark || r.Directory.Services["hello"].Consumers["curl"].Capabilities[0] != mark {
		l.t.Fatalf("%s: generation %d mixes two documents:\n%s", when, generation, view.Snapshot.Document)
	}
	entries, err := store.ReadLog(filepath.Join(l.home, registryFolder))
	if err != nil {
		l.t.Fatalf("%s: %v", when, err)
	}
	last := fleet.Generation(0)
	for _, e := range entries {
		if e.Generation <= last {
			l.t.Fatalf("%s: the journal goes from generation %d to %d", when, last, e.Generation)
		}
		last = e.Generation
	}
	return generation
}
