package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/duty"
)

// change commits a service and the next generation to the work tree, and pushes it to a host's repository.
func (w *wards) change(service string, to *ward) {
	w.t.Helper()
	w.fleet.file("services/"+service+".cue", `package fleet

registry: service_directory: services: %s: {
	active_hosts: ["carme"]
	endpoints: carme: url: "http://127.0.0.1:8080"
	consumers: people: {}
}
`, service)
	w.land()
	if _, err := to.place.push(w.fleet.repo, to.own()); err != nil {
		w.t.Fatal(err)
	}
}

// astray pushes changes to an authority that nobody else grants: its hook, which would ask for a majority, is out of the way.
func (w *wards) astray(h *ward, services ...string) {
	w.t.Helper()
	hook := filepath.Join(h.own(), "hooks", "pre-receive")
	if err := os.Rename(hook, hook+".off"); err != nil {
		w.t.Fatal(err)
	}
	for _, service := range services {
		w.change(service, h)
	}
	if err := os.Rename(hook+".off", hook); err != nil {
		w.t.Fatal(err)
	}
}

// heads are where the repositories of all hosts are. Whatever they were before must still be in their history: nothing is ever forced.
func (w *wards) heads(before map[string]string) map[string]string {
	w.t.Helper()
	now := map[string]string{}
	for name, h := range w.host {
		if _, err := os.Stat(h.own()); err != nil {
			continue
		}
		head, err := git(h.own(), "rev-parse", "main")
		if err != nil {
			w.t.Fatal(err)
		}
		now[name] = head
		if before[name] == "" {
			continue
		}
		if _, err := git(h.own(), "merge-base", "--is-ancestor", before[name], head); err != nil {
			w.t.Errorf("%s is not in the history of the repository of %s any more, which is at %s", before[name], name, head)
		}
		if deny, err := git(h.own(), "config", "receive.denyNonFastForwards"); err != nil || deny != "true" {
			w.t.Errorf("the repository of %s takes what is forced: %q, %v", name, deny, err)
		}
	}
	for name := range before {
		if now[name] == "" {
			w.t.Errorf("the repository of %s is gone", name)
		}
	}
	return now
}

func (h *ward) heal(args ...string) healReceipt {
	h.t.Helper()
	text := h.command(append([]string{"registry", "heal", "--json"}, args...)...)
	var r healReceipt
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		h.t.Fatalf("%v\n%s", err, text)
	}
	return r
}

// refusedPush is what git says when a push is refused.
func (w *wards) refusedPush(to *ward) string {
	w.t.Helper()
	out, err := to.place.push(w.fleet.repo, to.own())
	if err == nil {
		w.t.Errorf("the repository of %s took the push", to.host)
	}
	return out
}

// The authority goes on by itself while another host takes its role. When it returns every host refuses its registry and it steps down by
// itself; the two histories are joined, and every host, the old authority too, ends at what was joined.
func TestAuthorityReturns(t *testing.T) {
	t.Parallel()
	const refresh = 2 * time.Second
	w := newWardsAt(t, apart(t, 4), refresh, "majority", "atlas", "boreas", "carme", "dione")
	agents := w.start(w.names...)
	atlas, boreas := w.host["atlas"], w.host["boreas"]
	heads := w.heads(nil)

	atlas.sshd.Kill() // nobody reads it any more
	w.astray(atlas, "shop", "wiki")
	atlas.until("its own second change", func() bool { return agents["atlas"].serves(3) })
	agents["atlas"].kill()
	heads = w.heads(heads)

	if r := boreas.takes(); r.Generation != 2 || r.State != "taken" || !r.Quorum {
		t.Errorf("%+v", r)
	}
	for _, name := range w.names[1:] { // within a refresh, as real parts can show it
		w.host[name].within(10*refresh, "reading the new authority", func() bool { return agents[name].serves(2) })
	}
	w.fleet.git("checkout", "--quiet", "-B", "boreas", "main~2")
	w.fleet.git("pull", "--quiet", "--ff-only", boreas.own(), "main")
	w.fleet.generation = 2
	w.change("mail", boreas)
	for _, name := range w.names[1:] {
		w.host[name].until("the new authority's change", func() bool { return agents[name].serves(3) })
	}
	heads = w.heads(heads)

	atlas.sshd.Restart(t)
	w.readAtlas()
	agents["atlas"] = atlas.start("SSH_AUTH_SOCK=")
	stepped := "this host is no longer the registry authority: generation 3 names boreas; the commits made here since their merge base "
	atlas.until("stepping down", func() bool {
		st := atlas.state()
		return st.Duty != nil && strings.HasPrefix(st.Duty.Sentence, stepped) && st.Duty.Forked && agents["atlas"].holds(3)
	})
	if record, err := duty.Load(atlas.home); err != nil || !record.Deposed() || record.Other.Commit != heads["boreas"] {
		t.Errorf("the record is %+v, %v", record, err)
	}
	w.refuseAtlas(heads)
	w.healThem(agents, heads)
	for _, name := range w.names {
		agents[name].stop()
	}
}

