package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cleanHouse is a tree that keeps every rule. Each planted case writes over it.
var cleanHouse = map[string]string{
	"go.mod":         "module example.test/m\n\nrequire cuelang.org/go v0.1.0\n",
	".ci/tools.mod":  "module example.test/m\n\nrequire cuelang.org/go v0.1.0 // indirect\n",
	".ci/layers.txt": cleanLayers,
	"fleet/fleet.go": "// Package fleet is the vocabulary.\npackage fleet\n\nimport \"errors\"\n\nvar ErrNone = errors.New(\"none\")\n\nvar Table = map[string]int{\"a\": 1}\n",
	"agent/resolver/a.go": "// Package resolver resolves.\npackage resolver\n\nimport \"example.test/m/fleet\"\n\n" +
		"func Of(k string) int { return fleet.Table[k] }\n",
	"agent/edge/a.go":      "// Package edge chooses.\npackage edge\n\nimport \"example.test/m/fleet\"\n\nvar _ = fleet.ErrNone\n",
	"reconcile/a.go":       "// Package reconcile loops.\npackage reconcile\n",
	"agent/agent.go":       "// Package agent wires.\npackage agent\n\nimport _ \"embed\"\n",
	"docs/dependencies.md": "| `cuelang.org/go` | the language |\n",
	"docs/a.md":            "[fleet](../fleet/fleet.go#L1) [elsewhere](https://example.test/x)\n",
}

const cleanLayers = `# a comment
fleet
agent
agent/resolver : fleet
agent/edge : fleet
reconcile
tests : | pgregory.net/rapid
skips 0
`

