package source

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
)

func TestPollOffersWhatIsNew(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.commit("first registry\n\nA body.\n\nStado-Kind: change\nStado-Generation: 1\n", registry(1))
	g := poller(t, r.dir)

	// Nothing is held: the tip is offered.
	o := poll(t, g, "")
	if !o.Descends || o.Unchanged || o.Tip != first || len(o.Steps) != 1 {
		t.Fatalf("first offer: %+v", o)
	}
	s := o.Steps[0]
	if s.Findings.Refuses() || s.Generation != 1 || s.Commit != first || s.Parent != "" || s.Subject != "first registry" || s.Author != "Ada <ada@example.net>" {
		t.Errorf("first step: %+v", s)
	}
	if want := map[string]string{"Stado-Kind": "change", "Stado-Generation": "1"}; !cmp.Equal(s.Trailers, want) {
		t.Errorf("trailers: %v", s.Trailers)
	}
	if p := s.Positions["service_directory.generation"]; p.File != "generation.cue" || p.Line != 3 {
		t.Errorf("position of the generation: %+v", p)
	}
	if reg, err := fleet.Decode(s.Document); err != nil || reg.Hosts["alpha"].Resolver == nil {
		t.Errorf("document: %v\n%s", err, s.Document)
	}
	if again := poll(t, g, ""); !again.Unchanged || !slices.Equal(commits(again), commits(o)) {
		t.Errorf("second offer: %+v", again)
	}

	// The tip is held: nothing is offered.
	for i, unchanged := range []bool{false, true} {
		if o := poll(t, g, first); !o.Descends || len(o.Steps) != 0 || o.Tip != first || o.Unchanged != unchanged {
			t.Errorf("offer %d with the tip held: %+v", i, o)
		}
	}

	// first ── second ── bad ── third: each is judged, a bad one does not hide the next.
	second := r.commit("second", generation(2))
	bad := r.commit("bad", map[string]string{"hosts/alpha.cue": "package fleet\n\nregistry: hosts: alpha: nonsense: 1\n"})
	third := r.commit("third", registry(3))
	o = poll(t, g, first)
	if !o.Descends || o.MergeBase != first || !slices.Equal(commits(o), []string{second, bad, third}) {
		t.Fatalf("offer of three: %v", commits(o))
	}
	if o.Steps[0].Findings.Refuses() || o.Steps[0].Generation != 2 || o.Steps[0].Parent != first {
		t.Errorf("second: %+v", o.Steps[0])
	}
	if f := o.Steps[1].Findings; !f.Refuses() || f[0].File != "hosts/alpha.cue" || o.Steps[1].Document != nil {
		t.Errorf("bad: %+v", f)
	}
	if o.Steps[2].Findings.Refuses() || o.Steps[2].Generation != 3 {
		t.Errorf("third: %+v", o.Steps[2])
	}
}

// An offer is bounded; what follows comes with the next poll, whether or not anything was adopted.
func TestLongHistoriesComeInParts(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	held := r.commit("0", registry(1))
	var want []string
	for i := range 5 {
		want = append(want, r.commit("c", generation(2+i)))
	}
	g := poller(t, r.dir)
	g.maxSteps = 2
	o := poll(t, g, held)
	if !o.Partial || !slices.Equal(commits(o), want[:2]) {
		t.Fatalf("part 1: %v", commits(o))
	}
	o = poll(t, g, held) // nothing was adopted
	if !o.Partial || o.Unchanged || !slices.Equal(commits(o), want[2:4]) {
		t.Fatalf("part 2: %v", commits(o))
	}
	o = poll(t, g, want[2]) // one of them was
	if o.Partial || !slices.Equal(commits(o), want[3:]) {
		t.Fatalf("part 3: %v", commits(o))
	}
	if o = poll(t, g, want[2]); !o.Unchanged {
		t.Errorf("the last part is not remembered: %+v", o)
	}
}

