package source

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"stado.internal/stado/schema"
)

// Trees that git's own porcelain would not write are made with mktree; every one is refused by name before a file is read.
func TestUnsafeTrees(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("1", registry(1))
	secret := filepath.Join(t.TempDir(), "secret.cue")
	put(t, secret, "package fleet\n\n_canary: \"canary\"\n")
	blob := func(content string) string { return r.gitIn([]byte(content), "hash-object", "-w", "--stdin") }
	// raw writes a tree as it stands, with names that mktree refuses.
	raw := func(entries ...string) string {
		var b strings.Builder
		for _, e := range entries {
			mode, rest, _ := strings.Cut(e, " ")
			hash, name, _ := strings.Cut(rest, " ")
			id, err := hex.DecodeString(hash)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(mode + " " + name + "\x00" + string(id))
		}
		return r.gitIn([]byte(b.String()), "hash-object", "--literally", "-w", "-t", "tree", "--stdin")
	}
	text := blob("x")
	deep := text
	mode := "100644"
	for i := range 17 {
		deep = raw(fmt.Sprintf("%s %s d%d", mode, deep, i))
		mode = "40000"
	}
	for _, tc := range []struct {
		name, tree string
		rule, file string
		says       string
	}{
		{"symlink", raw("120000 " + blob(secret) + " leak.cue"), RuleSymlink, "leak.cue", "symbolic link"},
		{"symlink that is not CUE", raw("120000 " + blob("/etc/passwd") + " link"), RuleSymlink, "link", "symbolic link"},
		{"submodule", raw("160000 " + strings.Repeat("12", 20) + " module"), RuleSubmodule, "module", "submodule"},
		{"dot dot", raw("40000 " + raw("100644 "+text+" x.cue") + " .."), RuleName, "?", `name ".." names another directory`},
		{".git", raw("40000 " + raw("100644 "+text+" config") + " .GIT"), RuleName, "?", `name ".GIT" names a repository's own files`},
		{"path as a name", raw("100644 " + text + " ../../../etc/evil.cue"), RuleName, "?", "path separator"},
		{"backslash", raw("100644 " + text + ` a\b.cue`), RuleName, "?", "path separator"},
		{"terminal sequence", raw("100644 " + text + " a\x1b[2J.cue"), RuleName, "?", `name "a\x1b[2J.cue" holds a control character`},
		{"not UTF-8", raw("100644 " + text + " a\xff.cue"), RuleName, "?", "not UTF-8"},
		{"twice", raw("100644 "+text+" a.cue", "100644 "+text+" a.cue"), RuleTwice, "a.cue", "twice"},
		{"case", raw("100644 "+text+" GENERATION.CUE", "100644 "+text+" generation.cue"), schema.RuleCaseFold, "generation.cue", "generation.cue and GENERATION.CUE differ by case only"},
		{"case of an ending", raw("40000 " + raw("100644 "+text+" A1.Cue", "100644 "+text+" a1.cue") + " hosts"), schema.RuleCaseFold, "hosts/a1.cue", "hosts/A1.Cue"},
		{"case of a directory", raw("40000 "+raw("100644 "+text+" x")+" Generation.cue", "100644 "+text+" generation.cue"), schema.RuleCaseFold, "generation.cue", "Generation.cue"},
		{"case of a file that is not CUE", raw("100644 "+text+" README.md", "100644 "+text+" readme.md"), schema.RuleCaseFold, "readme.md", "README.md"},
		{"case beyond ASCII", raw("40000 "+raw("100644 "+text+" x")+" ho\u017fts", "40000 "+raw("100644 "+text+" y")+" hosts"), schema.RuleCaseFold, "ho\u017fts", "differ by case only"},
		{"too deep", deep, RuleDepth, "d16/d15/d14/d13/d12/d11/d10/d9/d8/d7/d6/d5/d4/d3/d2/d1/d0", "evaluation limit: depth, 16, in phase read"},
		{"too large", raw("100644 " + blob(strings.Repeat("x", maxFile+1)) + " notes.txt"), RuleFileSize, "notes.txt", "evaluation limit: file size, 1 MiB, in phase read: the file has 1.0 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := r.git("commit-tree", "-m", "tree", tc.tree)
			r.git("update-ref", "refs/heads/main", c)
			v, err := Evaluator{Runner: runner(t)}.Commit(t.Context(), r.dir, "main")
			if err != nil {
				t.Fatal(err)
			}
			if len(v.Findings) == 0 || v.Findings[0].Rule != tc.rule || v.Findings[0].File != tc.file || !strings.Contains(v.Findings[0].Message, tc.says) {
				t.Errorf("got  %v\nwant %s %s %s", v.Findings, tc.rule, tc.file, tc.says)
			}
			if v.Document != nil || strings.Contains(fmt.Sprint(v), "canary") {
				t.Errorf("something was read: %+v", v)
			}
		})
	}
}

