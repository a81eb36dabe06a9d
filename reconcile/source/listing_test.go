package source

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stado.internal/stado/schema"
)

func (r repo) repository(dir string) Repository {
	return Repository{Dir: filepath.Join(r.dir, dir), Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}}
}

// literal writes a tree as it stands, with names that git's porcelain refuses.
func (r repo) literal(entries ...string) string {
	r.t.Helper()
	var b strings.Builder
	for _, e := range entries {
		mode, rest, _ := strings.Cut(e, " ")
		hash, name, _ := strings.Cut(rest, " ")
		id, err := hex.DecodeString(hash)
		if err != nil {
			r.t.Fatal(err)
		}
		b.WriteString(mode + " " + name + "\x00" + string(id))
	}
	return r.gitIn([]byte(b.String()), "hash-object", "--literally", "-w", "-t", "tree", "--stdin")
}

// The library's gate and the gate over git's own listing say the same of every tree: a hook admits what agents admit.
func TestTreeAgreesWithCommit(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	good := r.commit("1", registry(1))
	blob := func(content string) string { return r.gitIn([]byte(content), "hash-object", "-w", "--stdin") }
	text := blob("x")
	deep, mode := text, "100644"
	for i := range 17 {
		deep, mode = r.literal(fmt.Sprintf("%s %s d%d", mode, deep, i)), "40000"
	}
	hiddenTree := r.literal("120000 "+blob("/etc/passwd")+" link", "100644 "+text+" .x", "40000 "+r.literal("160000 "+strings.Repeat("12", 20)+" m")+" sub")
	goodTree := strings.Fields(r.git("ls-tree", good, "generation.cue"))[2]
	for name, tree := range map[string]string{
		"good":                     r.git("rev-parse", good+"^{tree}"),
		"nothing":                  r.literal(),
		"symlink":                  r.literal("120000 " + blob("/etc/passwd") + " leak.cue"),
		"submodule":                r.literal("160000 " + strings.Repeat("12", 20) + " module"),
		"path as a name":           r.literal("100644 " + text + " a/b.cue"),
		"path as a directory name": r.literal("40000 " + r.literal("100644 "+text+" x.cue") + " a/b"),
		"backslash":                r.literal("100644 " + text + ` a\b.cue`),
		"terminal sequence":        r.literal("100644 " + text + " a\x1b[2J.cue"),
		"not UTF-8":                r.literal("100644 " + text + " a\xff.cue"),
		"line end":                 r.literal("100644 " + text + " a\nb.cue"),
		"twice":                    r.literal("100644 "+text+" a.cue", "100644 "+text+" a.cue"),
		"case":                     r.literal("100644 "+text+" GENERATION.CUE", "100644 "+text+" generation.cue"),
		"case of a directory":      r.literal("40000 "+r.literal("100644 "+text+" x")+" Generation.cue", "100644 "+text+" generation.cue"),
		"case inside":              r.literal("40000 " + r.literal("100644 "+text+" A", "100644 "+text+" a") + " hosts"),
		"too deep":                 deep,
		"too large":                r.literal("100644 " + blob(strings.Repeat("x", maxFile+1)) + " notes.txt"),
		"large and hidden":         r.literal("40000 " + r.literal("100644 "+blob(strings.Repeat("x", maxFile+1))+" big") + " .cache"),
		"hidden directory":         r.literal("40000 "+hiddenTree+" .github", "100644 "+goodTree+" generation.cue"),
		"below a refused name":     r.literal("40000 " + r.literal("120000 "+text+" x") + ` a\b`),
	} {
		t.Run(name, func(t *testing.T) {
			c := r.git("commit-tree", "-m", "tree", "-p", good, tree)
			want, err := Evaluator{Runner: runner(t)}.Commit(t.Context(), r.dir, c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Evaluator{Runner: runner(t)}.Tree(t.Context(), r.repository(""), c, "")
			if err != nil {
				t.Fatal(err)
			}
			if want.Document == nil && len(want.Findings) == 0 {
				t.Errorf("the case shows nothing")
			}
			sameRefusals(t, got, want)
			if got.Commit != want.Commit || got.Parent != want.Parent || got.Digest != want.Digest || !slices.Equal(got.Drift, want.Drift) {
				t.Errorf("got %.8s %.8s %.8s %v, want %.8s %.8s %.8s %v", got.Commit, got.Parent, got.Digest, got.Drift, want.Commit, want.Parent, want.Digest, want.Drift)
			}
		})
	}
}

// sameRefusals compares rules and files. A path that is a name shows only as a directory that the listing never had.
func sameRefusals(t *testing.T, got, want Verdict) {
	t.Helper()
	short := func(v Verdict) []string {
		var out []string
		for _, f := range v.Findings {
			out = append(out, f.Rule+" "+f.File)
		}
		return out
	}
	if !slices.Equal(short(got), short(want)) {
		t.Errorf("got\n%v\nwant\n%v", got.Findings, want.Findings)
	}
}

// A tree of trees that names 10^9 entries in a few hundred bytes ends at the bound.
func TestListedTreeBomb(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	id, mode := r.gitIn([]byte("x"), "hash-object", "-w", "--stdin"), "100644"
	for range 9 {
		var entries []string
		for i := range 10 {
			entries = append(entries, fmt.Sprintf("%s %s d%d", mode, id, i))
		}
		id, mode = r.literal(entries...), "40000"
	}
	v, err := Evaluator{Runner: runner(t)}.Tree(t.Context(), r.repository(""), r.git("commit-tree", "-m", "bomb", id), "")
	if err != nil || len(v.Findings) != 1 || v.Findings[0].Rule != RuleEntries {
		t.Errorf("%v %v", v.Findings, err)
	}
}

// The index is judged, whatever the work tree says.
func TestIndex(t *testing.T) {
	t.Parallel()
	e := Evaluator{Runner: runner(t)}
	for _, tc := range []struct {
		name       string
		change     func(r repo)
		rule, file string // of the only finding; empty: admitted
		generation string
	}{
		{"as committed", func(repo) {}, "", "", `"generation":1`},
		{"a bad file that is not staged", func(r repo) { r.write(map[string]string{"hosts/alpha.cue": "nonsense {"}) }, "", "", `"generation":1`},
		{"staged, then broken again", func(r repo) {
			r.write(generation(2))
			r.git("add", "-A")
			r.write(map[string]string{"generation.cue": "nonsense {"})
		}, "", "", `"generation":2`},
		{"broken in the index, repaired in the work tree", func(r repo) {
			r.write(map[string]string{"hosts/alpha.cue": "package fleet\n\nregistry: hosts: alpha: bogus: 1\n"})
			r.git("add", "-A")
			r.write(registry(1))
		}, "STADO-SCHEMA-002", "hosts/alpha.cue", ""},
		{"announced with --intent-to-add", func(r repo) {
			r.write(map[string]string{"hosts/beta.cue": "nonsense {"})
			r.git("add", "--intent-to-add", "hosts/beta.cue")
		}, "", "", `"generation":1`},
		{"really empty", func(r repo) {
			r.write(map[string]string{"hosts/beta.cue": ""})
			r.git("add", "-A")
		}, "STADO-SCHEMA-008", "hosts/beta.cue", ""},
		{"case of a directory", func(r repo) {
			r.write(map[string]string{"HOSTS/notes.txt": ""})
			r.git("add", "-A")
		}, schema.RuleCaseFold, "hosts", ""},
		{"symbolic link", func(r repo) {
			if err := os.Symlink("/etc/passwd", filepath.Join(r.dir, "leak.cue")); err != nil {
				r.t.Fatal(err)
			}
			r.git("add", "-A")
		}, RuleSymlink, "leak.cue", ""},
		{"a merge that is not finished", func(r repo) {
			r.git("checkout", "-q", "-b", "other")
			r.commit("theirs", generation(3))
			r.git("checkout", "-q", "main")
			r.commit("ours", generation(2))
			if r.tryGit("merge", "-q", "other") == nil {
				r.t.Fatal("the merge has no conflict")
			}
		}, RuleUnmerged, "generation.cue", ""},
		{"hidden files", func(r repo) {
			r.write(map[string]string{".github/x.cue": "nonsense {", ".x.cue": "nonsense {"})
			r.git("add", "-A")
		}, "", "", `"generation":1`},
		{"large, and no CUE", func(r repo) {
			r.write(map[string]string{"docs/large.txt": strings.Repeat("x", maxFile+1)})
			r.git("add", "-A")
		}, RuleFileSize, "docs/large.txt", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			r.commit("1", registry(1))
			r.t = t
			tc.change(r)
			v, err := e.Index(t.Context(), r.repository(""))
			if err != nil {
				t.Fatal(err)
			}
			if tc.rule == "" {
				if v.Findings.Refuses() || !strings.Contains(string(v.Document), tc.generation) {
					t.Errorf("%v\n%s", v.Findings, v.Document)
				}
				return
			}
			if len(v.Findings) != 1 || v.Findings[0].Rule != tc.rule || v.Findings[0].File != tc.file || v.Document != nil {
				t.Errorf("got %v, want %s %s", v.Findings, tc.rule, tc.file)
			}
		})
	}
}

