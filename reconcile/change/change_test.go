package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/reconcile/sandbox/sandboxtest"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/schema"
)

// repo is a real repository, written with the installed git.
type repo struct {
	t   *testing.T
	dir string
}

var files = map[string]string{
	"registry.cue":   "package fleet\n\nimport \"stado.internal/schema\"\n\nregistry: schema.#Registry\n",
	"generation.cue": "package fleet\n\n// Raise it.\nregistry: service_directory: generation: 41\n",
	"hosts/a1.cue":   "package fleet\n\nregistry: hosts: a1: {\n\tzone: \"x\" // the first\n}\n",
	"hosts/a2.cue":   "package fleet\n\nregistry: hosts: a2: zone: _zone\n",
	"shared.cue":     "package fleet\n\n_zone: \"y\"\n",
	"services/wiki.cue": `package fleet

registry: service_directory: services: wiki: {
	active_hosts: ["a1"]
	endpoints: {
		a1: url: "http://127.0.0.1:8080"
		a2: url: "http://127.0.0.1:8080"
	}
	consumers: people: {}
}
`,
}

func newRepo(t *testing.T, below string, extra map[string]string) repo {
	t.Helper()
	// The engine runs git as the person does; nothing of this machine's configuration may show in a test.
	for k, v := range map[string]string{
		"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.net",
		"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.net",
	} {
		t.Setenv(k, v)
	}
	r := repo{t, filepath.Join(t.TempDir(), "fleet")}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main")
	for _, set := range []map[string]string{files, extra} {
		for name, text := range set {
			r.write(filepath.Join(below, name), text)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "one")
	return r
}

func (r repo) write(name, text string) {
	r.t.Helper()
	p := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
		r.t.Fatal(err)
	}
}

func (r repo) read(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// clone gives a second person's clone, with this repository (made bare) between them.
func (r repo) clone(name string) repo {
	r.t.Helper()
	dir := filepath.Join(filepath.Dir(r.dir), name)
	if out, err := exec.Command("git", "clone", "-q", r.dir, dir).CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	return repo{r.t, dir}
}

// state is everything that a refusal must leave as it is: every file of the work tree and of the repository.
func (r repo) state() map[string]string {
	r.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(r.dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(p) == "index" { // git refreshes what it knows of times of files
			return err
		}
		data, err := os.ReadFile(p)
		out[strings.TrimPrefix(p, r.dir)] = string(data)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func evaluator(t *testing.T) source.Evaluator {
	t.Helper()
	return source.Evaluator{Runner: sandbox.Runner{Command: []string{sandboxtest.Build(t, "stado.internal/stado/reconcile/source/testdata/child")}}}
}

func zone(host, value string) Edit {
	return func(d *Draft) error {
		d.Subject = Subject{Kind: "zone", Summary: "hosts/" + host + ": zone " + value}
		return d.Put(value, "hosts", host, "zone")
	}
}

// TestCommit changes one line and the generation, in one commit, and leaves what a person has not committed elsewhere.
func TestCommit(t *testing.T) {
	for name, below := range map[string]string{"at the top": "", "in a directory": "infra/fleet"} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, below, nil)
			base := r.git("rev-parse", "HEAD")
			r.write("notes.txt", "mine\n")
			out, err := Apply(t.Context(), Options{Dir: filepath.Join(r.dir, below), Evaluator: evaluator(t)}, zone("a1", "z"))
			if err != nil {
				t.Fatal(err)
			}
			if out.Commit != r.git("rev-parse", "main") || out.Base != base || out.Previous != 41 || out.Generation != 42 || out.Pushed || !out.Changed {
				t.Errorf("%+v", out)
			}
			if got, want := r.git("diff", "-U0", "--format=", "HEAD~"), "zone: \"z\" // the first"; !strings.Contains(got, want) {
				t.Errorf("%s", got)
			}
			if got := r.git("diff", "--numstat", "HEAD~"); strings.Count(got, "1\t1\t") != 2 || strings.Count(got, "\n") != 1 {
				t.Errorf("more than one line of two files changed:\n%s", got)
			}
			want := "hosts/a1: zone z\n\nStado-Kind: zone\nStado-Generation: 42\nStado-Base: " + base
			if diff := cmp.Diff(want, r.git("log", "-1", "--format=%B")); diff != "" {
				t.Error(diff)
			}
			if got := r.git("status", "--porcelain"); got != "?? notes.txt" {
				t.Errorf("status is %q", got)
			}
			if strings.Contains(out.Diff, "infra") || !strings.Contains(out.Diff, "--- a/hosts/a1.cue\n+++ b/hosts/a1.cue\n") {
				t.Errorf("%s", out.Diff)
			}
		})
	}
}

