package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/reconcile/remote/remotetest"
	"stado.internal/stado/reconcile/store"
)

// save keeps what hosts hold, for [wards.restore].
func (w *wards) save(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.copyHome(w.host[name].home, w.host[name].home+".saved")
	}
}

func (w *wards) restore(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(w.host[name].home); err != nil {
			w.t.Fatal(err)
		}
		w.copyHome(w.host[name].home+".saved", w.host[name].home)
	}
}

func (w *wards) copyHome(from, to string) {
	w.t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
}

// race runs a move on several hosts at once: each waits for the same word. A mover that gets to the point at which env kills it has ended.
func (w *wards) race(env []string, movers ...string) map[string]string {
	w.t.Helper()
	barrier, release, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	said := map[string]*strings.Builder{}
	var running []*exec.Cmd
	for _, name := range movers {
		direct := w.host[name].move("--to-host", name)
		cmd := exec.Command("sh", append([]string{"-c", `read -r _; exec "$0" "$@"`}, direct.Args...)...)
		said[name] = &strings.Builder{}
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = barrier, said[name], said[name]
		if err := cmd.Start(); err != nil {
			w.t.Fatal(err)
		}
		running = append(running, cmd)
	}
	if err := errors.Join(barrier.Close(), release.Close()); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for i, cmd := range running {
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != exitRefused && (env == nil || cmd.ProcessState.ExitCode() != -1) {
			w.t.Errorf("%s: %v", movers[i], err)
		}
		out[movers[i]] = said[movers[i]].String()
	}
	return out
}

// Two movers start at the same time, and a majority is required: no generation has two documents, one host has the role, and running its
// move again brings the others to its registry. A soak has more rounds, in which each mover is killed when it has written its own copy.
func TestTwoMovers(t *testing.T) {
	t.Parallel()
	rounds, killed := 10, 0
	if os.Getenv("STADO_SOAK") != "" {
		rounds, killed = 50, 5
	}
	w := newWards(t, "majority", "atlas", "boreas", "carme", "dione")
	w.hold(w.names...)
	w.host["atlas"].sshd.Kill()
	asked := w.names[1:]
	w.save(asked...)
	for round := range rounds + killed {
		if round > 0 {
			w.restore(asked...)
		}
		var env []string
		if round >= rounds {
			env = []string{faultVariable + "=" + string(authority.PointStore) + "=1"}
		}
		said := w.race(env, "boreas", "carme")
		last, excused := w.newest(), map[fleet.HostName]bool{"atlas": true}
		for _, name := range []string{"boreas", "carme"} {
			// Each may have stepped aside for the other one to its end: then one goes on alone.
			if m := w.host[name].recorded(); last == 1 || m != nil && m.Phase == authority.PhaseCopied && m.Generation == last {
				excused = w.finish(w.host[name])
				last = w.newest()
			}
		}
		digests := map[string][]string{}
		for _, name := range w.names {
			held := w.host[name].view().Held
			if held.Generation == last {
				digests[held.Digest] = append(digests[held.Digest], name)
			} else if !excused[fleet.HostName(name)] {
				t.Errorf("round %d: %s holds generation %d, and %d is the newest\n%v", round, name, held.Generation, last, said)
			}
		}
		if last == 1 || len(digests) != 1 {
			t.Errorf("round %d: generation %d is held as %v\n%v", round, last, digests, said)
		}
	}
}

// newest is the highest generation that a host has admitted. By the logs of all hosts no generation has two documents.
func (w *wards) newest() fleet.Generation {
	w.t.Helper()
	newest, logs := fleet.Generation(0), 0
	digest := map[fleet.Generation]string{}
	for _, name := range w.names {
		log, err := store.ReadLog(filepath.Join(w.host[name].home, registryFolder))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range log {
			if known, ok := digest[e.Generation]; ok && known != e.Digest {
				w.t.Fatalf("generation %d has the digests %v", e.Generation, w.digests(e.Generation))
			}
			digest[e.Generation] = e.Digest
			newest = max(newest, e.Generation)
		}
		logs += min(len(log), 1)
	}
	if logs != len(w.names) {
		w.t.Fatalf("%d of %d hosts have a log", logs, len(w.names))
	}
	return newest
}

// finish runs a move again, to the end that it can have. Hosts may lack its registry for a reason: the one that it was taken from, the first
// authority, which is gone, and those that keep the generation for both movers, which take the next change.
func (w *wards) finish(h *ward) map[fleet.HostName]bool {
	w.t.Helper()
	out, _ := h.move("--to-host", h.host, "--json").Output() // partial, when there is such a host
	r := h.receipt(string(out))
	excused := map[fleet.HostName]bool{"atlas": true, r.Fenced: true}
	for _, each := range r.Hosts {
		excused[each.Host] = each.Host == "atlas" || strings.HasSuffix(each.Error, "; waiting")
		if each.Receipt == nil && !excused[each.Host] || r.Store.Error != "" {
			w.t.Errorf("%s", out)
		}
	}
	return excused
}

