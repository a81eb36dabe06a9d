package source

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/signature"
)

// signingKey gives the repository a key of that name and returns its public half. What is committed next is signed with it.
func (r repo) signingKey(name string) string {
	r.t.Helper()
	file := filepath.Join(r.dir, ".git", name)
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file).CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, setting := range [][2]string{{"gpg.format", "ssh"}, {"user.signingkey", file}, {"commit.gpgsign", "true"}} {
		r.git("config", setting[0], setting[1])
	}
	return strings.TrimSpace(string(public))
}

func trusting(mode fleet.TrustMode, key string, scope ...string) fleet.Trust {
	return fleet.Trust{Mode: mode, Signers: map[fleet.SignerName]fleet.Signer{"ada": {Key: key, Scope: scope}}}
}

// TestVouch asks the store of a host, through a child, and the repository itself, through git: both say the same.
func TestVouch(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.commit("1", registry(1))
	key := r.signingKey("ada")
	signed := r.commit("2", generation(2))
	r.git("config", "commit.gpgsign", "false")
	unsigned := r.commit("3", with(generation(3), "hosts/alpha.cue", registry(1)["hosts/alpha.cue"]+"\n"))
	r.git("config", "commit.gpgsign", "true")
	top := r.commit("4", generation(4))
	g := poller(t, r.dir)
	o := poll(t, g, first)
	local := Repository{Dir: r.dir, Env: os.Environ()}
	for name, c := range map[string]struct {
		question Question
		count    int
		kind     signature.Kind
	}{
		"chain":           {Question{Since: first, Tip: top, Commits: commits(o), Trust: trusting(fleet.TrustChain, key)}, 1, signature.Unsigned},
		"chain, one":      {Question{Since: first, Tip: top, Commits: []string{signed}, Trust: trusting(fleet.TrustChain, key)}, 1, ""},
		"chain, past it":  {Question{Since: unsigned, Tip: top, Commits: []string{top}, Trust: trusting(fleet.TrustChain, key)}, 1, ""},
		"chain, a part":   {Question{Since: first, Tip: top, Commits: []string{top}, Trust: trusting(fleet.TrustChain, key)}, 0, signature.Unsigned},
		"tip":             {Question{Since: first, Tip: top, Commits: commits(o), Trust: trusting(fleet.TrustTip, key)}, 3, ""},
		"tip, a part":     {Question{Since: first, Tip: top, Commits: []string{signed, unsigned}, Trust: trusting(fleet.TrustTip, key)}, 2, ""},
		"tip, an old one": {Question{Since: first, Tip: unsigned, Commits: []string{signed, unsigned}, Trust: trusting(fleet.TrustTip, key)}, 1, signature.Unsigned},
		"tip, in scope":   {Question{Since: first, Tip: top, Commits: commits(o), Trust: trusting(fleet.TrustTip, key, "generation.cue", "hosts/")}, 3, ""},
		"tip, not in it":  {Question{Since: first, Tip: top, Commits: commits(o), Trust: trusting(fleet.TrustTip, key, "generation.cue")}, 1, signature.OutOfScope},
		"a tip by itself": {Question{Tip: top, Commits: []string{top}, Trust: trusting(fleet.TrustTip, key)}, 1, ""},
		"itself, scoped":  {Question{Tip: top, Commits: []string{top}, Trust: trusting(fleet.TrustTip, key, "generation.cue")}, 0, signature.OutOfScope},
		"nobody's":        {Question{Since: first, Tip: top, Commits: commits(o), Trust: trusting(fleet.TrustChain, "")}, 0, signature.Unknown},
	} {
		for range 2 { // the second answer is kept
			for who, ask := range map[string]func() (int, *signature.Refusal, error){
				"store": func() (int, *signature.Refusal, error) { return g.Vouch(t.Context(), c.question) },
				"git":   func() (int, *signature.Refusal, error) { return local.Vouch(t.Context(), c.question) },
			} {
				n, refusal, err := ask()
				if err != nil {
					t.Fatalf("%s, %s: %v", name, who, err)
				}
				kind := signature.Kind("")
				if refusal != nil {
					kind = refusal.Kind
				}
				if n != c.count || kind != c.kind {
					t.Errorf("%s, %s: %d commits and %q, want %d and %q", name, who, n, kind, c.count, c.kind)
				}
			}
		}
	}
	for _, q := range []Question{
		{Since: signed, Tip: top, Commits: []string{signed}, Trust: trusting(fleet.TrustTip, key)},
		{Since: first, Tip: top, Commits: []string{signed, top}, Trust: trusting(fleet.TrustTip, key)},
	} {
		if _, _, err := g.Vouch(t.Context(), q); kindOf(err) != KindInternal {
			t.Errorf("%v of the store: %v", q.Commits, err)
		}
		if _, _, err := local.Vouch(t.Context(), q); kindOf(err) != KindRevision {
			t.Errorf("%v of git: %v", q.Commits, err)
		}
	}
}