// TestHousePlanted proves that every rule finds what it is for, and finds nothing else.
func TestHousePlanted(t *testing.T) {
	t.Parallel()
	edge := func(imports, body string) map[string]string {
		return map[string]string{"agent/edge/b.go": "package edge\n\n" + imports + "\n\n" + body + "\n"}
	}
	edgeTest := func(body string) map[string]string {
		return map[string]string{"agent/edge/b_test.go": "package edge\n\n" + body + "\n"}
	}
	layers := func(lines string) map[string]string { return map[string]string{".ci/layers.txt": cleanLayers + lines} }
	long := func(n int) string { return strings.Repeat("\t_ = 1\n", n) }
	tests := []struct {
		name  string
		plant map[string]string
		want  []string // rule: where
	}{
		{"nothing", nil, nil},
		{"a wing imports a wing", edge(`import "example.test/m/agent/resolver"`, ""), []string{"wings: agent/edge/b.go"}},
		{"a wing imports a wing, and the table says it may", map[string]string{
			"agent/edge/b.go": "package edge\n\nimport \"example.test/m/agent/resolver\"\n",
			".ci/layers.txt":  strings.Replace(cleanLayers, "agent/edge : fleet", "agent/edge : fleet agent/resolver", 1),
		}, []string{"wings: agent/edge/b.go"}},
		{"a wing imports the agent", edge(`import "example.test/m/agent"`, ""), []string{"agent: agent/edge/b.go"}},
		{"the loop imports the agent", map[string]string{"reconcile/b.go": "package reconcile\n\nimport \"example.test/m/agent/status\"\n"}, []string{"reconcile: reconcile/b.go"}},
		{"a package outside its line", map[string]string{"fleet/b.go": "package fleet\n\nimport \"example.test/m/reconcile\"\n"}, []string{"layers: fleet/b.go"}},
		{"a package without a line", map[string]string{"fleet/plan/a.go": "// Package plan plans.\npackage plan\n"}, []string{"layers: fleet/plan"}},
		{"a line without a package", layers("fleet/gone\n"), []string{"layers: fleet/gone"}},
		{"a line that allows more than is used", map[string]string{
			".ci/layers.txt": strings.Replace(cleanLayers, "agent/edge : fleet", "agent/edge : fleet reconcile | github.com/other/thing", 1),
		}, []string{"layers: agent/edge", "layers: agent/edge"}},
		{"a library that no line names", edge(`import "github.com/other/thing"`, ""), []string{"third-party: agent/edge/b.go"}},
		{"a test library outside tests", edge(`import "pgregory.net/rapid"`, ""), []string{"third-party: agent/edge/b.go"}},
		{"a test library in a test", edgeTest(`import "pgregory.net/rapid"`), nil},
		{"a test imports what its package stands on", edgeTest(`import "example.test/m/fleet"`), nil},
		{"a test imports what its package does not stand on", edgeTest(`import "example.test/m/reconcile"`), []string{"layers: agent/edge/b_test.go"}},
		{"a test helper outside tests", edge(`import "example.test/m/fleet/fleettest"`, ""), []string{"test-helper: agent/edge/b.go"}},
		{"a blank import", edge(`import _ "net/http/pprof"`, ""), []string{"blank-import: agent/edge/b.go"}},
		{"an init", edge("", "func init() {}"), []string{"init: agent/edge/b.go"}},
		{"a 600-line file", edge("", strings.Repeat("// line\n", 600)), []string{"file-length: agent/edge/b.go"}},
		{"a 90-line function", edge("", "func f() {\n"+long(88)+"}"), []string{"func-length: agent/edge/b.go:f"}},
		{"an 80-line function", edge("", "func f() {\n"+long(78)+"}"), nil},
		{"700 lines of wiring", map[string]string{
			"agent/b.go": "package agent\n" + strings.Repeat("// line\n", 350), "agent/c.go": "package agent\n" + strings.Repeat("// line\n", 350),
		}, []string{"wiring: agent"}},
		{"no package comment", map[string]string{"agent/edge/a.go": "package edge\n\nimport \"example.test/m/fleet\"\n\nvar _ = fleet.ErrNone\n"}, []string{"package-comment: agent/edge"}},
		{"a package named for nothing", map[string]string{"fleet/util/a.go": "// Package util is.\npackage util\n", ".ci/layers.txt": cleanLayers + "fleet/util\n"}, []string{"package-name: fleet/util"}},
		{"a variable without a value", edge("", "var n int"), []string{"state: agent/edge.n"}},
		{"a made map", edge("", "var m = make(map[string]int)"), []string{"state: agent/edge.m"}},
		{"a lock", edge(`import "sync"`, "var mu = sync.Mutex{}"), []string{"state: agent/edge.mu"}},
		{"an initial value that waits", edge(`import "sync"`, "var v = sync.OnceValue(func() int { return 1 })"), nil},
		{"something done once", edge(`import "sync"`, "var f = sync.OnceFunc(func() {})"), []string{"state: agent/edge.f"}},
		{"a pointer", edge("", "var p = &struct{ n int }{}"), []string{"state: agent/edge.p"}},
		{"a counter", edge("", "var n = 0\n\nfunc f() { n++ }"), []string{"state: agent/edge.n"}},
		{"a table written to", edge("", "var m = map[string]int{}\n\nfunc f() { m[\"a\"] = 1 }"), []string{"state: agent/edge.m"}},
		{"a table lent", edge("", "var a = [2]int{}\n\nfunc f() *int { return &a[1] }"), []string{"state: agent/edge.a"}},
		{"a table emptied", edge("", "var m = map[string]int{}\n\nfunc f() { clear(m) }"), []string{"state: agent/edge.m"}},
		{"a table sorted", edge(`import "slices"`, "var s = []int{2, 1}\n\nfunc f() { slices.Sort(s) }"), []string{"state: agent/edge.s"}},
		{"a value with a setter", edge("", "type c int\n\nfunc (x *c) set() { *x = 1 }\n\nvar v = c(0)\n\nfunc f() { v.set() }"), []string{"state: agent/edge.v"}},
		{"a local of the same name", edge("", "var m = map[string]int{\"a\": 1}\n\nfunc f() { m := map[string]int{}; m[\"a\"] = 1 }"), nil},
		{"an embedded file", edge(`import _ "embed"`, "//go:embed a.go\nvar text string"), nil},
		{"an interface check", edge("", "var _ interface{} = (*int)(nil)"), nil},
		{"a goroutine that nobody joins", edge("", "func f() { go f() }"), []string{"go: agent/edge/b.go:f"}},
		{"a goroutine that Run joins", edge("", "func Run() { f() }\n\nfunc f() { go f() }"), nil},
		{"a goroutine joined where it starts", edge("", "func f(done chan int) { go f(done); <-done }"), nil},
		{"a sleeping test", edgeTest("import \"time\"\n\nfunc f() { time.Sleep(1) }"), []string{"sleep: agent/edge/b_test.go:f"}},
		{"a sleep in a bubble", edgeTest("func f() { synctest.Test(t, func() { time.Sleep(1) }) }"), nil},
		{"a skip more than allowed", edgeTest("func TestF(t *testing.T) { t.Skip() }"), []string{"skips: .ci/layers.txt"}},
		{"a case that rapid throws away", edgeTest("func f() { rapid.Check(t, func(t *rapid.T) { t.Skip() }) }"), nil},
		{"a case that a fuzz target throws away", edgeTest("func FuzzF(f *testing.F) { f.Fuzz(func(t *testing.T) { t.Skip() }) }"), nil},
		{"a folder of one machine", map[string]string{"docs/b.md": "see /wo" + "rk/x\n"}, []string{"machine: docs/b.md"}},
		{"a proxy of one network", map[string]string{"docs/b.md": "GOPROXY=" + "https://proxy.example\n"}, []string{"machine: docs/b.md"}},
		{"a dead link", map[string]string{"docs/b.md": "[gone](gone.md)\n"}, []string{"link: docs/b.md"}},
		{"a pattern that looks like a link", map[string]string{"docs/b.md": "```\n^[a-z](gone)$\n```\n"}, nil},
		{"a dependency without a reason", map[string]string{"docs/dependencies.md": "none\n"}, []string{"dependency: cuelang.org/go"}},
		{"two versions of CUE", map[string]string{".ci/tools.mod": "module example.test/m\n\nrequire cuelang.org/go v0.2.0\n"}, []string{"tools: .ci/tools.mod"}},
		{"an argued exemption", map[string]string{"agent/edge/b.go": "package edge\n\nvar n int\n", ".ci/layers.txt": cleanLayers + "exempt state agent/edge.n : the protocol asks for it\n"}, nil},
		{"an exemption that nothing needs", layers("exempt init fleet/fleet.go : no reason any more\n"), []string{"exempt: init fleet/fleet.go"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for _, files := range []map[string]string{cleanHouse, tt.plant} {
				for name, text := range files {
					name = filepath.Join(root, filepath.FromSlash(name))
					if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			found := inspectHouse(t, root)
			match := func(finding, want string) bool { return strings.HasPrefix(finding, want+": ") }
			if !slices.EqualFunc(found, tt.want, match) {
				t.Errorf("found %q, want one finding each of %q", found, tt.want)
			}
		})
	}
}
