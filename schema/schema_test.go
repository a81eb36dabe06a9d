package schema

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
	"stado.internal/stado/fleet"
)

// TestProgress names every file before work on it begins, and the one with an expression last of those that are evaluated together.
func TestProgress(t *testing.T) {
	files := withBase([]File{
		cueFile("bomb.cue", "_x: [for a in [1] {a}]\n"),
		cueFile("zones.cue", "registry: policies: {}\n"),
		cueFile("hosts/a1.cue", "registry: hosts: a1: zone: \"z\"\n"),
		cueFile("hosts/a2.cue", "registry: hosts: a2: zone: \"z\\(1)\"\n"),
	})
	var got []string
	c := Compile(files, Options{Progress: func(phase, file string) {
		if phase == phaseEvaluate || phase == phaseRender {
			got = append(got, phase+" "+file)
		}
	}})
	if c.Document == nil {
		t.Fatal(c.Findings)
	}
	want := []string{
		"evaluate generation.cue", "evaluate zones.cue", "evaluate bomb.cue", "evaluate registry.cue", "evaluate hosts/a2.cue", "render ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestOrderOfFiles gives the same result for any order of the files.
func TestOrderOfFiles(t *testing.T) {
	for _, a := range archives(t) {
		want := Compile(a.files, Options{})
		files := slices.Clone(a.files)
		slices.Reverse(files)
		got := Compile(files, Options{})
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Compiled{})); diff != "" {
			t.Errorf("%s: -want +got\n%s", a.name, diff)
		}
	}
}

func TestPositions(t *testing.T) {
	c := Compile(withBase([]File{
		cueFile("t.cue", "#T: zone: \"z1\"\n#T: {...}\n"),
		cueFile("hosts/a1.cue", "registry: hosts: \"a.1\": #T & {\n\tservice_resolver: {\n\t\tapi_bind: \"127.0.0.1:1\", refresh_seconds: 1, max_stale_seconds: 1\n\t\tadapters: [\n\t\t\t{service: \"s\", consumer: \"c\", bind: \"127.0.0.1:2\"}]\n\t}\n}\n"),
	}), Options{})
	if c.Document == nil {
		t.Fatal(c.Findings)
	}
	for p, want := range map[string]Position{
		"service_directory.generation":                     {"generation.cue", 3, 42},
		`hosts."a.1".service_resolver.adapters.0.bind`:     {"hosts/a1.cue", 6, 40},
		`hosts."a.1".service_resolver.adapters.0`:          {"hosts/a1.cue", 6, 4},
		`hosts."a.1".service_resolver.adapters.0.protocol`: {"hosts/a1.cue", 6, 4},
		`hosts."a.1".zone`:                                 {"hosts/a1.cue", 2, 18},
		`policies.generation_mode`:                         {},
	} {
		if got := c.At(p); got != want {
			t.Errorf("%s: got %+v, want %+v", p, got, want)
		}
	}
}

func TestFieldPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[a-z0-9."\\-]{0,6}`), rapid.String()), 1, 5).Draw(t, "labels")
		p := FieldPath(labels...)
		if len(labels) == 1 {
			if parentPath(p) != "" {
				t.Fatalf("the parent of %s is %s", p, parentPath(p))
			}
			return
		}
		if got, want := parentPath(p), FieldPath(labels[:len(labels)-1]...); got != want {
			t.Fatalf("the parent of %s is %s, want %s", p, got, want)
		}
		if got, want := lastLabel(p), FieldPath(labels[len(labels)-1]); got != want {
			t.Fatalf("the last label of %s is %s, want %s", p, got, want)
		}
	})
}