// TestVouchMerge holds that a merge whose first parent is another line is judged by what it changes of the held commit.
func TestVouchMerge(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("1", registry(1))
	r.git("checkout", "-q", "-b", "side")
	r.commit("side", map[string]string{"services/side.cue": "package fleet\n"})
	r.git("checkout", "-q", "main")
	held := r.commit("2", generation(2))
	key := r.signingKey("ada")
	r.git("checkout", "-q", "side")
	r.git("merge", "-q", "-S", "--no-edit", "main")
	tip := r.git("rev-parse", "HEAD")
	g := poller(t, r.dir)
	r.git("checkout", "-q", "main")
	r.git("merge", "-q", "--ff-only", "side")
	if o := poll(t, g, held); !slices.Equal(commits(o), []string{tip}) || o.Steps[0].Parent == held {
		t.Fatalf("%+v", o)
	}
	for scope, kind := range map[string]signature.Kind{"services/": "", "generation.cue": signature.OutOfScope} {
		n, refusal, err := g.Vouch(t.Context(), Question{Since: held, Tip: tip, Commits: []string{tip}, Trust: trusting(fleet.TrustChain, key, scope)})
		if err != nil || (n == 1) != (kind == "") || kind != "" && refusal.Kind != kind {
			t.Errorf("%s: %d %+v %v", scope, n, refusal, err)
		}
	}
}

