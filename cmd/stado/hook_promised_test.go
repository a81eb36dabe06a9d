package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
)

// push pushes the work tree's branch to a repository, and gives what git said and whether it was taken.
func (w *wards) push(repository string) (said string, taken bool) {
	w.t.Helper()
	out, err := exec.Command("git", "-C", w.fleet.repo, "push", "--quiet", repository, "HEAD:main").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		w.t.Fatal(exit, err)
	}
	return string(out), err == nil
}

// promises has a host promise a generation to a mover, as the authority that gives its role away asks for it.
func (h *ward) promises(generation fleet.Generation, mover fleet.HostName) {
	h.t.Helper()
	held := h.view().Held
	claim, err := json.Marshal(authority.Claim{
		Generation: generation, Mover: mover, Nonce: "n1", Incarnation: "i1", Through: "atlas",
		Base: authority.Head{Commit: held.Commit, Generation: held.Generation, Digest: held.Digest, Authority: "atlas"},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(h.binary, "--home", h.home, "registry", "claim", "-")
	cmd.Stdin = strings.NewReader(string(claim))
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
}

// The authority's repository keeps what its host has promised, and claims every change from the other hosts where a majority is required. A
// repository that is nobody's authority asks nobody.
func TestHookKeepsPromises(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	w.hold(w.names...)
	atlas := w.host["atlas"]
	forge := filepath.Join(w.dir, "forge.git")
	w.fleet.command("authority", "init", forge, "--from", w.fleet.repo)

	atlas.promises(2, "carme")
	w.land()
	if said, taken := w.push(atlas.own()); taken || !strings.Contains(said, "stado: generation 2 is claimed by carme; waiting (raise the generation above it, or push again when the promise has ended: ") {
		t.Errorf("a promised generation, taken %t:\n%s", taken, said)
	}
	if said, taken := w.push(forge); !taken {
		t.Errorf("elsewhere: %s", said)
	}
	w.land()
	if said, taken := w.push(atlas.own()); !taken || !strings.Contains(said, "asking 2 hosts for generation 3") {
		t.Errorf("above it, taken %t:\n%s", taken, said)
	}
	commit, majority := w.tip(w.fleet.repo), 0
	for _, name := range w.names {
		if p := w.host[name].view().Held.Promised; p != nil && p.Generation == 3 && p.Mover == "atlas" && p.Nonce == commit {
			majority++
		}
	}
	if majority < 2 {
		t.Errorf("%d hosts have promised generation 3 to commit %s", majority, commit)
	}
	w.fleet.git("commit", "--quiet", "--amend", "--message", "another third generation")
	if err := os.RemoveAll(atlas.own()); err != nil {
		t.Fatal(err)
	}
	atlas.command("authority", "init", atlas.own(), "--from", forge)
	if said, taken := w.push(atlas.own()); taken || !strings.Contains(said, "and this one is not granted: host atlas has promised generation 3 to atlas (push again when ") {
		t.Errorf("another document of a claimed generation, taken %t:\n%s", taken, said)
	}

	w.land()
	settings := filepath.Join(atlas.home, "agent.cue")
	if err := os.Rename(settings, settings+".off"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, []byte("host: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, taken := w.push(atlas.own()); taken || !strings.Contains(said, "wants each change promised by a majority, and this host's own promises cannot be asked about: cannot use agent.cue: "+settings) {
		t.Errorf("where nothing can be asked, taken %t:\n%s", taken, said)
	}
	if err := os.Rename(settings+".off", settings); err != nil {
		t.Fatal(err)
	}
	w.host["boreas"].sshd.Kill()
	w.host["carme"].sshd.Kill()
	if said, taken := w.push(atlas.own()); taken || !strings.Contains(said, "generation 4 is granted by 1 of 3 registered hosts, and the registry requires 2: boreas (") {
		t.Errorf("without a majority, taken %t:\n%s", taken, said)
	}
	if p := atlas.view().Held.Promised; p == nil || p.Generation != 4 || p.Ended != authority.Released {
		t.Errorf("atlas has promised %+v", p)
	}
}