// Of two hosts one is a majority of none: the role is taken where none is required, and the receipt says what that risks.
func TestLoneMover(t *testing.T) {
	t.Parallel()
	w := newWards(t, "none", "atlas", "boreas")
	w.hold("boreas")
	w.host["atlas"].sshd.Freeze()
	w.golden("two-hosts.json", w.host["boreas"].command("placement", "move", "--authority", "--to-host", "boreas", "--json"))
}

// What stands against a move while the authority is silent; nothing is begun by any of it.
func TestRefusedMove(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	w.hold("atlas", "boreas")
	atlas, boreas, carme := w.host["atlas"], w.host["boreas"], w.host["carme"]
	refuse := func(h *ward, want string, args ...string) {
		t.Helper()
		if said := h.refuse(exitRefused, append([]string{"placement", "move", "--authority"}, args...)...); !strings.Contains(said, want) {
			t.Errorf("%v: %s", args, said)
		}
		if m := h.recorded(); m != nil {
			t.Errorf("%v: a move is under way: %+v", args, m)
		}
	}
	refuse(atlas, "host atlas is already the registry authority; nothing is to be moved", "--to-host", "atlas")
	atlas.sshd.Kill()
	refuse(boreas, "this host is boreas, and the registry authority role is taken by the host that is to have it; run stado placement move --authority --to-host carme on carme", "--to-host", "carme")
	refuse(carme, "this host, carme, keeps no last-known-good copy of the registry; run its agent until it has read one, or choose another host", "--to-host", "carme")
	refuse(boreas, "host dione is not registered in generation 1 of the registry", "--to-host", "dione", "--host", "dione")
	refuse(boreas, "generation 2 is granted by 1 of 3 registered hosts, and the registry requires 2: atlas (SSH to ", "--to-host", "boreas")
	refuse(boreas, "carme (recovering: host carme lost its anchor and does not know what it has promised; it grants again when every other host has said what it holds)", "--to-host", "boreas")
	for _, args := range [][]string{
		{"--authority", "--to-host", "boreas", "--push"}, {"--authority", "--to-host", "boreas", "hello"}, {"--authority"}, {"hello", "--to-host", "boreas", "--abandon"},
	} {
		if said := boreas.refuse(exitUsage, append([]string{"placement", "move"}, args...)...); !strings.Contains(said, "Run the command with --help") {
			t.Errorf("%v: %s", args, said)
		}
	}

	holder, err := durable.Folder{Path: filepath.Join(boreas.home, moveFolder)}.Lock()
	if err != nil {
		t.Fatal(err)
	}
	refuse(boreas, "another process holds it", "--to-host", "boreas")
	if err := holder(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{store.SlotA, store.SlotB, store.HeldFile} {
		file := filepath.Join(boreas.home, registryFolder, name)
		if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refuse(boreas, "this host's last-known-good copy cannot be read: ", "--to-host", "boreas")
	refuse(boreas, "; and the registry authority did not answer: cannot read the registry from ssh://", "--to-host", "boreas")
}

// An authority that this host alone cannot reach answers another one, which says so. One that is back before a move that was killed has
// written anything ends it. Each time the claim is given back.
func TestMoveFromReachableAuthority(t *testing.T) {
	t.Parallel()
	w := newWards(t, "none", "atlas", "boreas", "carme")
	w.hold("boreas", "carme")
	boreas, carme := w.host["boreas"], w.host["carme"]
	said := boreas.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas", "--known-hosts", carme.sshd.KnownHosts)
	if !strings.Contains(said, "stado: the registry authority atlas answers; move the role through it with stado placement move on atlas\n") {
		t.Errorf("%s", said)
	}
	if p := boreas.view().Held.Promised; p == nil || p.Ended != authority.Released || carme.view().Held.Promised != nil || boreas.recorded() != nil {
		t.Errorf("boreas has promised %+v, carme %+v", p, carme.view().Held.Promised)
	}

	own := filepath.Join(w.host["atlas"].home, authorityFolder)
	if err := os.Rename(own, own+".away"); err != nil {
		t.Fatal(err)
	}
	boreas.die(authority.PointPromoted)
	if err := os.Rename(own+".away", own); err != nil {
		t.Fatal(err)
	}
	if said = boreas.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas"); !strings.Contains(said, "stado: the registry authority atlas answers; move the role through it with stado placement move on atlas\n") {
		t.Errorf("%s", said)
	}
	for _, h := range []*ward{boreas, carme} {
		if p := h.view().Held.Promised; p == nil || p.Ended != authority.Released || h.recorded() != nil {
			t.Errorf("%s has promised %+v", h.host, p)
		}
	}
}

// A registry that names no authority gives no role away.
func TestMoveWithoutAuthority(t *testing.T) {
	t.Parallel()
	l := newLab(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "") }))
	r := l.start()
	l.until("serving", func() bool { return r.serves(1) })
	r.stop()
	if said := l.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "a1", "--host", "a1"); !strings.Contains(said, "the last-known-good copy of this host, a1, names no registry authority; set service_directory.authority in its registry") {
		t.Errorf("%s", said)
	}
}