// TestUntouched: what is refused, what is only tried, and what is so already leave every byte of the repository.
func TestUntouched(t *testing.T) {
	for name, tc := range map[string]struct {
		extra map[string]string
		dirty func(r repo)
		dry   bool
		edit  Edit
		want  string // of the error
	}{
		"a dry run":          {dry: true, edit: zone("a1", "z")},
		"so already":         {edit: zone("a1", "x")},
		"a computed value":   {edit: zone("a2", "z"), want: "hosts/a2.cue:3: registry.hosts.a2.zone is computed here"},
		"a bad value":        {edit: zone("a1", "no zone"), want: "the result would be refused\nhosts/a1.cue:4:8: STADO-SCHEMA-"},
		"the edit's own":     {edit: func(*Draft) error { return errors.New("no") }, want: "no"},
		"the last hosts":     {edit: func(d *Draft) error { d.Remove("hosts/a1.cue"); d.Remove("hosts/a2.cue"); return nil }, want: "STADO-FLEET-001"},
		"an existing file":   {edit: func(d *Draft) error { return d.Create("shared.cue", "x", "hosts", "a3", "zone") }, want: "shared.cue exists already"},
		"what nothing gives": {edit: func(d *Draft) error { return d.Put("x", "trust") }, want: "no file of the registry writes trust"},
		"not accepted": {edit: func(d *Draft) error {
			d.Accept(func(next *fleet.Registry, _ string) error { return fmt.Errorf("zone is %s now", next.Hosts["a1"].Zone) })
			return d.Put("z", "hosts", "a1", "zone")
		}, want: "zone is z now"},
		"a file that a person edits":  {dirty: func(r repo) { r.write("hosts/a1.cue", files["hosts/a1.cue"]+"// mine\n") }, edit: zone("a1", "z"), want: "not committed yet: hosts/a1.cue;"},
		"a file that is staged":       {dirty: func(r repo) { r.write("generation.cue", "package fleet\n"); r.git("add", "-A") }, edit: zone("a1", "z"), want: "not committed yet: generation.cue;"},
		"a new file that lies there":  {dirty: func(r repo) { r.write("hosts/a3.cue", "") }, edit: func(d *Draft) error { return d.Create("hosts/a3.cue", "x", "hosts", "a3", "zone") }, want: "not committed yet: hosts/a3.cue;"},
		"a base that is refused":      {extra: map[string]string{"hosts/a3.cue": "package fleet\nregistry: hosts: a3: zon: 1\n"}, edit: zone("a1", "z"), want: "is itself refused, so nothing can be built on it (repair it first)\nhosts/a3.cue:2"},
		"a branch that is not there":  {dirty: func(r repo) { r.git("checkout", "-q", "--orphan", "other") }, edit: zone("a1", "z"), want: "branch other of"},
		"a commit without a branch":   {dirty: func(r repo) { r.git("checkout", "-q", "--detach") }, edit: zone("a1", "z"), want: "has no branch checked out"},
		"a generation that is not up": {extra: map[string]string{"generation.cue": "package fleet\n\n_n: 41\nregistry: service_directory: generation: _n\n"}, edit: zone("a1", "z"), want: "generation.cue:4: registry.service_directory.generation is computed here"},
		"the last generation":         {extra: map[string]string{"generation.cue": "package fleet\n\nregistry: service_directory: generation: 9223372036854775807\n"}, edit: zone("a1", "z"), want: "generation 9223372036854775807 is the last one there is"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, "", tc.extra)
			if tc.dirty != nil {
				tc.dirty(r)
			}
			r.git("status")
			before := r.state()
			out, err := Apply(t.Context(), Options{Dir: r.dir, Evaluator: evaluator(t), DryRun: tc.dry}, tc.edit)
			switch {
			case tc.want == "" && err != nil:
				t.Fatal(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %s", err, tc.want)
			case tc.dry && (!out.Changed || out.Commit != "" || !strings.Contains(out.Diff, "-\tzone: \"x\" // the first\n+\tzone: \"z\" // the first\n")):
				t.Errorf("%+v", out)
			}
			if diff := cmp.Diff(before, r.state()); diff != "" {
				t.Errorf("the repository changed:\n%s", diff)
			}
		})
	}
}

