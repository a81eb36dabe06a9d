package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/remote/remotetest"
	"stado.internal/stado/reconcile/sandbox/sandboxtest"
	"stado.internal/stado/reconcile/store"
)

// wards are several hosts: each has a place, a state directory, and a real sshd by which the others reach it. The first one is the
// authority.
type wards struct {
	t     *testing.T
	dir   string
	names []string
	host  map[string]*ward
	fleet *lab // the work tree
}

type ward struct {
	*lab
	place place
	sshd  *remotetest.Daemon
}

// newWards makes hosts and their first registry, generation 1, which no host holds yet.
func newWards(t *testing.T, quorum string, names ...string) *wards {
	t.Helper()
	return newWardsAt(t, loopback(len(names)), time.Second, quorum, names...)
}

// newWardsAt has them at other places, where they ask on another interval once they hold a registry.
func newWardsAt(t *testing.T, places []place, refresh time.Duration, quorum string, names ...string) *wards {
	t.Helper()
	dir := t.TempDir()
	w := &wards{t: t, dir: dir, names: names, host: map[string]*ward{}}
	binary, users := sandboxtest.Binary(t), remotetest.NewKey(t, "ed25519")
	w.fleet = &lab{t: t, binary: binary, home: filepath.Join(dir, "nobody"), repo: filepath.Join(dir, "fleet"), generation: 1}
	bin := filepath.Join(dir, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.Symlink(binary, filepath.Join(bin, "stado"))); err != nil {
		t.Fatal(err)
	}
	var known strings.Builder
	for i, name := range names {
		home := filepath.Join(dir, name)
		started := places[i].program(t, binary, filepath.Join(dir, name+".sh"))
		h := &ward{&lab{t: t, binary: started, home: home, host: name, read: []string{}}, places[i], remotetest.SSHD(t, remotetest.Config{
			Address: places[i].address, Within: places[i].within, UserAuthority: &users,
			Env: []string{"STADO_HOME=" + home, "PATH=" + bin + ":/usr/bin:/bin"},
		})}
		w.host[name] = h
		keys, err := os.ReadFile(h.sshd.KnownHosts)
		if err := errors.Join(err, os.Mkdir(home, 0o755)); err != nil {
			t.Fatal(err)
		}
		known.Write(keys)
	}
	w.declare(quorum, refresh)
	own := filepath.Join(w.host[names[0]].home, authorityFolder)
	w.host[names[0]].command("authority", "init", own, "--from", w.fleet.repo)
	trusted := filepath.Join(dir, "known_hosts")
	first := w.host[names[0]].sshd
	for name, h := range w.host {
		settings := fmt.Sprintf("repository: \"ssh://%s@%s:%d%s\"\nhost: %q\nidentity: %q\nknown_hosts: %q\n", first.User, first.Name, first.Port, own, name, h.sshd.Identity, trusted)
		if err := os.WriteFile(filepath.Join(h.home, "agent.cue"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(trusted, []byte(known.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// declare makes the registry, whose authority is the first host.
func (w *wards) declare(quorum string, refresh time.Duration) {
	l, first := w.fleet, w.names[0]
	l.command("init", l.repo, "--host", first)
	l.git("config", "user.name", "Ada")
	l.git("config", "user.email", "ada@example.net")
	for _, name := range w.names {
		l.file("hosts/"+name+".cue", `package fleet

registry: hosts: %s: {
	ssh: %q
	service_resolver: {api_bind: "127.0.0.1:%d", refresh_seconds: %d, max_stale_seconds: 3600}
}
`, name, w.host[name].sshd.Destination, freeLoopbackPorts(w.t, 1)[0], refresh/time.Second)
	}
	l.file("authority.cue", `package fleet

registry: service_directory: authority: {host: %q, repository: %q, command: %q, epoch: 1}
`, first, filepath.Join(w.host[first].home, authorityFolder), l.binary)
	l.file("policies.cue", "package fleet\n\nregistry: policies: quorum: %q\n", quorum)
	l.git("add", "--all")
	l.git("commit", "--quiet", "--amend", "--no-edit")
}

// land commits the next generation to the work tree.
func (w *wards) land() {
	w.fleet.generation++
	w.fleet.file("generation.cue", "package fleet\n\nregistry: service_directory: generation: %d\n", w.fleet.generation)
	w.fleet.commit(fmt.Sprintf("generation %d", w.fleet.generation))
}

// start starts agents and waits until each serves the newest generation.
func (w *wards) start(names ...string) map[string]*running {
	w.t.Helper()
	out := map[string]*running{}
	for _, name := range names {
		out[name] = w.host[name].start("SSH_AUTH_SOCK=")
	}
	for _, name := range names {
		w.host[name].until("serving the newest generation", func() bool { return out[name].serves(w.fleet.generation) })
	}
	return out
}

// hold has hosts hold the registry, and nothing runs on them: the first one's agent reads it, and the others get a copy of what it has then.
func (w *wards) hold(names ...string) {
	w.t.Helper()
	first := w.host[names[0]]
	w.start(names[0])[names[0]].stop()
	for _, name := range names[1:] {
		for _, part := range []string{registryFolder, storeFolder} {
			to := filepath.Join(w.host[name].home, part)
			if err := os.RemoveAll(to); err != nil {
				w.t.Fatal(err)
			}
			w.copyHome(filepath.Join(first.home, part), to)
		}
	}
}

func (h *ward) move(args ...string) *exec.Cmd {
	return exec.Command(h.binary, append([]string{"--home", h.home, "placement", "move", "--authority"}, args...)...)
}

// takes runs a move to its good end.
func (h *ward) takes() authority.Receipt {
	h.t.Helper()
	return h.receipt(h.command("placement", "move", "--authority", "--to-host", h.host, "--json"))
}

func (h *ward) receipt(text string) authority.Receipt {
	h.t.Helper()
	var r authority.Receipt
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		h.t.Fatalf("%v\n%s", err, text)
	}
	return r
}

func (h *ward) view() store.View {
	h.t.Helper()
	v, err := store.Read(filepath.Join(h.home, registryFolder))
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// changing parts of receipts and sentences.
var (
	commitForm  = regexp.MustCompile(`\b[0-9a-f]{40}\b`)
	addressForm = regexp.MustCompile(`(127\.0|10\.77)\.0\.\d+:\d+`)
	userForm    = regexp.MustCompile(`ssh://[^@ ]+@`)
)

// golden compares what a command said with a file; STADO_UPDATE=1 writes it.
func (w *wards) golden(name, got string) {
	t := w.t
	t.Helper()
	got = strings.ReplaceAll(commitForm.ReplaceAllString(got, "COMMIT"), w.dir, "")
	got = addressForm.ReplaceAllString(userForm.ReplaceAllString(got, "ssh://USER@"), "ADDRESS")
	path := filepath.Join("testdata", "authority", name)
	if os.Getenv("STADO_UPDATE") != "" {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

// The authority is killed, another host takes its role, and every agent serves the new registry without a restart, then what the new
// authority is pushed.
func TestAuthorityMove(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme", "dione")
	agents := w.start(w.names...)
	old, boreas := w.host["atlas"], w.host["boreas"]

	for _, stranger := range []string{"carme", "dione"} {
		said := w.host[stranger].refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas")
		if want := "this host is " + stranger + ", and the registry authority role is taken by the host that is to have it; run stado placement move --authority --to-host boreas on boreas"; !strings.Contains(said, want) {
			t.Errorf("on a third host: %s", said)
		}
	}
	if said := boreas.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas"); !strings.Contains(said, "the registry authority atlas answers; move the role through it with stado placement move on atlas\n") {
		t.Errorf("while the authority answers: %s", said)
	}

	agents["atlas"].kill()
	old.sshd.Kill()
	out := boreas.command("placement", "move", "--authority", "--to-host", "boreas", "--json")
	w.golden("taken.json", out)
	w.fleet.generation++
	for _, name := range w.names[1:] {
		h := w.host[name]
		h.until("serving what was handed over", func() bool { return agents[name].holds(2) })
		h.until("reading the new authority", func() bool { return agents[name].serves(2) })
		if d := h.view().Snapshot.Registry.Directory.Authority; d.Host != "boreas" || d.Epoch != 2 {
			t.Errorf("%s follows %+v", name, d)
		}
	}
	if said := boreas.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas"); !strings.Contains(said, "host boreas is already the registry authority; nothing is to be moved") {
		t.Errorf("once more: %s", said)
	}

	own := filepath.Join(boreas.home, authorityFolder)
	w.fleet.git("pull", "--quiet", "--ff-only", own, "main")
	if said, err := git(w.fleet.repo, "log", "-1", "--format=%B"); err != nil || !regexp.MustCompile(`^authority: move to boreas\n\nStado-Kind: move\nStado-Generation: 2\nStado-Base: [0-9a-f]{40}\nStado-Nonce: [A-Z2-7]{26}$`).MatchString(said) {
		t.Errorf("the commit says, %v:\n%s", err, said)
	}
	if changed, err := git(w.fleet.repo, "diff", "--name-only", "HEAD~"); err != nil || changed != "authority.cue\ngeneration.cue" {
		t.Errorf("the commit changes %s, %v", changed, err)
	}
	w.land()
	w.fleet.git("push", "--quiet", own, "HEAD:main")
	for _, name := range w.names[1:] {
		w.host[name].until("serving the next change", func() bool { return agents[name].serves(3) })
	}

	if _, err := git(own, "push", "--quiet", filepath.Join(old.home, authorityFolder), "main"); err != nil { // without force
		t.Fatal(err)
	}
	w.start("atlas")["atlas"].stop() // it reads its own repository, and from there the new authority
	if d := old.view().Snapshot.Registry.Directory.Authority; d.Host != "boreas" {
		t.Errorf("the old authority follows %+v", d)
	}
	for _, name := range w.names[1:] {
		agents[name].stop()
	}
	if status := boreas.command("authority", "status"); !strings.Contains(status, "authority   boreas\n") {
		t.Errorf("%s", status)
	}
}
