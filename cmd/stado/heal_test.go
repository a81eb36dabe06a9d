package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"stado.internal/stado/reconcile/authority"
)

// dieHealing runs a join that kills itself at a point.
func (h *ward) dieHealing(point authority.Point) {
	h.t.Helper()
	cmd := exec.Command(h.binary, "--home", h.home, "registry", "heal")
	cmd.Env = append(os.Environ(), faultVariable+"="+string(point)+"=1")
	if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		h.t.Fatalf("at %s: %v\n%s", point, err, out)
	}
}

// part has the authority go on by itself, with changes that no host holds, while the second host takes its role. The work tree's branches
// main and second have one history each.
func (w *wards) part(service string) {
	w.t.Helper()
	first, second := w.host[w.names[0]], w.host[w.names[1]]
	first.sshd.Kill()
	w.astray(first, service, "more")
	if r := second.takes(); r.Generation != 2 {
		w.t.Fatalf("%+v", r)
	}
	first.sshd.Restart(w.t)
	w.fleet.git("checkout", "--quiet", "-B", "second", "main~2")
	w.fleet.git("pull", "--quiet", "--ff-only", second.own(), "main")
	w.fleet.generation = 2
}

// A file that both histories have changed is refused whole before anybody is asked for anything. Made equal, the two are joined, however
// often that is killed in between, under one generation and one nonce. Until the commit is this host's copy a person goes on with it, whom
// every status tells so; after that the agent does when it starts.
func TestHeal(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	w.hold("boreas", "carme")
	w.part("shop")
	boreas := w.host["boreas"]
	w.fleet.file("services/shop.cue", "package fleet\n\nregistry: service_directory: services: shop: {\n\tactive_hosts: [\"boreas\"]\n\tendpoints: boreas: url: \"http://127.0.0.1:1\"\n\tconsumers: people: {}\n}\n")
	w.land()
	w.fleet.git("push", "--quiet", boreas.own(), "HEAD:main")
	w.hold("boreas", "carme")
	heads := w.heads(nil)

	promised := *boreas.view().Held.Promised
	said := boreas.refuse(exitRefused, "registry", "heal")
	for _, want := range []string{"both histories have changed services/shop.cue", "commit " + heads["atlas"][:12], "commit " + heads["boreas"][:12], "git checkout " + heads["atlas"][:12] + " -- services/shop.cue"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if p := boreas.view().Held.Promised; *p != promised || boreas.recorded() != nil {
		t.Errorf("it claimed something: %+v", p)
	}
	w.fleet.git("checkout", "--quiet", heads["atlas"], "--", "services/shop.cue")
	w.land()
	w.fleet.git("push", "--quiet", boreas.own(), "HEAD:main")
	w.hold("boreas", "carme")

	nonce := ""
	for _, point := range []authority.Point{authority.PointPromoted, authority.PointCopied, authority.PointStore} {
		boreas.dieHealing(point)
		waits := "the join of two histories of the registry, generation 5, has not ended on this host: its agent goes on with it when it starts (or go on now: stado registry heal)\n"
		if point == authority.PointPromoted {
			waits = "the join of two histories of the registry, generation 5, has not ended on this host, and waits for a person unless its command still runs (go on: stado registry heal; give it up: stado placement move --authority --abandon)\n"
		}
		for _, verb := range []string{"authority", "agent"} {
			if said, _ := exec.Command(boreas.binary, "--home", boreas.home, verb, "status").Output(); !strings.Contains(string(said), waits) {
				t.Errorf("killed at %s, stado %s status says\n%s", point, verb, said)
			}
		}
		m := boreas.recorded()
		if nonce == "" {
			nonce = m.Nonce
		}
		if m.Kind != authority.KindHeal || m.Generation != 5 || m.Nonce != nonce {
			t.Fatalf("killed at %s, the join is of generation %d and nonce %s; it began with 5 and %s", point, m.Generation, m.Nonce, nonce)
		}
		if said := boreas.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas"); !strings.Contains(said, "run stado registry heal") {
			t.Errorf("a move meanwhile: %s", said)
		}
	}
	agent := boreas.start()
	boreas.until("the end of the join", func() bool { return boreas.recorded() == nil })
	agent.stop()
	for _, words := range []string{"going on with the join of two histories at generation 5, which was interrupted", "joined the history of atlas, generation 3, commit " + heads["atlas"]} {
		if out := agent.output(); !strings.Contains(out, words) {
			t.Errorf("the agent does not say %q:\n%s", words, out)
		}
	}
	r := boreas.heal()
	if r.State != healNothing || r.Generation != 5 || boreas.recorded() != nil {
		t.Errorf("%+v", r)
	}
	after := w.heads(heads)
	if after["atlas"] != r.Commit || after["boreas"] != r.Commit || boreas.view().Held.Commit != r.Commit {
		t.Errorf("the repositories are at %v, and what was joined is %s", after, r.Commit)
	}
	w.fleet.generation = 5
	w.hold("carme", "boreas", "atlas")
	if digests := w.digests(5); len(digests) != 1 {
		t.Errorf("generation 5 has the digests %v", digests)
	}
}