// In a repository of more than the registry, only what is below the directory counts, and paths start there.
func TestIndexBelow(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	files := map[string]string{"other.cue": "nonsense {"}
	for name, content := range registry(4) {
		files["fleet/"+name] = content
	}
	tip := r.commit("mono", files)
	e := Evaluator{Runner: runner(t)}
	v, err := e.Index(t.Context(), r.repository("fleet"))
	if err != nil || v.Findings.Refuses() || v.Positions["hosts.alpha"].File != "hosts/alpha.cue" {
		t.Errorf("%v %v %v", err, v.Findings, v.Positions["hosts.alpha"])
	}
	at, err := e.Tree(t.Context(), r.repository(""), tip, "fleet")
	if err != nil || at.Digest != v.Digest {
		t.Errorf("%v %v", err, at.Findings)
	}
	if _, err := e.Tree(t.Context(), r.repository(""), tip, "nowhere"); kindOf(err) != KindRevision || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("error is %v", err)
	}
	if prefix, err := r.repository("fleet").Prefix(t.Context()); err != nil || prefix != "fleet/" {
		t.Errorf("%q %v", prefix, err)
	}
}

// Staged looks at CUE files only, and says yes before there is anything to compare with.
func TestStaged(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	staged := func(want bool) {
		t.Helper()
		if got, err := r.repository("").Staged(t.Context()); err != nil || got != want {
			t.Errorf("got %v, %v", got, err)
		}
	}
	staged(true)
	r.commit("1", registry(1))
	staged(false)
	r.write(map[string]string{"README.md": "changed\n", "hosts/alpha.cue": "changed, not staged"})
	r.git("add", "README.md")
	staged(false)
	r.git("add", "hosts/alpha.cue")
	staged(true)
	if _, err := (Repository{Dir: t.TempDir(), Env: os.Environ()}).Staged(t.Context()); kindOf(err) != KindNotFound {
		t.Errorf("error is %v", err)
	}
}