// The agent sees the same findings as the command line.
func TestUnsafeCommitIsAStep(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	held := r.commit("1", registry(1))
	if err := os.Symlink("/etc/passwd", filepath.Join(r.dir, "hosts", "beta.cue")); err != nil {
		t.Fatal(err)
	}
	r.commit("link", generation(2))
	g := poller(t, r.dir)
	o := poll(t, g, held)
	if len(o.Steps) != 1 || !slices.Equal(rules(o.Steps[0]), []string{RuleSymlink}) || o.Steps[0].Subject != "link" || o.Steps[0].Document != nil {
		t.Errorf("%+v", o.Steps)
	}
	want := "hosts/beta.cue: STADO-GIT-001: the entry is a symbolic link (commit the file itself)"
	if got := o.Steps[0].Findings[0].String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A tree of trees that names 10^9 entries in a few hundred bytes.
func TestTreeBomb(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("1", registry(1))
	id := r.gitIn([]byte("x"), "hash-object", "-w", "--stdin")
	kind, mode := "blob", "100644"
	for range 9 {
		var lines strings.Builder
		for i := range 10 {
			fmt.Fprintf(&lines, "%s %s %s\td%d\n", mode, kind, id, i)
		}
		id = r.gitIn([]byte(lines.String()), "mktree")
		kind, mode = "tree", "040000"
	}
	r.git("update-ref", "refs/heads/main", r.git("commit-tree", "-m", "bomb", id))
	v, err := Evaluator{Runner: runner(t)}.Commit(t.Context(), r.dir, "main")
	if err != nil || len(v.Findings) != 1 || v.Findings[0].Rule != RuleEntries {
		t.Errorf("%v %v", v.Findings, err)
	}
}

func TestWorkTrees(t *testing.T) {
	t.Parallel()
	e := Evaluator{Runner: runner(t)}
	fill := func(t *testing.T) string {
		r := newRepo(t)
		r.commit("1", registry(1))
		return r.dir
	}
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, dir string)
		rule   string
		file   string
	}{
		{"as committed", func(*testing.T, string) {}, "", ""},
		{"a new generation, not committed", func(t *testing.T, d string) {
			put(t, filepath.Join(d, "generation.cue"), generation(7)["generation.cue"])
		}, "", ""},
		{"an ignored file counts", func(t *testing.T, d string) {
			put(t, filepath.Join(d, ".gitignore"), "beta.cue\n")
			put(t, filepath.Join(d, "hosts/beta.cue"), "package fleet\n\nregistry: hosts: beta: nonsense: 1\n")
		}, "STADO-SCHEMA-002", "hosts/beta.cue"},
		{"hidden directories are not entered", func(t *testing.T, d string) {
			_ = os.Mkdir(filepath.Join(d, ".venv"), 0o700)
			_ = os.Symlink("/", filepath.Join(d, ".venv", "root"))
			put(t, filepath.Join(d, ".venv", "x.cue"), "nonsense {")
		}, "", ""},
		{"large files that are not CUE", func(t *testing.T, d string) { put(t, filepath.Join(d, "stado"), strings.Repeat("x", 2<<20)) }, "", ""},
		{"symlink", func(t *testing.T, d string) { _ = os.Symlink("/etc", filepath.Join(d, "hosts", "etc")) }, RuleSymlink, "hosts/etc"},
		{"case", func(t *testing.T, d string) { put(t, filepath.Join(d, "hosts", "ALPHA.CUE"), "") }, schema.RuleCaseFold, "hosts/alpha.cue"},
		{"pipe", func(t *testing.T, d string) { _ = unix.Mkfifo(filepath.Join(d, "pipe.cue"), 0o600) }, RuleSpecial, "pipe.cue"},
		{"another repository", func(t *testing.T, d string) { _ = os.Mkdir(filepath.Join(d, "hosts", ".git"), 0o700) }, RuleSubmodule, "hosts/.git"},
		{"large CUE", func(t *testing.T, d string) { put(t, filepath.Join(d, "big.cue"), strings.Repeat("/", 2<<20)) }, RuleFileSize, "big.cue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := fill(t)
			tc.change(t, dir)
			v, err := e.WorkTree(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if tc.rule == "" {
				if v.Findings.Refuses() || v.Document == nil {
					t.Errorf("findings: %v", v.Findings)
				}
				return
			}
			if len(v.Findings) == 0 || v.Findings[0].Rule != tc.rule || v.Findings[0].File != tc.file {
				t.Errorf("got %v, want %s %s", v.Findings, tc.rule, tc.file)
			}
		})
	}
	if _, err := e.WorkTree(t.Context(), filepath.Join(t.TempDir(), "none")); kindOf(err) != KindNotFound {
		t.Errorf("error is %v", err)
	}
}