func TestCanonical(t *testing.T) {
	got, err := Canonical(json.RawMessage(`{"b": 12345678901234567890, "a": {"z": "<&>", "y": [1, 2.50]}}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a":{"y":[1,2.50],"z":"<&>"},"b":12345678901234567890}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d := Digest(got); len(d) != 64 || d != Digest([]byte(want)) || d == Digest(nil) {
		t.Errorf("digest %s", d)
	}
	for _, bad := range []string{``, `{`, `{} {}`} {
		if _, err := Canonical(json.RawMessage(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestModelKeepsTheDocument renders the model of every good document and gets the document again: no field of the schema is lost on its
// way into the Go types.
func TestModelKeepsTheDocument(t *testing.T) {
	documents := goodDocuments(t)
	for name, c := range documents {
		back, err := Canonical(c.Registry)
		if err != nil {
			t.Fatal(err)
		}
		// What Go leaves out because it is the zero value is no loss.
		if diff := cmp.Diff(withoutZero(t, c.Document), withoutZero(t, back)); diff != "" {
			t.Errorf("%s: -document +model\n%s", name, diff)
		}
	}
	if len(documents) < 10 {
		t.Errorf("only %d documents compile", len(documents))
	}
}

func withoutZero(t *testing.T, document []byte) any {
	tree, err := decodeTree(document)
	if err != nil {
		t.Fatal(err)
	}
	var strip func(any) any
	strip = func(v any) any {
		if list, ok := v.([]any); ok {
			for i := range list {
				list[i] = strip(list[i])
			}
		}
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		for k, inner := range m {
			switch inner := strip(inner).(type) {
			case bool:
				if !inner {
					delete(m, k)
				}
			case map[string]any:
				if len(inner) == 0 && k != "web" {
					delete(m, k)
				}
			}
		}
		return m
	}
	return strip(tree)
}

// TestEveryFieldIsDocumented looks for fields of the schema without a comment, or with one that is not about them.
func TestEveryFieldIsDocumented(t *testing.T) {
	var walk func(p string, s *shape)
	walk = func(p string, s *shape) {
		if s == nil {
			return
		}
		for name, child := range s.fields {
			if !strings.HasPrefix(child.doc, name+" ") {
				t.Errorf("%s.%s: comment %q", p, name, child.doc)
			}
			walk(p+"."+name, child)
		}
		walk(p+".*", s.pattern)
		walk(p+".*", s.element)
	}
	s := schemaShape(schemaText())
	walk("registry", s)
	if s.at([]string{"hosts", "a1", "service_resolver", "adapters", "3", "bind"}) == nil {
		t.Error("the shape has no hosts.*.service_resolver.adapters.*.bind")
	}
}

// TestSchemaPatternsAcceptWhatTheModelAccepts draws addresses and compares the schema's patterns, which plain cue judges by, with the
// model's parsers: a pattern never refuses an address that the model reads.
func TestSchemaPatternsAcceptWhatTheModelAccepts(t *testing.T) {
	corpus := map[string][]string{
		"ssh": {
			"a1", "a1.example.net", "stado@a1", "stado@[a1]", "stado@[a1]:2222", "stado@10.0.0.1", "stado@[10.0.0.1]:65535", "stado@[2001:db8::1]", "stado@[2001:db8::1]:22",
			"2001:db8::1", "stado@2001:db8::1", "[::1]:1", "s.t-a_d0@h_-.x", "-oProxyCommand=x@h", "a b", "u@h:22", "u@[h", "u@[h]:0", "u@[h]:022", "u@", "@h", "u@@h", "",
		},
		"url": {
			"http://127.0.0.1:80", "https://[::1]:443", "tcp://localhost:5432", "http://127.0.0.1:80/", "unix:///run/a.sock", "unix://run/a.sock", "http://127.0.0.1",
			"http://h:80", "ftp://127.0.0.1:21", "http://127.0.0.1:080", "http://a@127.0.0.1:1", "http://127.0.0.1:1/x", "http://127.0.0.1:1?x", "http://127.0.0.1:1#", "",
		},
		"bind": {
			"127.0.0.1:80", "localhost:80", "[::1]:80", "0.0.0.0:80", "[::ffff:127.0.0.1]:80", "unix:///run/a b.sock", "unix:///run/a.sock", "80", ":80", "*:80", "host:80", "127.0.0.1:0", "unix://a", "",
		},
	}
	parse := map[string]func(string) error{
		"ssh":  func(s string) error { _, err := fleet.Destination(s).Parse(); return err },
		"url":  func(s string) error { _, err := fleet.ParseEndpoint(s); return err },
		"bind": func(s string) error { _, err := fleet.ParseBind(s); return err },
	}
	for field, words := range corpus {
		for _, word := range words {
			quoted, err := json.Marshal(word)
			if err != nil {
				t.Fatal(err)
			}
			c := Compile(withBase([]File{cueFile("x.cue", map[string]string{
				"ssh":  "registry: hosts: a1: ssh: " + string(quoted),
				"url":  "registry: service_directory: services: s: {active_hosts: [\"a1\"], consumers: c: {}, endpoints: a1: url: " + string(quoted) + "}",
				"bind": "registry: hosts: a1: service_resolver: {refresh_seconds: 1, max_stale_seconds: 1, api_bind: " + string(quoted) + "}",
			}[field])}), Options{})
			model := parse[field](word)
			if model == nil && c.Document == nil {
				t.Errorf("%s %q: the schema refuses what the model reads: %v", field, word, c.Findings)
			}
			if model != nil && c.Document != nil {
				t.Errorf("%s %q: the schema accepts what the model refuses: %v", field, word, model)
			}
			if model != nil && c.Document == nil && c.Findings[0].Message != model.Error() {
				t.Errorf("%s %q: finding %q, want the model's sentence %q", field, word, c.Findings[0].Message, model)
			}
		}
	}
}