// Chain follows the branch, not the branches that were merged into it, and passes by what does not descend from the old tip.
func TestChain(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	old := r.commit("1", registry(1))
	r.git("checkout", "-q", "-b", "side")
	side := r.commit("side", map[string]string{"a": "a"})
	r.git("checkout", "-q", "main")
	second := r.commit("2", generation(2))
	r.git("merge", "-q", "--no-ff", "-m", "merge", "side")
	merged := r.git("rev-parse", "HEAD")
	r.git("checkout", "-q", "side")
	r.git("merge", "-q", "--no-ff", "-m", "the other way", second)
	other := r.git("rev-parse", "HEAD")
	g := r.repository("")
	for _, tc := range []struct {
		old, new string
		want     []string
	}{
		{old, merged, []string{second, merged}},
		{second, merged, []string{merged}},
		{merged, merged, nil},
		{second, other, []string{other}},
		{old, other, []string{side, other}},
	} {
		got, more, err := g.Chain(t.Context(), tc.old, tc.new, 2)
		if err != nil || more || !slices.Equal(got, tc.want) {
			t.Errorf("%.8s..%.8s is %v %v %v, want %v", tc.old, tc.new, got, more, err, tc.want)
		}
	}
	if got, more, err := g.Chain(t.Context(), old, merged, 1); err != nil || !more || got != nil {
		t.Errorf("%v %v %v", got, more, err)
	}
	if yes, err := g.Descends(t.Context(), old, merged); err != nil || !yes {
		t.Errorf("%v %v", yes, err)
	}
	if yes, err := g.Descends(t.Context(), merged, old); err != nil || yes {
		t.Errorf("%v %v", yes, err)
	}
	if _, err := g.Descends(t.Context(), strings.Repeat("12", 20), merged); err == nil {
		t.Error("a commit that does not exist is an ancestor")
	}
}
