package duty_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/reconcile/duty"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/reconcile/sandbox/sandboxtest"
	"stado.internal/stado/reconcile/source"
)

// forge is a real repository of a registry whose commits are signed, or not.
type forge struct {
	t    *testing.T
	dir  string
	keys map[string]string // public halves
}

func newForge(t *testing.T) *forge {
	f := &forge{t: t, dir: t.TempDir(), keys: map[string]string{}}
	f.git("init", "-q", "-b", "main")
	f.git("config", "gpg.format", "ssh")
	for _, name := range []string{"ada", "ben", "eve"} {
		file := filepath.Join(f.dir, ".git", name)
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		public, err := os.ReadFile(file + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		f.keys[name] = strings.TrimSpace(string(public))
	}
	f.write("registry.cue", "import \"stado.internal/schema\"\n\nregistry: schema.#Registry\nregistry: hosts: {atlas: {}, boreas: {}, carme: {}}")
	return f
}

func (f *forge) git(args ...string) string {
	f.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.net", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.net")
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (f *forge) write(file, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, file), []byte("package fleet\n\n"+text+"\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// trust has the next commit name whose signatures count from then on.
func (f *forge) trust(mode fleet.TrustMode, names ...string) {
	f.t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "registry: trust: {\n\tmode: %q\n", mode)
	for _, n := range names {
		fmt.Fprintf(&text, "\tsigners: %s: key: %q\n", n, f.keys[n])
	}
	f.write("trust.cue", text.String()+"}")
}

// land commits a generation that a host is the authority of, signed by whom it says; "" for nobody.
func (f *forge) land(generation, epoch int, names, signer string) string {
	f.t.Helper()
	f.write("generation.cue", fmt.Sprintf("registry: service_directory: generation: %d", generation))
	f.write("authority.cue", fmt.Sprintf("registry: service_directory: authority: {host: %q, repository: \"/srv/authority.git\", command: \"/usr/bin/stado\", epoch: %d}", names, epoch))
	return f.commit(signer)
}

func (f *forge) commit(signer string) string {
	f.t.Helper()
	f.git("add", "-A")
	sign := []string{"-c", "commit.gpgsign=false"}
	if signer != "" {
		sign = []string{"-c", "commit.gpgsign=true", "-c", "user.signingkey=" + filepath.Join(f.dir, ".git", signer)}
	}
	f.git(append(sign, "commit", "-q", "--allow-empty", "-m", "a change")...)
	return f.git("rev-parse", "HEAD")
}

// bundle writes what a branch has, under the name of the registry's branch.
func (f *forge) bundle(branch string) string {
	f.t.Helper()
	dir := f.t.TempDir()
	f.git("init", "-q", "--bare", dir)
	f.git("push", "-q", "--force", dir, branch+":refs/heads/main")
	file := filepath.Join(dir, "bundle")
	f.git("--git-dir", dir, "bundle", "create", "-q", file, "main")
	return file
}

// liars claim anything, and give any history.
type liars struct {
	claims  map[fleet.HostName]authority.Head
	bundles map[fleet.HostName]string
	reads   sync.Map
}

func (l *liars) Held(_ context.Context, _ *fleet.Registry, host fleet.HostName) (authority.Answer, error) {
	return authority.Answer{Host: host, Held: l.claims[host]}, nil
}

func (l *liars) History(_ context.Context, _ *fleet.Registry, host fleet.HostName, file string) error {
	l.reads.Store(host, true)
	data, err := os.ReadFile(l.bundles[host])
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// said is a log that is written and read at once.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// watched is atlas, which holds what the forge's main branch has, and asks hosts that may lie.
type watched struct {
	t      *testing.T
	watch  *duty.Watch
	own    *src
	served *fleet.Snapshot
	log    said
	home   string
}

// watching starts atlas.
func watching(t *testing.T, f *forge, peers duty.Peers) *watched {
	t.Helper()
	w := &watched{t: t, own: &src{name: "own", offer: source.Offer{Tip: "own"}}, home: t.TempDir()}
	run := sandbox.Runner{Command: []string{sandboxtest.Build(t, "stado.internal/stado/reconcile/source/testdata/child")}}
	open := func(r source.Remote, err error) (*source.Git, error) {
		return source.New(source.Options{Store: filepath.Join(w.home, "registry.git"), Remote: r, Runner: run}), err
	}
	g, err := open(source.ParseRemote(f.dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	o, err := g.Poll(t.Context(), source.Anchor{})
	if err != nil {
		t.Fatal(err)
	}
	step := o.Steps[0]
	registry, err := fleet.Decode(step.Document)
	if err != nil {
		t.Fatalf("%v: %v", err, step.Findings)
	}
	w.served = &fleet.Snapshot{Commit: step.Commit, Digest: step.Digest, Document: step.Document, Registry: registry}
	w.watch, err = duty.New(duty.Options{
		Home: durable.Folder{Path: w.home}, Peers: peers, Self: func(*fleet.Snapshot) fleet.HostName { return "atlas" },
		Interval: func(*fleet.Snapshot) time.Duration { return time.Minute },
		Bundle: func(file string) (reconcile.Source, error) {
			g, err := open(source.BundleRemote(file, ""))
			return g, err
		},
		Poke: func() {}, Changed: func() {}, Log: slog.New(slog.NewTextHandler(io.MultiWriter(&w.log, t.Output()), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.watch.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// until reads until something is so, and gives the tip of the last offer.
func (w *watched) until(what string, so func() bool) string {
	w.t.Helper()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-every.C {
		offer, err := w.watch.Guard(w.own, w.served).Poll(w.t.Context(), source.Anchor{Commit: w.served.Commit, Generation: w.served.Generation(), Digest: w.served.Digest})
		if err != nil {
			w.t.Fatal(err)
		}
		if so() {
			return offer.Tip
		}
	}
	w.t.Fatalf("waited for %s: the record is %+v, the doubts %+v", what, w.watch.Record(), w.watch.Doubts())
	return ""
}

// Real commits, signed or not, in real bundles: the role is given up for what the trust of the held registry vouches for, which asks that
// ada signs. Keys that are added on the way count from the next commit on, in a fork as well.
func TestShownInGit(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	f.trust(fleet.TrustChain, "ada")
	base := f.land(1, 1, "atlas", "")
	f.land(2, 1, "atlas", "ada")
	rotated := func(generation, epoch int, names string) {
		f.trust(fleet.TrustChain, "ben")
		f.land(generation, 1, "atlas", "ada")
		f.land(generation+1, epoch, names, "ben")
	}
	for _, c := range []struct {
		name   string
		from   string // what the branch of boreas begins at
		made   func()
		head   authority.Head
		forked bool
		doubt  string // empty: it is believed
	}{
		{name: "newer", from: "main", made: func() { rotated(3, 2, "boreas") }, head: authority.Head{Generation: 4, Epoch: 2}},
		{name: "forked", from: base, made: func() { rotated(2, 2, "boreas") }, head: authority.Head{Generation: 3, Epoch: 2}, forked: true},
		{name: "unsigned", from: "main", made: func() { f.land(3, 2, "boreas", "") }, head: authority.Head{Generation: 3, Epoch: 2}, doubt: "STADO-SIGN-001: commit "},
		{name: "forked by a stranger", from: base, made: func() { f.land(9, 9, "boreas", "eve") }, head: authority.Head{Generation: 9, Epoch: 9}, doubt: "STADO-SIGN-003: commit "},
	} {
		f.git("checkout", "-q", "-B", "theirs", c.from)
		c.made()
		c.head.Commit, c.head.Digest, c.head.Authority = f.git("rev-parse", "HEAD"), strings.Repeat("e", 64), "boreas"
		peers := &liars{claims: map[fleet.HostName]authority.Head{"boreas": c.head}, bundles: map[fleet.HostName]string{"boreas": f.bundle("theirs")}}
		f.git("checkout", "-q", "main")
		w := watching(t, f, peers)
		tip := w.until("a conclusion on "+c.name, func() bool { return w.watch.Record() != nil || len(w.watch.Doubts()) > 0 })
		want := "own"
		if c.doubt == "" && !c.forked {
			want = c.head.Commit
		}
		r, doubts := w.watch.Record(), w.watch.Doubts()
		switch {
		case tip != want:
			t.Errorf("%s: what is read is %s, want %s", c.name, tip, want)
		case c.doubt != "" && (r != nil || len(doubts) != 1 || !strings.Contains(doubts[0].Sentence, c.doubt)):
			t.Errorf("%s: the record is %+v, the doubts %+v", c.name, r, doubts)
		case c.doubt == "" && (len(doubts) > 0 || r.Duty != authority.DutyStepDown || r.Forked != c.forked || r.Other.Commit != c.head.Commit):
			t.Errorf("%s: the record is %+v, the doubts %+v", c.name, r, doubts)
		}
	}
}

// One host that makes up a history for a commit does not keep what another one shows of it from being heard, nor what it says about itself.
func TestShownBesideALiar(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	f.trust(fleet.TrustChain, "ada")
	f.land(1, 1, "atlas", "")
	held := f.land(2, 1, "atlas", "ada")
	moved := f.land(3, 2, "carme", "ada")
	honest, garbage := f.bundle("main"), filepath.Join(t.TempDir(), "garbage")
	f.git("reset", "-q", "--hard", held)
	if err := os.WriteFile(garbage, []byte("# v2 git bundle\n"+moved+" refs/heads/main\n\nPACK"), 0o600); err != nil {
		t.Fatal(err)
	}
	head := authority.Head{Commit: moved, Generation: 3, Epoch: 2, Digest: strings.Repeat("e", 64), Authority: "carme"}
	high := head
	high.Generation, high.Epoch = 900, 900
	peers := &liars{
		claims:  map[fleet.HostName]authority.Head{"boreas": high, "carme": head},
		bundles: map[fleet.HostName]string{"boreas": garbage, "carme": honest},
	}
	w := watching(t, f, peers)
	if tip := w.until("stepping down", func() bool { return w.watch.Record() != nil }); tip != moved {
		t.Errorf("what is read is %s", tip)
	}
	if r := w.watch.Record(); r.Sentence != "this host is no longer the registry authority: generation 3 names carme" {
		t.Errorf("%+v", r)
	}
	if doubts := w.watch.Doubts(); len(doubts) != 1 || doubts[0].Host != "boreas" || !strings.Contains(doubts[0].Sentence, "the commit is generation 3, epoch 2, which names carme") {
		t.Errorf("it doubts %+v", doubts)
	}
	var read []fleet.HostName
	peers.reads.Range(func(host, _ any) bool { read = append(read, host.(fleet.HostName)); return true })
	slices.Sort(read)
	if !slices.Equal(read, slices.Sorted(maps.Keys(peers.claims))) {
		t.Errorf("the histories of %v were read", read)
	}
}
