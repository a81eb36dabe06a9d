package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLeavesMeanTheWhole evaluates small registries leaf by leaf and as one instance: the documents are the same bytes, and what one
// way refuses the other refuses.
func TestLeavesMeanTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := registryText(t)
		leaves := Compile(files, Options{})
		whole := newCompiler(Options{})
		whole.whole = true
		want := whole.compile(files)
		if diff := cmp.Diff(string(want.Document), string(leaves.Document)); diff != "" {
			t.Fatalf("-whole +leaves\n%s\nwhole: %v\nleaves: %v\n%s", diff, want.Findings, leaves.Findings, dump(files))
		}
		if want.Digest != leaves.Digest {
			t.Fatal("the digests differ")
		}
	})
}

func dump(files []File) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "-- %s --\n%s", f.Path, f.Data)
	}
	return b.String()
}

// registryText draws a registry of a few hosts and services that use what CUE offers: templates, patterns, defaults, references into
// shared files and into all hosts, entries in several files, entries in shared files, and now and then a mistake.
func registryText(t *rapid.T) []File {
	shared := []string{
		"#Edge: {region: *\"eu\" | string, labels: role: \"edge\", ...}",
		"#Listener: {consumer: \"web\", service: \"s0\", ...}",
		"_zones: [\"z0\", \"z1\"]",
	}
	for i, text := range []string{
		"registry: hosts: [string]: user: *\"stado\" | string",
		"registry: hosts: [=~\"^h[01]$\"]: labels: rack: \"r1\"",
		"registry: hosts: h1: zone: \"z1\"",
		"registry: hosts: {for i, z in _zones {\"g\\(i)\": zone: z}}",
		"registry: hosts: h1: zone: string",
		"registry: hosts: shared: {zone: \"z9\", #Edge}",
		"registry: service_directory: services: all: {active_hosts: [for h, _ in registry.hosts {h}], endpoints: {for h, _ in registry.hosts {(h): url: \"tcp://127.0.0.1:1\"}}, consumers: web: {}, protocol: \"tcp\"}",
		"registry: service_directory: authority: {host: \"h0\", repository: \"/srv/fleet.git\", command: \"/bin/stado\"}",
		"registry: policies: {}",
		"registry: service_directory: services: [string]: selector: \"zone=\\(_zones[0])\"",
	} {
		if rapid.IntRange(0, 3).Draw(t, fmt.Sprintf("shared%d", i)) == 0 {
			shared = append(shared, text)
		}
	}
	files := withBase([]File{{"shared.cue", []byte("package fleet\n\n" + strings.Join(shared, "\n") + "\n")}})
	for i := range rapid.IntRange(0, 4).Draw(t, "hosts") {
		for j := range rapid.IntRange(1, 2).Draw(t, "parts") {
			name := fmt.Sprintf("h%d", i)
			text := fmt.Sprintf("package fleet\n\nregistry: hosts: %s: {\n\t%s\n}\n", name, hostBody(t, name))
			files = append(files, File{fmt.Sprintf("hosts/p%d/%s.cue", j, name), []byte(text)})
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "services") {
		text := fmt.Sprintf("package fleet\n\nregistry: service_directory: services: s%d: {\n\tactive_hosts: [\"h0\"]\n\tendpoints: h0: url: \"http://127.0.0.1:9%03d\"\n\tconsumers: web: %s\n}\n", i, i,
			rapid.SampledFrom([]string{"{}", "capabilities: [\"read\"]", "capabilities: [for z in _zones {z}]"}).Draw(t, "consumer"))
		files = append(files, File{fmt.Sprintf("services/s%d.cue", i), []byte(text)})
	}
	return files
}

func hostBody(t *rapid.T, name string) string {
	lines := rapid.SliceOfDistinct(rapid.SampledFrom([]string{
		"#Edge", "zone: \"z1\"", "zone: _zones[1]", "region: \"us\"", "labels: own: \"x\"", "user: \"root\"",
		"labels: gen: \"g\\(registry.service_directory.generation)\"",
		"labels: me: registry.hosts." + name + ".zone\n\tzone: string",
		"service_resolver: {api_bind: \"127.0.0.1:7100\", refresh_seconds: 30, max_stale_seconds: 60, adapters: [{bind: \"127.0.0.1:7101\", #Listener}]}",
		"if len(_zones) > 1 {labels: many: \"yes\"}",
		"bogus: 1", "zone: 3", "let x = \"r\"\n\tlabels: let: x",
	}), func(s string) string { return s }).Draw(t, "lines")
	return strings.Join(lines[:min(3, len(lines))], "\n\t")
}

func TestLeafOf(t *testing.T) {
	tests := []struct {
		text       string
		kind, name string
		literal    bool
	}{
		{"registry: hosts: a1: zone: \"z\"", "hosts", "a1", true},
		{"registry: hosts: a1: {}\nregistry: hosts: \"a1\": zone: \"z\"", "hosts", "a1", true},
		{"registry: {hosts: {a1: {}}}", "hosts", "a1", true},
		{"registry: hosts: a1: zone: -1", "hosts", "a1", true},
		{"registry: service_directory: services: api: #T", "services", "api", false},
		{"registry: hosts: a1: zone: \"z\\(1)\"", "hosts", "a1", false},
		{"registry: hosts: a1: {_h: 1}", "hosts", "a1", false},
		{"registry: hosts: a1: {zone: \"z\"} @a(b)", "", "", false},
		{"registry: hosts: a1: {}\nregistry: hosts: a2: {}", "", "", false},
		{"registry: hosts: {a1: {}, a2: {}}", "", "", false},
		{"registry: hosts: a1: {}\nx: 1", "", "", false},
		{"registry: hosts: [string]: {}", "", "", false},
		{"registry: hosts: a1?: {}", "", "", false},
		{"registry: hosts: X=a1: {}", "", "", false},
		{"registry: hosts: {}", "", "", false},
		{"registry: policies: generation_mode: \"stamped\"", "", "", false},
		{"registry: service_directory: generation: 1", "", "", false},
		{"", "", "", false},
	}
	for _, test := range tests {
		file, err := parseCUE("x.cue", []byte("package fleet\n"+test.text))
		if err != nil {
			t.Fatal(err)
		}
		l := leafOf(file)
		if l.kind != test.kind || l.name != test.name || l.ok() && l.literal != test.literal {
			t.Errorf("%q: got %+v, want %s %s literal %t", test.text, l, test.kind, test.name, test.literal)
		}
	}
}

func TestReadsEntries(t *testing.T) {
	tests := map[string]bool{
		"registry: service_directory: generation: 42":  false,
		"#Edge: zone: \"z\"":                           false,
		"registry: hosts: [string]: user: \"x\"":       false,
		"registry: hosts: [N=string]: labels: name: N": false,
		"x: registry.service_directory.generation":     false,
		"x: registry[\"policies\"]":                    false,
		"x: registry.hosts":                            true,
		"x: registry.service_directory.services":       true,
		"x: registry":                                  true,
		"x: registry[\"ho\" + \"sts\"]":                true,
		"registry: {hosts: {}, policies: generation_mode: {for h, _ in hosts {}} | \"authored\"}": true,
		"X=registry: hosts: {}":                                            true,
		"registry: X={hosts: {}}":                                          true,
		"registry: hosts: {...} & {}":                                      true,
		"import \"struct\"\nregistry: hosts: struct.MaxFields(3)":          true,
		"import \"struct\"\nregistry: hosts: {struct.MaxFields(3)}":        true,
		"registry: #Everything":                                            true,
		"registry: [string]: {}":                                           true,
		"registry: {if true {hosts: {}}}":                                  true,
		"import \"stado.internal/schema\"\nregistry: schema.#Registry":     false,
		"import \"stado.internal/schema\"\nregistry: hosts: schema.#Hosts": false,
		"registry: hosts: {for x in [1] {\"h\\(x)\": {}}}":                 false,
	}
	for text, want := range tests {
		file, err := parseCUE("x.cue", []byte("package fleet\n"+text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got := readsEntries(file); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}
