package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/store"
)

// gives runs a move of the role through this host, the authority, to its good end.
func (h *ward) gives(to string) authority.Receipt {
	h.t.Helper()
	return h.receipt(h.command("placement", "move", "--authority", "--to-host", to, "--json"))
}

// own is the repository that a host serves as the authority.
func (h *ward) own() string { return filepath.Join(h.home, authorityFolder) }

// tip is the commit at the end of a repository's branch.
func (w *wards) tip(repository string) string {
	w.t.Helper()
	commit, err := git(repository, "rev-parse", "main")
	if err != nil {
		w.t.Fatal(err)
	}
	return commit
}

// The role moves through an authority that answers, on what its agent has not read yet. Every agent follows without a restart, and takes what
// the new authority is pushed; later the role goes back the same way.
func TestMoveThrough(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	agents := w.start(w.names...)
	atlas, boreas := w.host["atlas"], w.host["boreas"]
	if said := w.host["carme"].refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas"); !strings.Contains(said, "this host is carme, and the registry authority role is taken by the host that is to have it; run stado placement move --authority --to-host boreas on boreas") {
		t.Errorf("on a third host: %s", said)
	}
	w.land()
	w.fleet.git("push", "--quiet", atlas.own(), "HEAD:main")
	base := w.tip(atlas.own())
	w.golden("through.json", atlas.command("placement", "move", "--authority", "--to-host", "boreas", "--json"))
	w.fleet.generation++
	for _, name := range w.names {
		w.host[name].until("reading the new authority", func() bool { return agents[name].serves(3) })
		if d := w.host[name].view().Snapshot.Registry.Directory.Authority; string(d.Host) != "boreas" || d.Epoch != 2 || d.Repository != boreas.own() || d.Command != boreas.binary {
			t.Errorf("%s follows %+v", name, d)
		}
	}
	if old, now := w.tip(atlas.own()), w.tip(boreas.own()); old != now {
		t.Errorf("the old authority's branch is at %s, the new one's at %s", old, now)
	}
	if parent, err := git(boreas.own(), "rev-parse", "main~"); err != nil || parent != base {
		t.Errorf("the move is built on %s, %v; the branch was at %s", parent, err, base)
	}
	if changed, err := git(boreas.own(), "diff", "--name-only", "main~", "main"); err != nil || changed != "authority.cue\ngeneration.cue" {
		t.Errorf("the commit changes %s, %v", changed, err)
	}

	w.fleet.git("pull", "--quiet", "--ff-only", boreas.own(), "main")
	w.land()
	w.fleet.git("push", "--quiet", boreas.own(), "HEAD:main")
	for _, name := range w.names {
		w.host[name].until("serving the next change", func() bool { return agents[name].serves(4) })
	}
	if r := boreas.gives("atlas"); r.State != authority.StateTaken || r.Generation != 5 || r.Fenced != "boreas" {
		t.Errorf("back again: %+v", r)
	}
	w.fleet.generation++
	for _, name := range w.names {
		w.host[name].until("following it back", func() bool { return agents[name].serves(5) })
		agents[name].stop()
	}
}

// throughPoints are the writes of a move through the authority, in order.
var throughPoints = [...]authority.Point{
	authority.PointBegun, authority.PointPromise, authority.PointPromoted, authority.PointCopy, authority.PointCopied, authority.PointMirror,
	authority.PointHanded, authority.PointStore, authority.PointStored,
}

// A move through the authority is killed at each of its writes and run again, under one generation and nonce. At no moment does the branch
// that everybody reads name a repository that lacks it.
func TestKilledMoveThrough(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	w.hold(w.names...)
	atlas, boreas := w.host["atlas"], w.host["boreas"]
	first, nonce := w.tip(atlas.own()), ""
	for _, point := range throughPoints {
		atlas.dieMoving("boreas", point)
		m := atlas.recorded()
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
		if point == authority.PointPromoted { // every host has promised the generation
			w.rejoin("carme")
		}
		if tip := w.tip(atlas.own()); tip != first {
			if point != authority.PointStored {
				t.Errorf("killed at %s, everybody reads %s already", point, tip)
			}
			if now := w.tip(boreas.own()); now != tip {
				t.Errorf("killed at %s, everybody reads %s, and the repository that it names is at %s", point, tip, now)
			}
		}
	}
	if said := atlas.refuse(exitRefused, "placement", "move", "--authority", "--abandon"); !strings.Contains(said, "generation 2, which names boreas, is written already, and what is written is not taken back") {
		t.Errorf("--abandon: %s", said)
	}
	r := atlas.start("SSH_AUTH_SOCK=") // goes on by itself
	atlas.until("the end of the move", func() bool { return atlas.recorded() == nil })
	atlas.until("its sentence", func() bool {
		return strings.Contains(r.output(), "the registry authority role has moved from atlas to boreas at service directory generation 2; the stores of both are at "+w.tip(boreas.own()))
	})
	if out := r.output(); !strings.Contains(out, "going on with the move of the registry authority to boreas, generation 2, which was interrupted") {
		t.Errorf("the agent said\n%s", out)
	}
	r.stop()
	if old, now := w.tip(atlas.own()), w.tip(boreas.own()); old != now {
		t.Errorf("the old authority's branch is at %s, the new one's at %s", old, now)
	}
	if said, err := git(atlas.own(), "log", "-1", "--format=%B", "main"); err != nil || !strings.Contains(said, "Stado-Nonce: "+nonce) {
		t.Errorf("the store's commit says, %v:\n%s", err, said)
	}
	w.fleet.generation++
	w.hold("carme") // it reads the old authority, which sends it to the new one
	if d := w.digests(2); len(d) != 1 {
		t.Errorf("generation 2 has the digests %v", d)
	}
}

