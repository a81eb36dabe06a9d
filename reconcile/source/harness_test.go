package source

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/reconcile/sandbox/sandboxtest"
)

// repo is a real repository, written with the installed git.
type repo struct {
	t   testing.TB
	dir string
}

func newRepo(t testing.TB) repo {
	t.Helper()
	r := repo{t: t, dir: filepath.Join(t.TempDir(), "registry")}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r repo) git(args ...string) string { r.t.Helper(); return r.gitIn(nil, args...) }

// tryGit runs git where a refusal is what is wanted.
func (r repo) tryGit(args ...string) error { return r.command(args...).Run() }

func (r repo) command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", append([]string{"-c", "maintenance.auto=false"}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.net", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.net",
	}
	return cmd
}

func (r repo) gitIn(stdin []byte, args ...string) string {
	r.t.Helper()
	cmd := r.command(args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repo) write(files map[string]string) {
	r.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(files[name]), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

// commit writes files and commits everything; it gives the commit's id.
func (r repo) commit(message string, files map[string]string) string {
	r.t.Helper()
	r.write(files)
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", message)
	return r.git("rev-parse", "HEAD")
}

func generation(n int) map[string]string {
	return map[string]string{"generation.cue": "package fleet\n\nregistry: service_directory: generation: " + strconv.Itoa(n) + "\n"}
}

// registry is a small whole registry at a generation.
func registry(n int) map[string]string {
	files := generation(n)
	files["registry.cue"] = "package fleet\n\nimport \"stado.internal/schema\"\n\nregistry: schema.#Registry\n"
	files["hosts/alpha.cue"] = `package fleet

registry: hosts: alpha: {
	hostnames: ["alpha.example.net"]
	service_resolver: {
		api_bind:          "127.0.0.1:7700"
		refresh_seconds:   5
		max_stale_seconds: 60
		adapters: [{service: "wiki", consumer: "people", bind: "127.0.0.1:7701"}]
	}
}
`
	files["services/wiki.cue"] = `package fleet

registry: service_directory: services: wiki: {
	active_hosts: ["alpha"]
	endpoints: alpha: url: "http://127.0.0.1:8080"
	consumers: people: {}
}
`
	files["README.md"] = "the registry\n"
	files[".github/workflows/registry.yml"] = "on: push\n"
	return files
}

func runner(t testing.TB) sandbox.Runner {
	t.Helper()
	// A busy machine may take its time.
	return sandbox.Runner{Command: []string{sandboxtest.Build(t, "./testdata/child")}, Limits: sandbox.Limits{Wall: 10 * time.Minute}}
}

func poller(t testing.TB, address string) *Git {
	t.Helper()
	remote, err := ParseRemote(address, "")
	if err != nil {
		t.Fatal(err)
	}
	g := New(Options{Store: filepath.Join(t.TempDir(), "registry.git"), Remote: remote, Runner: runner(t), Keep: time.Hour})
	t.Cleanup(g.Close)
	return g
}

func poll(t testing.TB, g *Git, held string) Offer {
	t.Helper()
	o, err := g.Poll(t.Context(), Anchor{Commit: held})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func commits(o Offer) []string {
	out := []string{}
	for _, s := range o.Steps {
		out = append(out, s.Commit)
	}
	return out
}

func rules(s Step) []string {
	var out []string
	for _, f := range s.Findings {
		out = append(out, f.Rule)
	}
	return slices.Compact(out)
}