// TestStamped leaves the generation alone where one job after the merge raises it.
func TestStamped(t *testing.T) {
	r := newRepo(t, "", map[string]string{"policies.cue": "package fleet\n\nregistry: policies: generation_mode: \"stamped\"\n"})
	out, err := Apply(t.Context(), Options{Dir: r.dir, Evaluator: evaluator(t)}, zone("a1", "z"))
	if err != nil || out.Generation != 41 {
		t.Fatal(out, err)
	}
	if got := r.git("diff", "--name-only", "HEAD~"); got != "hosts/a1.cue" {
		t.Errorf("changed %s", got)
	}
	if got := r.git("log", "-1", "--format=%(trailers:key=Stado-Generation)"); got != "Stado-Generation: 41" {
		t.Error(got)
	}
}

func TestAllowEmptyFleet(t *testing.T) {
	r := newRepo(t, "", nil)
	_, err := Apply(t.Context(), Options{Dir: r.dir, Evaluator: evaluator(t), AllowEmptyFleet: true}, func(d *Draft) error {
		d.Subject = Subject{Kind: "push", Summary: "no hosts"}
		d.Remove("hosts/a1.cue")
		d.Remove("hosts/a2.cue")
		d.Remove("services/wiki.cue")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.git("log", "-1", "--format=%(trailers:key=Stado-Allow)") + r.git("ls-files", "hosts", "services"); got != "Stado-Allow: empty-fleet" {
		t.Error(got)
	}
}

// TestBare changes a repository without a work tree: that of an authority host.
func TestBare(t *testing.T) {
	r := newRepo(t, "", nil)
	dir := filepath.Join(t.TempDir(), "authority.git")
	r.git("clone", "-q", "--bare", ".", dir)
	out, err := Apply(t.Context(), Options{Dir: dir, Evaluator: evaluator(t)}, zone("a1", "z"))
	if err != nil {
		t.Fatal(err)
	}
	if got := (repo{t, dir}).git("show", "main:hosts/a1.cue"); out.Generation != 42 || !strings.Contains(got, `zone: "z" // the first`) {
		t.Error(out, got)
	}
}

// TestLocalRace moves the branch between the judgement and the write: somebody else's commit is never lost.
func TestLocalRace(t *testing.T) {
	r := newRepo(t, "", nil)
	var theirs string
	_, err := Apply(t.Context(), Options{Dir: r.dir, Evaluator: evaluator(t), Fault: func(point string) error {
		if point == FaultAdvance {
			r.git("commit", "-q", "--allow-empty", "-m", "theirs")
			theirs = r.git("rev-parse", "HEAD")
		}
		return nil
	}}, zone("a1", "z"))
	var lost *ConflictError
	if !errors.As(err, &lost) || lost.Actual != theirs || r.git("rev-parse", "HEAD") != theirs || r.git("status", "--porcelain") != "" {
		t.Errorf("%v, at %s", err, r.git("log", "--oneline"))
	}
	if _, err := Apply(t.Context(), Options{Dir: r.dir, Evaluator: evaluator(t), Expect: lost.Expected}, zone("a1", "z")); !errors.As(err, &lost) {
		t.Errorf("made on another base than expected: %v", err)
	}
}

// TestPushRace lets a second person push between the fetch and the push of the first: the first change is made again on what won, the
// generations rise strictly, and nothing is lost.
func TestPushRace(t *testing.T) {
	r := newRepo(t, "", nil)
	r.git("config", "core.bare", "true")
	ada, eve := r.clone("ada"), r.clone("eve")
	e := evaluator(t)
	races := 0
	out, err := Apply(t.Context(), Options{Dir: ada.dir, Evaluator: e, Push: true, Fault: func(point string) error {
		if point == FaultPush && races < 2 {
			races++
			won, err := Apply(t.Context(), Options{Dir: eve.dir, Evaluator: e, Push: true}, func(d *Draft) error {
				d.Subject = Subject{Kind: "region", Summary: "hosts/a2: region"}
				return d.Put(fmt.Sprintf("r%d", races), "hosts", "a2", "region")
			})
			if err != nil || !won.Pushed {
				t.Fatal(won, err)
			}
		}
		return nil
	}}, zone("a1", "z"))
	if err != nil {
		t.Fatal(err)
	}
	if races != 2 || out.Generation != 44 || !out.Pushed || out.Behind != "" || out.Commit != r.git("rev-parse", "main") || ada.git("rev-parse", "main") != out.Commit {
		t.Errorf("%d races, %+v", races, out)
	}
	if got := r.git("log", "--reverse", "--format=%(trailers:key=Stado-Generation,valueonly,separator=)"); got != "42\n43\n44" {
		t.Errorf("generations %q", got)
	}
	if !strings.Contains(ada.read("hosts/a2.cue"), `region: "r2"`) || !strings.Contains(ada.read("hosts/a1.cue"), `zone: "z" // the first`) {
		t.Errorf("a change is lost:\n%s%s", ada.read("hosts/a1.cue"), ada.read("hosts/a2.cue"))
	}
}

// TestPushRefusals: a push that is not taken leaves this clone's branch where it was.
func TestPushRefusals(t *testing.T) {
	t.Run("lost for good", func(t *testing.T) {
		r := newRepo(t, "", nil)
		r.git("config", "core.bare", "true")
		ada := r.clone("ada")
		pushes := 0
		_, err := Apply(t.Context(), Options{Dir: ada.dir, Evaluator: evaluator(t), Push: true, Fault: func(point string) error {
			if point == FaultPush {
				pushes++
				id := r.git("commit-tree", "-p", "main", "-m", "theirs", "main^{tree}")
				r.git("update-ref", "refs/heads/main", id)
			}
			return nil
		}}, zone("a1", "z"))
		var lost *ConflictError
		if !errors.As(err, &lost) || pushes != maxAttempts || ada.git("log", "-1", "--format=%s") != "one" {
			t.Errorf("%v after %d pushes", err, pushes)
		}
	})
	for name, tc := range map[string]struct {
		spoil func(r, ada repo)
		want  string
		as    any
	}{
		"a hook refuses": {func(r, _ repo) {
			r.write(".git/hooks/pre-receive", "#!/bin/sh\necho not today >&2\nexit 1\n")
			_ = os.Chmod(filepath.Join(r.dir, ".git/hooks/pre-receive"), 0o755)
		}, "origin refused the push: [remote rejected] (pre-receive hook declined)\nremote: not today", new(*RefusedError)},
		"the remote is gone":   {func(r, _ repo) { _ = os.Rename(r.dir, r.dir+".gone") }, "cannot reach remote origin", new(*UnreachableError)},
		"there is no remote":   {func(_, ada repo) { ada.git("remote", "remove", "origin") }, "has no remote origin to push to", new(*RefusedError)},
		"no such branch there": {func(_, ada repo) { ada.git("checkout", "-q", "-b", "other") }, "remote origin has no branch other", new(*RefusedError)},
		"commits of one's own": {func(_, ada repo) { ada.git("commit", "-q", "--allow-empty", "-m", "mine") }, "branch main has commits that origin/main does not have", new(*RefusedError)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, "", nil)
			ada := r.clone("ada")
			tc.spoil(r, ada)
			before := ada.git("rev-parse", "HEAD")
			_, err := Apply(t.Context(), Options{Dir: ada.dir, Evaluator: evaluator(t), Push: true}, zone("a1", "z"))
			if err == nil || !strings.Contains(err.Error(), tc.want) || !errors.As(err, tc.as) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if after := ada.git("rev-parse", "HEAD"); after != before || ada.git("status", "--porcelain") != "" {
				t.Error("the clone changed")
			}
		})
	}
}