// rejoin has a host lose its anchor after all have promised generation 2 to boreas: it promises nothing before its agent has asked every other
// host, and what those have promised it keeps away as well.
func (w *wards) rejoin(name string) {
	t, h := w.t, w.host[name]
	t.Helper()
	if err := os.Remove(filepath.Join(h.home, registryFolder, store.HeldFile)); err != nil {
		t.Fatal(err)
	}
	others := filepath.Join(w.host["boreas"].home, registryFolder)
	if err := os.Rename(others, others+".away"); err != nil {
		t.Fatal(err)
	}
	r := h.start("SSH_AUTH_SOCK=")
	h.until("waiting for the others", func() bool {
		return strings.Contains(r.output(), "it grants again when every other host has said what it holds, and waits for boreas (it holds nothing, or has lost its anchor as well)")
	})
	if said := h.command("registry", "claim"); !strings.Contains(said, `"recovering": true`) {
		t.Errorf("%s", said)
	}
	if err := os.Rename(others+".away", others); err != nil {
		t.Fatal(err)
	}
	h.until("the end of its recovery", func() bool {
		return strings.Contains(r.output(), "this host, "+name+", had lost its anchor: every other host has said what it holds and has promised, and generations above 2 are granted again")
	})
	r.stop()
	want := authority.Promise{Generation: 2, Mover: fleet.HostName(name), Ended: authority.Released, Below: authority.Kept{Generation: 2, Mover: "boreas"}}
	if held := h.view().Held; held.Recovering || held.Promised == nil || *held.Promised != want {
		t.Errorf("%+v is promised, want %+v", held.Promised, want)
	}
}

// What stands against a move through the authority leaves everything as it was; given up before its copy is written, it is nobody's.
func TestRefusedMoveThrough(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	w.hold(w.names...)
	atlas, boreas := w.host["atlas"], w.host["boreas"]
	first := w.tip(atlas.own())
	blocked := func(want string) {
		t.Helper()
		said := atlas.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas")
		if !strings.Contains(said, want) {
			t.Errorf("want %s\n%s", want, said)
		}
		if m := atlas.recorded(); m == nil || m.Phase != authority.PhaseClaiming || w.tip(atlas.own()) != first || atlas.view().Held.Generation != 1 {
			t.Errorf("%+v is recorded, the branch is at %s", m, w.tip(atlas.own()))
		}
	}
	if err := os.WriteFile(boreas.own(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	blocked("host boreas cannot serve the registry, so the role stays with atlas: " + boreas.own() + " is there and is not a bare git repository (name another directory)")
	if err := os.Remove(boreas.own()); err != nil {
		t.Fatal(err)
	}
	boreas.command("authority", "init", boreas.own(), "--from", w.fleet.repo)
	w.fleet.git("commit", "--quiet", "--amend", "--message", "another beginning")
	if err := os.RemoveAll(boreas.own()); err != nil {
		t.Fatal(err)
	}
	boreas.command("authority", "init", boreas.own(), "--from", w.fleet.repo)
	blocked("host boreas cannot serve the registry, so the role stays with atlas: branch main of " + boreas.own() + " is at commit ")
	if err := os.RemoveAll(boreas.own()); err != nil {
		t.Fatal(err)
	}

	atlas.dieMoving("boreas", authority.PointCopy)
	w.fleet.git("reset", "--quiet", "--hard", first)
	w.land()
	w.land()
	if said, taken := w.push(atlas.own()); taken || !strings.Contains(said, "the role of the registry authority is moving from here to boreas, at generation 2, and nothing is written meanwhile (push to boreas when it has moved; ") {
		t.Errorf("a change beside the move, taken %t:\n%s", taken, said)
	}
	if said := atlas.command("placement", "move", "--authority", "--abandon"); !strings.Contains(said, "gave the move of the registry authority to boreas up; generation 2 is used by nobody") {
		t.Errorf("%s", said)
	}
	for _, name := range w.names {
		if p := w.host[name].view().Held.Promised; p == nil || p.Generation != 2 || p.Ended != authority.Released {
			t.Errorf("%s has promised %+v", name, p)
		}
	}
	bundle := filepath.Join(w.dir, "other.bundle")
	w.fleet.command("registry", "bundle", "create", bundle, "--repository", atlas.own())
	data, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(boreas.binary, "--home", boreas.home, "authority", "take", "-")
	cmd.Stdin = bytes.NewReader(data)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "generation 1 names atlas as the registry authority, and this host is boreas; nothing is taken") {
		t.Errorf("what is no move: %v\n%s", err, out)
	}

	// The new host has lost its copy when it is to take the registry: nobody is sent there, and the move goes on when it has one again.
	atlas.dieMoving("boreas", authority.PointCopied)
	copied := filepath.Join(boreas.home, registryFolder)
	if err := os.Rename(copied, copied+".away"); err != nil {
		t.Fatal(err)
	}
	said := atlas.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas")
	if want := "the registry authority role was taken by boreas at service directory generation 3 only partly: the store did not take it: not written yet; not handed to boreas (this host, boreas, keeps no last-known-good copy of the registry"; !strings.Contains(said, want) || w.tip(atlas.own()) != first {
		t.Errorf("want %s\n%s", want, said)
	}
	if err := os.Rename(copied+".away", copied); err != nil {
		t.Fatal(err)
	}
	if r := atlas.gives("boreas"); r.State != authority.StateTaken || r.Generation != 3 || w.tip(atlas.own()) != w.tip(boreas.own()) {
		t.Errorf("%+v", r)
	}
}
