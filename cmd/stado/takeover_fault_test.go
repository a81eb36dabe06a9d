package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/store"
)

// die runs a move to this host that kills itself at a point.
func (h *ward) die(point authority.Point) {
	h.t.Helper()
	h.dieMoving(h.host, point)
}

func (h *ward) dieMoving(to string, point authority.Point) {
	h.t.Helper()
	cmd := h.move("--to-host", to)
	cmd.Env = append(os.Environ(), faultVariable+"="+string(point)+"=1")
	if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		h.t.Fatalf("at %s: %v\n%s", point, err, out)
	}
}

// recorded is the move that a host has under way.
func (h *ward) recorded() *authority.Move {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.home, moveFolder, moveFile))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		h.t.Fatal(err)
	}
	m, err := authority.ParseMove(data)
	if err != nil {
		h.t.Fatal(err)
	}
	return &m
}

// digests are the digests that hosts have admitted for a generation.
func (w *wards) digests(generation fleet.Generation) map[string][]string {
	w.t.Helper()
	out := map[string][]string{}
	for _, name := range w.names {
		log, err := store.ReadLog(filepath.Join(w.host[name].home, registryFolder))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range log {
			if e.Generation == generation {
				out[e.Digest] = append(out[e.Digest], name)
			}
		}
	}
	return out
}

// movePoints are the writes of a move, in order.
var movePoints = [...]authority.Point{
	authority.PointBegun, authority.PointPromise, authority.PointPromoted, authority.PointCopy, authority.PointCopied, authority.PointStore,
	authority.PointStored, authority.PointHanded,
}

// A mover is killed at each of its writes and run again: it goes on under the generation and the nonce that it began with.
func TestKilledMover(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	w.hold("boreas", "carme")
	w.host["atlas"].sshd.Kill()
	w.save("boreas", "carme")
	boreas := w.host["boreas"]
	nonce := ""
	for _, point := range movePoints {
		boreas.die(point)
		m := boreas.recorded()
		if point == authority.PointBegun {
			if m != nil {
				t.Fatalf("a move is recorded before its first write: %+v", m)
			}
			continue
		}
		if nonce == "" {
			nonce = m.Nonce
		}
		if m.Generation != 2 || m.Nonce != nonce {
			t.Fatalf("killed at %s, the move is of generation %d and nonce %s; it began with 2 and %s", point, m.Generation, m.Nonce, nonce)
		}
	}
	if r := boreas.takes(); r.State != authority.StateTaken || r.Generation != 2 || !r.Quorum {
		t.Errorf("%+v", r)
	}
	if m := boreas.recorded(); m != nil {
		t.Errorf("the record of a move that was taken is still there: %+v", m)
	}
	said, err := git(filepath.Join(boreas.home, authorityFolder), "log", "-1", "--format=%B", "main")
	if err != nil || !strings.Contains(said, "Stado-Nonce: "+nonce) {
		t.Errorf("the store's commit says, %v:\n%s", err, said)
	}
	if d := w.digests(2); len(d) != 1 {
		t.Errorf("generation 2 has the digests %v", d)
	}
	if left, err := filepath.Glob(filepath.Join(boreas.home, moveFolder, "[^.]*")); err != nil || len(left) > 0 {
		t.Errorf("the move left %v, %v", left, err)
	}
	w.killAnywhere(boreas, "boreas", "carme")
}

// killAnywhere has a mover killed at drawn points, of files too, and run again. The seed is printed; STADO_SEED replays it.
func (w *wards) killAnywhere(mover *ward, held ...string) {
	t := w.t
	rounds := 2
	if os.Getenv("STADO_SOAK") != "" {
		rounds = 30
	}
	draw := drawn(t)
	for round := range rounds {
		w.restore(held...)
		at := fmt.Sprintf("*=%d", 1+draw.IntN(90))
		cmd := mover.move("--to-host", mover.host)
		cmd.Env = append(os.Environ(), faultVariable+"="+at)
		if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("round %d (%s): %v\n%s", round, at, err, out)
		} else if err != nil {
			mover.takes()
		}
		if d := w.digests(2); len(d) != 1 {
			t.Errorf("round %d (%s): generation 2 has the digests %v", round, at, d)
		}
	}
}