func TestRevisions(t *testing.T) {
	t.Parallel()
	e := Evaluator{Runner: runner(t)}
	r := newRepo(t)
	first := r.commit("1", registry(1))
	second := r.commit("2", generation(2))
	r.git("tag", "-a", "-m", "tagged", "v1", first)
	r.git("update-ref", "refs/remotes/origin/main", first)
	bare := filepath.Join(t.TempDir(), "bare.git")
	r.git("clone", "-q", "--bare", r.dir, bare)
	linked := filepath.Join(t.TempDir(), "linked")
	r.git("worktree", "add", "-q", "--detach", linked, first)
	r.git("gc", "-q")
	r.git("branch", "-q", "-m", "main")
	r.git("config", "remote.origin.url", bare)
	r.git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
	r.git("branch", "-q", "-u", "origin/main")
	shallow, long := filepath.Join(t.TempDir(), "shallow"), filepath.Join(t.TempDir(), "long")
	r.git("clone", "-q", "--depth=1", "file://"+bare, shallow)
	r.git("init", "-q", "--object-format=sha256", long)
	r.git("-C", long, "-c", "user.name=Ada", "-c", "user.email=ada@example.net", "commit", "-q", "--allow-empty", "-m", "1")
	mono := newRepo(t)
	inside := map[string]string{"other.cue": "nonsense {"}
	for name, content := range registry(5) {
		inside["fleet/"+name] = content
	}
	monoTip := mono.commit("mono", inside)
	for _, tc := range []struct{ dir, rev, commit, says string }{
		{r.dir, "HEAD", second, ""},
		{r.dir, "HEAD~1", first, ""},
		{r.dir, "origin/main", first, ""},
		{r.dir, "v1", first, ""},
		{r.dir, first[:7], first, ""},
		{bare, "main", second, ""},
		{linked, "HEAD", first, ""},
		{filepath.Join(mono.dir, "fleet"), "HEAD", monoTip, ""},
		{r.dir, "@{upstream}", first, ""},
		{r.dir, "main@{u}", first, ""},
		{r.dir, ":/1", first, ""},
		{r.dir, "nonsense", "", "there is no revision nonsense"},
		{r.dir, "HEAD:fleet.cue", "", "there is no revision HEAD:fleet.cue"},
		{r.dir, "HEAD:generation.cue", "", "HEAD:generation.cue names a blob, which is no commit"},
		{r.dir, "HEAD:hosts", "", "HEAD:hosts names a tree, which is no commit"},
		{r.dir, "HEAD^{tree}", "", "HEAD^{tree} names a tree, which is no commit"},
		{r.dir, "HEAD..HEAD", "", "there is no revision HEAD..HEAD"},
		{r.dir, "--all", "", "there is no revision --all"},
		{r.dir, strings.Repeat("1", 40), "", "there is no revision 1111"},
		{shallow, "HEAD", second, ""},
		{shallow, "HEAD~1", "", "there is no revision HEAD~1 here: the history of this clone is cut off (run git fetch --unshallow in it; in a workflow, give the checkout fetch-depth: 0)"},
		{shallow, first, "", "the history of this clone is cut off"},
		{long, "HEAD", "", "the repository names its objects by SHA-256, which is not supported (make the registry's repository with git init --object-format=sha1)"},
		{t.TempDir(), "HEAD", "", "there is no git repository"},
	} {
		v, err := e.Commit(t.Context(), tc.dir, tc.rev)
		if tc.says != "" {
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s %s: error is %v", tc.dir, tc.rev, err)
			}
			continue
		}
		if err != nil || v.Commit != tc.commit || v.Findings.Refuses() || v.Document == nil {
			t.Errorf("%s %s: %v %.8s %v", tc.dir, tc.rev, err, v.Commit, v.Findings)
		}
	}
}
