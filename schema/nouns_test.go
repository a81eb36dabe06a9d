package schema

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"stado.internal/stado/fleet"
)

const examplesDir = "../examples"

// example reads one registry repository of the examples.
func example(t testing.TB, name string) []File {
	t.Helper()
	var out []File
	root := os.DirFS(filepath.Join(examplesDir, name))
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, p)
		out = append(out, File{p, data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func compileExample(t testing.TB, name string) Compiled {
	t.Helper()
	c := Compile(example(t, name), Options{})
	if c.Document == nil {
		t.Fatalf("%s: %v", name, c.Findings)
	}
	return c
}

// TestDigestsStay pins the digests of documents that declare none of the blocks that the schema learned later. A new binary that read
// another document out of the same commit would refuse it as a reused generation.
func TestDigestsStay(t *testing.T) {
	for name, want := range map[string]string{
		"one-host":    "49902aef56c803d08d3d3bb08d5be8cdd82a26e481279b5db653923c885a83b8",
		"three-hosts": "bb2f905c61f2983681a86cd257c444ebc0798ee701f4ac1aaf7f73dc1f1aa383",
	} {
		if got := compileExample(t, name).Digest; got != want {
			t.Errorf("%s: digest %s, want %s: a field was added with a default to a block that exists", name, got, want)
		}
	}
	for text, want := range map[string]string{
		"registry: policies: {}":                           `{"policies":{"generation_mode":"authored"},"service_directory":{"generation":42}}`,
		"registry: policies: generation_mode: \"stamped\"": `{"policies":{"generation_mode":"stamped"},"service_directory":{"generation":42}}`,
		"registry: hosts: a1: {}":                          `{"hosts":{"a1":{}},"service_directory":{"generation":42}}`,
	} {
		c := Compile(withBase([]File{cueFile("x.cue", text)}), Options{})
		if got := string(c.Document); got != want {
			t.Errorf("%s: %s, want %s %v", text, got, want, c.Findings)
		}
	}
}

// goodDocuments are the compiled documents of the examples and of the archives that compile.
func goodDocuments(t *testing.T) map[string]Compiled {
	t.Helper()
	out := map[string]Compiled{}
	for _, name := range []string{"one-host", "three-hosts", "everything"} {
		out[name] = compileExample(t, name)
	}
	for _, a := range archives(t) {
		if c := Compile(a.files, Options{}); c.Document != nil {
			out[a.name] = c
		}
	}
	return out
}

// TestEveryFieldIsUsed looks for fields of the schema that stand in no document that is checked.
func TestEveryFieldIsUsed(t *testing.T) {
	root, used := schemaShape(schemaText()), map[string]bool{}
	for _, c := range goodDocuments(t) {
		for p, fields := range structsOf(t, c) {
			for field := range fields {
				used[general(root, p, field)] = true
			}
		}
	}
	var walk func(labels []string, s *shape)
	walk = func(labels []string, s *shape) {
		if s == nil {
			return
		}
		for name, child := range s.fields {
			p := append(slices.Clone(labels), name)
			if child.retired == "" && !used[general(root, "", FieldPath(p...))] {
				t.Errorf("%s stands in no example and in no good document of testdata", FieldPath(p...))
			}
			walk(p, child)
		}
		walk(append(slices.Clone(labels), "*"), s.pattern)
		walk(append(slices.Clone(labels), "*"), s.element)
	}
	walk(nil, root)
}

// structsOf lists the structs of a document by field path, each with its fields.
func structsOf(t *testing.T, c Compiled) map[string]map[string]any {
	t.Helper()
	tree, err := decodeTree(c.Document)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	var walk func(p string, v any)
	walk = func(p string, v any) {
		switch x := v.(type) {
		case map[string]any:
			out[p] = x
			for name, inner := range x {
				walk(join(p, name), inner)
			}
		case []any:
			for i, inner := range x {
				walk(join(p, strconv.Itoa(i)), inner)
			}
		}
	}
	walk("", tree)
	return out
}

// general replaces the names and indexes in a field path by *, as far as the schema calls them that.
func general(s *shape, parent, field string) string {
	var out []string
	for _, label := range append(splitPath(parent), splitPath(field)...) {
		next := s.child(label)
		if s != nil && s.element != nil {
			next = s.element
		}
		if s == nil || s.fields[label] == nil {
			label = "*"
		}
		out, s = append(out, label), next
	}
	return strings.Join(out, ".")
}

func splitPath(p string) []string {
	var out []string
	for ; p != ""; p = parentPath(p) {
		label := lastLabel(p)
		if s, err := strconv.Unquote(label); err == nil {
			label = s
		}
		out = append(out, label)
	}
	slices.Reverse(out)
	return out
}

// TestUnknownFieldAtEveryLevel plants a field that the schema does not know into every closed struct of every good document, and finds
// it refused by name, at its own line.
func TestUnknownFieldAtEveryLevel(t *testing.T) {
	root, planted := schemaShape(schemaText()), map[string]bool{}
	documents := goodDocuments(t)
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		c := documents[name]
		structs := structsOf(t, c)
		for _, p := range slices.Sorted(maps.Keys(structs)) {
			if s := root.at(splitPath(p)); !s.closed() || planted[general(root, "", p)] {
				continue
			}
			planted[general(root, "", p)] = true
			structs[p]["bogus"] = "planted"
			want := join(p, "bogus")
			text := registryOf(t, structs[""])
			delete(structs[p], "bogus")
			got := Compile([]File{{"all.cue", text}}, Options{})
			if i := slices.IndexFunc(got.Findings, func(f fleet.Finding) bool { return f.Rule == RuleUnknown && f.Path == want }); i < 0 {
				t.Errorf("%s: %s is not refused by name: %v", name, want, got.Findings)
			} else if line := strings.Split(string(text), "\n")[got.Findings[i].Line-1]; !strings.Contains(line, "bogus") {
				t.Errorf("%s: %s is refused at line %d: %s", name, want, got.Findings[i].Line, line)
			}
		}
	}
	var closed func(labels []string, s *shape)
	closed = func(labels []string, s *shape) {
		if s == nil {
			return
		}
		if p := strings.Join(labels, "."); s.closed() && !planted[p] {
			t.Errorf("nothing was planted into %s", p)
		}
		for label, child := range s.fields {
			closed(append(slices.Clone(labels), label), child)
		}
		closed(append(slices.Clone(labels), "*"), s.pattern)
		closed(append(slices.Clone(labels), "*"), s.element)
	}
	closed(nil, root)
}

func registryOf(t *testing.T, tree any) []byte {
	t.Helper()
	raw, err := json.MarshalIndent(tree, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat([]byte("package fleet\n\nregistry: "), raw, []byte("\n"))
}

// TestEveryLevelHasAPosition finds the file and line of every struct and list that the fullest example declares in a file of its own.
func TestEveryLevelHasAPosition(t *testing.T) {
	c := compileExample(t, "everything")
	defaults := []string{"", `edges."git.edge.example.net".selection`}
	for p := range structsOf(t, c) {
		if _, ok := c.Positions[p]; !ok && !slices.Contains(defaults, p) {
			t.Errorf("%s has no position", p)
		}
	}
	for p, file := range map[string]string{
		"trust.signers.stamp.scope.0": "trust.cue", "presence.nats.cluster.2": "presence.cue", "policies.change_limits.min_set": "policies.cue",
		`edges."edge.example.net".selection.tolerance`: "edges.cue", "gateway.trusted_proxies.1": "gateway.cue", "vault.repair.command": "objects.cue",
		"objects.namespaces.shop.prefixes.1.actions.4": "objects.cue", "hosts.carme.relay.slots.speech.expected": "hosts/carme.cue",
		"hosts.delos.edge.addresses.1": "hosts/delos.cue", "hosts.delos.presence.offline_after": "hosts/delos.cue", "hosts.atlas.metrics.expose": "hosts/atlas.cue",
	} {
		if at, ok := c.Positions[p]; !ok || at.File != file || at.Line < 3 {
			t.Errorf("%s: position %v, want one in %s", p, at, file)
		}
	}
}

// TestModelHasTheDefaultsOfTheSchema compares the values that the model supplies for a block that is left out with the defaults of the
// block.
func TestModelHasTheDefaultsOfTheSchema(t *testing.T) {
	c := Compile(withBase([]File{cueFile("x.cue", "registry: {policies: change_limits: {}, presence: driver: \"memory\"}")}), Options{})
	if c.Registry == nil {
		t.Fatal(c.Findings)
	}
	var nothing fleet.Registry
	if diff := cmp.Diff(*c.Registry.Policies.ChangeLimits, nothing.Policies.Limits()); diff != "" {
		t.Errorf("change limits: -schema +model\n%s", diff)
	}
	if diff := cmp.Diff(*c.Registry.Presence, nothing.PresenceOf("a1")); diff != "" {
		t.Errorf("presence: -schema +model\n%s", diff)
	}
	c = Compile(withBase([]File{cueFile("x.cue", "registry: {presence: nats: {}, hosts: a1: presence: nats: {}}")}), Options{})
	if c.Registry == nil {
		t.Fatal(c.Findings)
	}
	fromHost := fleet.Registry{Hosts: c.Registry.Hosts}
	if diff := cmp.Diff(*c.Registry.Presence.NATS, *fromHost.PresenceOf("a1").NATS); diff != "" {
		t.Errorf("presence.nats: -schema +model\n%s", diff)
	}
}