// readAtlas has the other hosts read the old authority, in the place of the new one, which does not answer meanwhile: they refuse it.
func (w *wards) readAtlas() {
	w.t.Helper()
	w.host["boreas"].sshd.Kill()
	for _, name := range []string{"carme", "dione"} {
		h := w.host[name]
		h.until("refusing the registry of the old authority", func() bool {
			st := h.state()
			return st.Generation == 3 && strings.Contains(st.Reason, ", asked in its place: generation 3 reused: held ")
		})
	}
	w.host["boreas"].sshd.Restart(w.t)
}

// refuseAtlas: nobody takes what the old authority has, and it takes nothing new.
func (w *wards) refuseAtlas(heads map[string]string) {
	t, atlas := w.t, w.host["atlas"]
	t.Helper()
	theirs := filepath.Join(w.dir, "theirs.bundle")
	atlas.command("registry", "bundle", "create", theirs)
	for _, name := range w.names[1:] {
		if said := w.host[name].refuse(exitRefused, "registry", "bundle", "verify", theirs); !strings.Contains(said, "STADO-FENCE-00") {
			t.Errorf("%s says of what the old authority has: %s", name, said)
		}
	}
	w.fleet.git("checkout", "--quiet", "main")
	w.fleet.generation = 3
	w.fleet.file("services/late.cue", "package fleet\n")
	w.land()
	if said := w.refusedPush(atlas); !strings.Contains(said, "this host is no longer the registry authority: generation 3 names boreas; ") {
		t.Errorf("a push to the old authority: %s", said)
	}
	w.heads(heads)
	if status := atlas.refuse(exitRefused, "authority", "status"); strings.Count(status, "join the two with stado registry heal on boreas") != 1 {
		t.Errorf("%s", status)
	}
	if status := atlas.refuse(exitRefused, "resolver", "status"); !strings.Contains(status, "blocker "+duty.Rule+": this host is no longer the registry authority") {
		t.Errorf("%s", status)
	}
	for _, name := range []string{"atlas", "carme"} {
		said := w.host[name].refuse(exitRefused, "registry", "heal")
		if want := "this host is " + name + ", and two histories are joined by the host that is to be the authority of both; run stado registry heal on boreas"; !strings.Contains(said, want) {
			t.Errorf("healing on %s: %s", name, said)
		}
	}
}

// healThem joins the two histories, on the new authority.
func (w *wards) healThem(agents map[string]*running, heads map[string]string) {
	t, atlas, boreas := w.t, w.host["atlas"], w.host["boreas"]
	t.Helper()
	if plan := boreas.heal("--dry-run"); plan.State != healPlanned || plan.Generation != 4 || !strings.Contains(plan.Diff, "services/shop.cue") {
		t.Errorf("%+v", plan)
	}
	if now := w.heads(heads); !maps.Equal(now, heads) {
		t.Errorf("a dry run moved %v to %v", heads, now)
	}
	text := boreas.command("registry", "heal", "--json")
	w.golden("healed.json", text)
	for _, name := range w.names {
		w.host[name].until("serving what was joined", func() bool { return agents[name].serves(4) })
		d := w.host[name].view().Snapshot.Registry.Directory
		for _, service := range []fleet.ServiceName{"shop", "wiki", "mail"} {
			if _, ok := d.Services[service]; !ok {
				t.Errorf("%s lacks service %s", name, service)
			}
		}
		if d.Authority.Host != "boreas" || d.Authority.Epoch != 2 {
			t.Errorf("%s follows %+v", name, d.Authority)
		}
	}
	if digests := w.digests(4); len(digests) != 1 {
		t.Errorf("generation 4 has the digests %v", digests)
	}
	healed := w.heads(heads)
	if healed["atlas"] != healed["boreas"] {
		t.Errorf("the repositories are at %v", healed)
	}
	parents, err := git(boreas.own(), "log", "-1", "--format=%P", "main")
	if err != nil || parents != heads["boreas"]+" "+heads["atlas"] {
		t.Errorf("the parents are %s, %v", parents, err)
	}
	atlas.until("following the new authority", func() bool { st := atlas.state(); return st.Duty != nil && !st.Duty.Forked })
	if status := atlas.command("authority", "status", atlas.own()); !strings.Contains(status, "this host is no longer the registry authority: generation 4 names boreas\n") {
		t.Errorf("%s", status)
	}
	if r := boreas.heal(); r.State != healNothing || len(r.Repositories) > 0 {
		t.Errorf("once more: %+v", r)
	}
	w.fleet.git("checkout", "--quiet", "-B", "main", "boreas")
	w.fleet.git("pull", "--quiet", "--ff-only", boreas.own(), "main")
	w.fleet.generation = 4
	w.change("chat", boreas)
	for _, name := range w.names {
		w.host[name].until("the next change", func() bool { return agents[name].serves(5) })
	}
	if r := boreas.heal(); r.State != healPushed || fmt.Sprint(r.Repositories) == "[]" {
		t.Errorf("an old repository that is behind: %+v", r)
	}
	w.heads(healed)
}