// A host that was asked holds another history: nothing is built beside it.
func TestMoveBesideFork(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	w.hold("boreas")
	own := filepath.Join(w.host["atlas"].home, authorityFolder)
	w.fleet.git("commit", "--quiet", "--amend", "--message", "another beginning")
	w.land()
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	w.fleet.command("authority", "init", own, "--from", w.fleet.repo)
	w.hold("carme")
	w.host["atlas"].sshd.Kill()
	boreas := w.host["boreas"]
	said := boreas.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas")
	if !strings.Contains(said, "host carme holds generation 2, which names atlas and does not descend from generation 1 that this host builds on; join the two histories first") {
		t.Errorf("%s", said)
	}
	for _, h := range []*ward{boreas, w.host["carme"]} {
		if p := h.view().Held.Promised; p != nil && p.Ended != authority.Released {
			t.Errorf("%s still promises %+v", h.host, p)
		}
	}
}

// Where the registry asks for signatures, a move needs one as every commit does; it goes on when it has one.
func TestSignedMove(t *testing.T) {
	t.Parallel()
	w := newWards(t, "majority", "atlas", "boreas", "carme")
	key := filepath.Join(w.dir, "ada")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	w.fleet.file("trust.cue", "package fleet\n\nregistry: trust: {\n\tmode: \"chain\"\n\tsigners: ada: key: %q\n}\n", strings.TrimSpace(string(public)))
	w.land()
	w.fleet.git("push", "--quiet", filepath.Join(w.host["atlas"].home, authorityFolder), "HEAD:main")
	w.hold("boreas", "carme")
	w.host["atlas"].sshd.Kill()

	boreas := w.host["boreas"]
	said := boreas.refuse(exitRefused, "placement", "move", "--authority", "--to-host", "boreas")
	if !strings.Contains(said, "this host refuses the registry that would make it the authority, so nothing is written: STADO-SIGN-001: ") {
		t.Errorf("without a signature: %s", said)
	}
	nonce := boreas.recorded().Nonce
	settings := filepath.Join(w.dir, "gitconfig")
	if err := os.WriteFile(settings, []byte("[user]\n\tname = Ada\n\temail = ada@example.net\n\tsigningkey = "+key+".pub\n[gpg]\n\tformat = ssh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := boreas.move("--to-host", "boreas", "--sign", "--json")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+settings)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("with a signature: %v\n%s", err, out)
	}
	if r := boreas.receipt(string(out)); r.Generation != 3 {
		t.Errorf("%+v", r)
	}
	if text, err := git(filepath.Join(boreas.home, authorityFolder), "cat-file", "commit", "main"); err != nil || !strings.Contains(text, "Stado-Nonce: "+nonce) || !strings.Contains(text, "gpgsig ") {
		t.Errorf("%v\n%s", err, text)
	}
}

// Hosts are asked at once and their answers taken one by one; what was asked is waited for, also after an error.
func TestEverywhere(t *testing.T) {
	hosts := make([]fleet.HostName, 3*maxCalls)
	for i := range hosts {
		hosts[i] = fleet.HostName(strconv.Itoa(i))
	}
	var asked, most atomic.Int32
	taken := map[fleet.HostName]fleet.HostName{}
	enough := errors.New("enough")
	err := everywhere(hosts, func(h fleet.HostName) fleet.HostName {
		now := asked.Add(1)
		defer asked.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			continue
		}
		return "host " + h
	}, func(h, value fleet.HostName) error {
		taken[h] = value
		if len(taken) == maxCalls {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(taken) != maxCalls || asked.Load() != 0 || most.Load() > maxCalls {
		t.Errorf("%v: %d taken, %d still asked, at most %d at once", err, len(taken), asked.Load(), most.Load())
	}
	for h, value := range taken {
		if value != "host "+h {
			t.Errorf("host %s said %s", h, value)
		}
	}
}

// What a command asks a host goes over one connection, another one only when another registry has the host elsewhere.
func TestLines(t *testing.T) {
	t.Parallel()
	there, elsewhere := remotetest.Listen(t, remotetest.Config{}), remotetest.Listen(t, remotetest.Config{})
	q := &inquiry{ctx: t.Context(), scratch: t.TempDir()}
	for _, at := range []*remotetest.Server{there, there, elsewhere, elsewhere} {
		q.settings.Identity, q.settings.KnownHosts = at.Identity, at.KnownHosts
		r := fleet.Registry{Hosts: map[fleet.HostName]fleet.Host{"boreas": {SSH: at.Destination}}}
		r.Directory.Authority.Command = "cat"
		said, exit, err := call{host: "boreas", stdin: []byte("hello"), limit: maxSaid}.run(q, &r)
		if err != nil || exit.Status != 0 || string(said) != "hello" {
			t.Fatalf("%q, %+v, %v", said, exit, err)
		}
	}
	if n, m := there.Conns.Load(), elsewhere.Conns.Load(); n != 1 || m != 1 {
		t.Errorf("%d connections were made to the one place, and %d to the other", n, m)
	}
	if err := q.close(); err != nil {
		t.Error(err)
	}
}