// drawn is a source of numbers that STADO_SEED replays.
func drawn(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("STADO_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("STADO_SEED=%d replays this", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// A store that cannot be made and a host that cannot take the registry make a move partial; run again, only these are tried.
func TestPartialMove(t *testing.T) {
	t.Parallel()
	w := newWards(t, "none", "atlas", "boreas", "carme", "dione")
	w.hold("boreas", "carme", "dione")
	w.host["atlas"].sshd.Kill()
	boreas, carme := w.host["boreas"], w.host["carme"]
	copied, blocked := filepath.Join(carme.home, registryFolder), filepath.Join(boreas.home, authorityFolder)
	if err := os.Rename(copied, copied+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := boreas.move("--to-host", "boreas", "--json")
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != exitRefused {
		t.Fatalf("%v\n%s", err, told.String())
	}
	w.golden("partial.json", string(out))
	w.golden("partial.stderr", told.String())
	if said := boreas.refuse(exitRefused, "placement", "move", "--authority", "--abandon"); !strings.Contains(said, "generation 2, which names boreas, is written already, and what is written is not taken back; run the move again without --abandon to finish it") {
		t.Errorf("--abandon: %s", said)
	}
	if err := os.Rename(copied+".away", copied); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	w.golden("again.json", boreas.command("placement", "move", "--authority", "--to-host", "boreas", "--json"))
	if d := w.digests(2); len(d) != 1 {
		t.Errorf("generation 2 has the digests %v", d)
	}
}

// A move that has written nothing is given up, and its generation is nobody's: the next mover takes a higher one.
func TestAbandonedMove(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	w.hold("boreas", "carme")
	w.host["atlas"].sshd.Kill()
	boreas, carme := w.host["boreas"], w.host["carme"]
	boreas.die(authority.PointCopy)
	if said := boreas.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "carme"); !strings.Contains(said, "the move of the registry authority to boreas, generation 2, is not finished; run it again with --to-host boreas, or give it up with --abandon") {
		t.Errorf("another move: %s", said)
	}
	if said := boreas.command("placement", "move", "--authority", "--abandon"); !strings.Contains(said, "gave the move of the registry authority to boreas up; generation 2 is used by nobody") {
		t.Errorf("%s", said)
	}
	for _, h := range []*ward{boreas, carme} {
		if p := h.view().Held.Promised; p == nil || p.Generation != 2 || p.Ended != authority.Released {
			t.Errorf("%s has promised %+v", h.host, p)
		}
	}
	if said := boreas.refuse(exitRefused, "placement", "move", "--authority", "--abandon"); !strings.Contains(said, "no move of the registry authority is under way on this host, boreas; there is nothing to give up") {
		t.Errorf("once more: %s", said)
	}
	if r := carme.takes(); r.Generation != 3 || r.Authority != "carme" {
		t.Errorf("%+v", r)
	}
	if d := w.digests(2); len(d) != 0 {
		t.Errorf("generation 2 was given up and is held: %v", d)
	}
}

// A host that was asked holds a newer registry: the move is built on that one.
func TestMoveOnReportedRegistry(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	w.hold("boreas", "carme")
	w.land()
	w.fleet.git("push", "--quiet", filepath.Join(w.host["atlas"].home, authorityFolder), "HEAD:main")
	w.hold("carme")
	w.host["atlas"].sshd.Kill()
	newest, err := git(w.fleet.repo, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	boreas := w.host["boreas"]
	if r := boreas.takes(); r.Generation != 3 {
		t.Errorf("%+v", r)
	}
	if parent, err := git(filepath.Join(boreas.home, authorityFolder), "rev-parse", "main~"); err != nil || parent != newest {
		t.Errorf("the move is built on %s, %v; carme held %s", parent, err, newest)
	}
}

// The new authority is lost as well, before anybody has read it: a host that was handed the registry has its history, and takes the role
// in turn.
func TestMoveAfterMove(t *testing.T) {
	t.Parallel()
	w := newWards(t, "none", "atlas", "boreas", "carme")
	w.hold("boreas", "carme")
	w.host["atlas"].sshd.Kill()
	boreas, carme := w.host["boreas"], w.host["carme"]
	first := boreas.takes()
	boreas.sshd.Kill()
	out, err := carme.move("--to-host", "carme", "--json").Output()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != exitRefused { // atlas is not there to be handed it
		t.Fatal(err)
	}
	if r := carme.receipt(string(out)); r.Generation != 3 || r.Fenced != "boreas" || !r.SplitRisk || r.Store.Error != "" {
		t.Errorf("%+v", r)
	}
	if parent, err := git(filepath.Join(carme.home, authorityFolder), "rev-parse", "main~"); err != nil || parent != first.Store.Version {
		t.Errorf("the second move is built on %s, %v; the first one made %s", parent, err, first.Store.Version)
	}
	if d := carme.view().Snapshot.Registry.Directory.Authority; d.Host != "carme" || d.Epoch != 3 {
		t.Errorf("%+v", d)
	}
}

// The authority is a forge that does not answer: a host takes the role from it, and nothing of the forge stays in the registry.
func TestMoveFromForge(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	w.fleet.file("authority.cue", "package fleet\n\n// The forge.\nregistry: service_directory: authority: {remote: \"https://localhost:9/fleet.git\", epoch: 2}\n")
	w.land()
	w.fleet.git("push", "--quiet", filepath.Join(w.host["atlas"].home, authorityFolder), "HEAD:main")
	w.hold(w.names...) // from the repository that their agents are started with
	boreas := w.host["boreas"]
	if r := boreas.takes(); r.Generation != 3 || r.Fenced != "localhost" || len(r.Hosts) != 2 {
		t.Errorf("%+v", r)
	}
	want := fleet.Authority{Host: "boreas", Repository: filepath.Join(boreas.home, authorityFolder), Command: boreas.binary, Branch: "main", Epoch: 3}
	for _, name := range w.names {
		if got := w.host[name].view().Snapshot.Registry.Directory.Authority; got != want {
			t.Errorf("%s holds %+v, want %+v", name, got, want)
		}
	}
}