func TestRewrittenHistories(t *testing.T) {
	t.Parallel()
	type outcome struct {
		descends bool
		base     string   // name of a commit
		steps    []string // names of commits
	}
	for _, tc := range []struct {
		name  string
		shape func(r repo, name func(string) string) // names commits; main is then the remote's branch
		want  outcome
	}{
		{"a ── held, rewound to a", func(r repo, name func(string) string) {
			name("a")
			name("held")
			r.git("reset", "-q", "--hard", "HEAD^")
		}, outcome{false, "a", []string{"a"}}},
		{"a ── held; a ── b: forced sideways", func(r repo, name func(string) string) {
			name("a")
			name("held")
			r.git("reset", "-q", "--hard", "HEAD^")
			name("b")
		}, outcome{false, "a", []string{"b"}}},
		{"held; orphan b", func(r repo, name func(string) string) {
			name("held")
			r.git("checkout", "-q", "--orphan", "other")
			name("b")
			r.git("branch", "-M", "other", "main")
		}, outcome{false, "", []string{"b"}}},
		{"held is the second parent of m: a ── b ── m, a ── held ── m", func(r repo, name func(string) string) {
			name("a")
			r.git("branch", "side")
			name("held")
			r.git("branch", "kept")
			r.git("checkout", "-q", "side")
			name("b")
			r.git("merge", "-q", "-s", "ours", "-m", "m", "kept")
			r.git("branch", "-M", "side", "main")
			name("=m")
			name("n")
		}, outcome{true, "held", []string{"m", "n"}}},
		{"held ── a ── m, with a merged branch", func(r repo, name func(string) string) {
			name("held")
			r.git("branch", "side")
			name("a")
			r.git("checkout", "-q", "side")
			name("b")
			r.git("checkout", "-q", "main")
			r.git("merge", "-q", "-s", "ours", "-m", "m", "side")
			name("=m")
		}, outcome{true, "held", []string{"a", "m"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			ids := map[string]string{"": ""}
			g := poller(t, r.dir)
			n := 0
			tc.shape(r, func(name string) string {
				if rest, ok := strings.CutPrefix(name, "="); ok { // names what is there
					ids[rest] = r.git("rev-parse", "HEAD")
					return ids[rest]
				}
				n++
				ids[name] = r.commit(name, registry(n))
				if name == "held" {
					poll(t, g, "") // the store has seen it
				}
				return ids[name]
			})
			o := poll(t, g, ids["held"])
			var want []string
			for _, s := range tc.want.steps {
				want = append(want, ids[s])
			}
			if o.Descends != tc.want.descends || o.MergeBase != ids[tc.want.base] || !slices.Equal(commits(o), want) {
				t.Errorf("descends %v, base %.8s, steps %.8s\nwant %v, %.8s, %.8s", o.Descends, o.MergeBase, commits(o), tc.want.descends, ids[tc.want.base], want)
			}

			// The same verdict without the store that had seen the held commit.
			if err := os.RemoveAll(g.opts.Store); err != nil {
				t.Fatal(err)
			}
			fresh := New(g.opts)
			if again := poll(t, fresh, ids["held"]); again.Descends != o.Descends || !slices.Equal(commits(again), want) {
				t.Errorf("from a fresh store: descends %v, steps %.8s", again.Descends, commits(again))
			}
		})
	}
}

func TestRemotesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		make func(t *testing.T) string
		kind Kind
		says string // after `cannot read the registry from <remote>: `
	}{
		{"branch missing", func(t *testing.T) string {
			r := newRepo(t)
			r.commit("x", registry(1))
			r.git("branch", "-M", "main", "trunk")
			return r.dir
		}, KindMissingBranch, "advertisement: there is no branch main (push the branch, or configure the one that holds the registry)"},
		{
			"empty", func(t *testing.T) string { return newRepo(t).dir }, KindEmpty,
			"advertisement: the repository is empty (commit a registry there and push it)",
		},
		{"no directory", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, KindNotFound, ""},
		{
			"no repository", func(t *testing.T) string { return t.TempDir() }, KindNotFound,
			"advertisement: there is no git repository (check the address)",
		},
		{"shallow", func(t *testing.T) string {
			r := newRepo(t)
			r.commit("1", registry(1))
			r.commit("2", generation(2))
			dir := filepath.Join(t.TempDir(), "shallow")
			r.git("clone", "-q", "--depth", "1", "file://"+r.dir, dir)
			return dir
		}, KindShallow, "advertisement: the repository is a shallow clone; a registry is read with its full history (run git fetch --unshallow in it; in a workflow, give the checkout fetch-depth: 0)"},
		{"objects missing at the remote", func(t *testing.T) string {
			r := newRepo(t)
			r.commit("1", registry(1))
			blob := r.git("rev-parse", "HEAD:generation.cue")
			if err := os.Remove(filepath.Join(r.dir, ".git", "objects", blob[:2], blob[2:])); err != nil {
				t.Fatal(err)
			}
			return r.dir
		}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := poller(t, tc.make(t))
			_, err := g.Poll(t.Context(), Anchor{})
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("error is %T: %v", err, err)
			}
			if tc.kind != "" && e.Kind != tc.kind {
				t.Errorf("kind %s: %v", e.Kind, e)
			}
			if want := "cannot read the registry from " + g.opts.Remote.URL + ": " + tc.says; !strings.HasPrefix(e.Error(), want) {
				t.Errorf("got  %s\nwant %s", e, want)
			}
			if _, err := os.Lstat(g.opts.Store); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a store was made: %v", err)
			}
		})
	}
}

func TestRepositoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give a repository away")
	}
	r := newRepo(t)
	r.commit("x", registry(1))
	if out, err := exec.Command("chown", "-R", "65534", r.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, err := poller(t, r.dir).Poll(t.Context(), Anchor{})
	want := "cannot read the registry from file://" + r.dir + ": advertisement: git refuses a repository that belongs to another user " +
		"(run the agent as the repository's owner, or run: git config --system --add safe.directory " + r.dir + ")"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A remote that recovers is read at the next poll; a held tip is known again without judging anything.
func TestRemoteComesBack(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("x", registry(1))
	g := poller(t, r.dir)
	poll(t, g, "")
	r.git("branch", "-M", "main", "away")
	if _, err := g.Poll(t.Context(), Anchor{Commit: tip}); kindOf(err) != KindMissingBranch {
		t.Fatal(err)
	}
	r.git("branch", "-M", "away", "main")
	if o := poll(t, g, tip); o.Tip != tip || !o.Descends {
		t.Errorf("%+v", o)
	}
}