// TestBehind pushes although the clone cannot follow: the registry has the change, and the clone is told.
func TestBehind(t *testing.T) {
	r := newRepo(t, "", nil)
	r.git("config", "core.bare", "true")
	ada := r.clone("ada")
	out, err := Apply(t.Context(), Options{Dir: ada.dir, Evaluator: evaluator(t), Push: true, Fault: func(point string) error {
		if point == FaultAdvance {
			ada.write("hosts/a1.cue", "package fleet // half an edit\n")
		}
		return nil
	}}, zone("a1", "z"))
	if err != nil || !out.Pushed || out.Behind == "" || r.git("rev-parse", "main") != out.Commit {
		t.Fatal(out, err)
	}
	if got := ada.read("hosts/a1.cue"); got != "package fleet // half an edit\n" {
		t.Errorf("a person's edit is lost: %s", got)
	}
}

func TestNotARepository(t *testing.T) {
	_, err := Apply(t.Context(), Options{Dir: t.TempDir(), Evaluator: evaluator(t)}, zone("a1", "z"))
	var no *RefusedError
	if !errors.As(err, &no) || !strings.Contains(err.Error(), "is not a registry repository (name one with --repository)") {
		t.Error(err)
	}
}

func TestCancelled(t *testing.T) {
	r := newRepo(t, "", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Apply(ctx, Options{Dir: r.dir, Evaluator: evaluator(t)}, zone("a1", "z")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSplitPath(t *testing.T) {
	for _, labels := range [][]string{{"a"}, {"hosts", "a.b", "0", "x"}, {"a\"b", "c"}, {""}, {"x", ""}, {"ü", "a\\"}} {
		p := schema.FieldPath(labels...)
		if diff := cmp.Diff(labels, splitPath(p)); diff != "" {
			t.Errorf("%s: %s", p, diff)
		}
	}
}

// TestReplaceParts adds and takes away whole parts of a registry: each has its file, and nothing stays behind.
func TestReplaceParts(t *testing.T) {
	r := newRepo(t, "", nil)
	e := evaluator(t)
	push := func(text string) error {
		t.Helper()
		document, err := ReadDocument(t.Context(), e, "d.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Apply(t.Context(), Options{Dir: r.dir, Evaluator: e}, func(d *Draft) error {
			d.Subject = Subject{Kind: "push", Summary: "registry: d.json"}
			return d.Replace(document)
		})
		return err
	}
	const wiki = `"services": {"wiki": {"active_hosts": ["a1"], "endpoints": {"a1": {"url": "http://127.0.0.1:8080"}}, "consumers": {"people": {}}}}`
	for i, tc := range []struct{ document, files string }{
		{
			`{"service_directory": {"generation": 42, ` + wiki + `}, "hosts": {"a1": {"zone": "x"}, "a3": {}}, "policies": {"generation_mode": "authored"}}`,
			"generation.cue hosts/a1.cue hosts/a3.cue policies.cue registry.cue services/wiki.cue shared.cue",
		},
		{
			`{"service_directory": {"generation": 43}, "hosts": {"a3": {"region": "eu"}}}`,
			"generation.cue hosts/a3.cue registry.cue shared.cue",
		},
		{
			`{"service_directory": {"generation": 44, "authority": {"remote": "https://forge.example/f.git", "epoch": 1}}, "hosts": {"a3": {"region": "eu"}}}`,
			"authority.cue generation.cue hosts/a3.cue registry.cue shared.cue",
		},
		{
			`{"service_directory": {"generation": 45, "authority": {"remote": "https://forge.example/f.git", "epoch": 1}, ` + wiki + `}, "hosts": {"a1": {"zone": "x"}}}`,
			"authority.cue generation.cue hosts/a1.cue registry.cue services/wiki.cue shared.cue",
		},
	} {
		if err := push(tc.document); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if got := strings.ReplaceAll(r.git("ls-files"), "\n", " "); got != tc.files {
			t.Errorf("%d: files are %s, want %s", i, got, tc.files)
		}
	}
}

// TestReadDocument names what it refuses with the line of the document.
func TestReadDocument(t *testing.T) {
	e := evaluator(t)
	for text, want := range map[string]string{
		`[]`: "d.json:1: the document is not a struct",
		`{`:  "d.json:1: the file is not JSON",
		"{\"service_directory\":\n{\"generation\": 0}}":                                      "d.json:2: STADO-SCHEMA-001",
		`{"service_directory": {"generation": 1, "policies": 1}, "policies": {}}`:            "unknown field `policies`",
		`{"service_directory": {"generation": 1}, "registry": 1, "authority": {}}`:           "unknown field `registry`",
		`{"service_directory": 1}`:                                                           "d.json:1: STADO-SCHEMA-",
		`{"service_directory": {"generation": 1, "services": []}}`:                           "d.json:1: STADO-SCHEMA-",
		`{"service_directory": {"generation": 1}, "hosts": {"a": {"labels": {"x y": "z"}}}}`: "d.json:1: STADO-SCHEMA-001",
	} {
		if _, err := ReadDocument(t.Context(), e, "d.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