// Two hosts have taken the role, neither knowing of the other: a person says whose it is. What the other one changed besides is a commit on
// top, since a change of the authority changes nothing else.
func TestHealPrefer(t *testing.T) {
	t.Parallel()
	w := newWards(t, "none", "atlas", "boreas", "carme")
	w.hold("boreas", "carme")
	boreas, carme := w.host["boreas"], w.host["carme"]
	w.host["atlas"].sshd.Kill()
	carme.sshd.Kill()
	if r := boreas.receipt(boreas.partly()); r.Generation != 2 {
		t.Fatalf("%+v", r)
	}
	w.fleet.git("checkout", "--quiet", "-b", "second")
	w.fleet.git("pull", "--quiet", "--ff-only", boreas.own(), "main")
	w.fleet.generation = 2
	w.change("mail", boreas)
	w.hold("boreas")
	carme.sshd.Restart(t)
	boreas.sshd.Kill()
	if r := carme.receipt(carme.partly()); r.Generation != 2 {
		t.Fatalf("%+v", r)
	}
	boreas.sshd.Restart(t)
	w.fleet.git("checkout", "--quiet", "main")
	w.fleet.git("pull", "--quiet", "--ff-only", carme.own(), "main")
	w.fleet.generation = 2
	w.change("shop", carme)
	w.hold("carme")
	heads := w.heads(nil)
	if said := boreas.refuse(exitRefused, "registry", "heal"); !strings.Contains(said, "both moved the role once: choose with --prefer boreas or --prefer carme") {
		t.Errorf("%s", said)
	}
	text := boreas.refuse(exitRefused, "registry", "heal", "--prefer", "boreas") // atlas is gone
	if !strings.Contains(text, "joined the history of carme, generation 3") || !strings.Contains(text, "done in part only: atlas (") {
		t.Errorf("%s", text)
	}
	after := w.heads(heads)
	w.fleet.git("fetch", "--quiet", boreas.own(), "main")
	if parents, err := git(w.fleet.repo, "log", "-1", "--format=%P", "FETCH_HEAD~"); err != nil || parents != heads["carme"]+" "+heads["boreas"] {
		t.Errorf("the parents are %s, %v, the heads were %v", parents, err, heads)
	}
	w.fleet.generation = 5
	w.hold("boreas")
	s := boreas.view().Snapshot.Registry
	_, shop := s.Directory.Services["shop"]
	if _, mail := s.Directory.Services["mail"]; !shop || !mail || s.Directory.Authority.Epoch != 3 || s.Directory.Authority.Host != "boreas" {
		t.Errorf("%+v", s.Directory)
	}
	w.hold("carme")
	w.heads(after)
}

// partly runs a move that cannot reach every host.
func (h *ward) partly() string {
	h.t.Helper()
	out, err := h.move("--to-host", h.host, "--json").Output()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != exitRefused {
		h.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