// TestChanges compares our differences of trees with git's own, over directories, renames, links, modes and submodules.
func TestChanges(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	a := r.commit("a", map[string]string{"x": "1", "dir/x": "1", "dir/sub/y": "1", "swap": "1", "gone/z": "1", "mode": "1", "moved": "a long text to be moved\n"})
	r.git("rm", "-q", "-r", "gone", "swap")
	r.git("mv", "moved", "dir/moved")
	if err := os.Symlink("x", filepath.Join(r.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(r.dir, "mode"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("update-index", "--add", "--cacheinfo", "160000,"+a+",module")
	r.write(map[string]string{"swap/in": "1", "dir/sub/y": "2", "new/deep/er": "1", "dir.cue": "1"})
	r.git("add", "swap", "dir", "new", "dir.cue", "link", "mode")
	r.git("commit", "-q", "-m", "b")
	b := r.git("rev-parse", "HEAD")
	ours, theirs := changedPaths(t, storeHistory{openStore(filepath.Join(r.dir, ".git"))}, a, b), changedPaths(t, Repository{Dir: r.dir, Env: os.Environ()}, a, b)
	if !slices.Equal(ours, theirs) || len(ours) != 11 {
		t.Errorf("ours   %q\ngit's  %q", ours, theirs)
	}
	if back := changedPaths(t, storeHistory{openStore(filepath.Join(r.dir, ".git"))}, b, a); !slices.Equal(back, ours) {
		t.Errorf("back   %q", back)
	}
	for _, h := range []signature.History{storeHistory{openStore(filepath.Join(r.dir, ".git"))}, Repository{Dir: r.dir, Env: os.Environ()}} {
		seen := 0
		if err := h.Changes(t.Context(), a, b, func(string) bool { seen++; return false }); err != nil || seen != 1 {
			t.Errorf("%T: saw %d paths after it had enough: %v", h, seen, err)
		}
	}
}

func changedPaths(t *testing.T, h signature.History, from, to string) []string {
	t.Helper()
	var out []string
	if err := h.Changes(t.Context(), from, to, func(p string) bool { out = append(out, p); return true }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestChangesHostile holds that what is too deep, or in a directory that names an entry twice, is shown and not stepped over.
func TestChangesHostile(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	a := r.commit("a", map[string]string{"deep/x": "1"})
	blob := r.gitIn([]byte("2"), "hash-object", "-w", "--stdin")
	tree := func(entries string) string { return r.gitIn([]byte(entries), "mktree") }
	deep := tree("100644 blob " + blob + "\tx\n")
	for range maxDepth + 4 {
		deep = tree("040000 tree " + deep + "\td\n")
	}
	commit := func(tree string) string { return r.git("commit-tree", tree, "-p", a, "-m", "x") }
	h := storeHistory{openStore(filepath.Join(r.dir, ".git"))}
	if got := changedPaths(t, h, a, commit(deep)); !slices.Equal(got, []string{strings.Repeat("d/", maxDepth), "deep/x"}) {
		t.Errorf("deep: %q", got)
	}
	raw := twice(blob)
	twin := r.gitIn(raw, "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	other := r.gitIn(append(raw, twice(blob)[:len(raw)/2]...), "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	if got := changedPaths(t, h, commit(twin), commit(other)); !slices.Equal(got, []string{"same"}) {
		t.Errorf("twice: %q", got)
	}
}

// twice is a tree with one name for two entries.
func twice(blob string) []byte {
	id := plumbing.NewHash(blob)
	one := append([]byte("100644 same\x00"), id[:]...)
	return append(bytes.Clone(one), one...)
}

// TestVouchDamaged holds that a commit whose bytes are not those of its id is no commit.
func TestVouchDamaged(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	h := storeHistory{openStore(filepath.Join(r.dir, ".git"))}
	raw, err := h.Commit(t.Context(), tip)
	if err != nil {
		t.Fatal(err)
	}
	other := r.gitIn(append(raw, '!'), "hash-object", "-t", "commit", "-w", "--stdin")
	object := func(id string) string { return filepath.Join(r.dir, ".git", "objects", id[:2], id[2:]) }
	data, err := os.ReadFile(object(other))
	if err == nil {
		err = os.Chmod(object(tip), 0o644)
	}
	if err == nil {
		err = os.WriteFile(object(tip), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (storeHistory{openStore(filepath.Join(r.dir, ".git"))}).Commit(t.Context(), tip); err == nil || !strings.Contains(err.Error(), "other bytes than its id says") {
		t.Errorf("%v", err)
	}
}

// TestVouchLong measures the answer for a host that was away for long: the whole chain is read, and every commit's changes.
func TestVouchLong(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.commit("1", registry(1))
	var stream strings.Builder
	const n = 2000
	for i := range n {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter A <a@example.net> %d +0000\ndata 1\nx\n", 1_700_000_000+i)
		if i == 0 {
			fmt.Fprintf(&stream, "from %s\n", first)
		}
		text := "package fleet\n// " + strconv.Itoa(i) + "\n"
		fmt.Fprintf(&stream, "M 644 inline services/s%d.cue\ndata %d\n%s\n", i%100, len(text), text)
	}
	r.gitIn([]byte(stream.String()), "fast-import", "--quiet", "--force")
	r.git("reset", "-q", "--hard")
	key := r.signingKey("ada")
	tip := r.commit("signed", map[string]string{"services/s1.cue": "package fleet\n"})
	chain := strings.Fields(r.git("rev-list", "--first-parent", "--reverse", first+"..main"))
	g := poller(t, r.dir)
	if _, err := g.fetch(t.Context(), tip, Anchor{}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	count, refusal, err := g.Vouch(t.Context(), Question{Since: first, Tip: tip, Commits: chain[:200], Trust: trusting(fleet.TrustTip, key, "services/")})
	if err != nil || refusal != nil || count != 200 {
		t.Fatalf("%d: %+v %v", count, refusal, err)
	}
	t.Logf("%d commits in %s", len(chain), time.Since(begun))
}
