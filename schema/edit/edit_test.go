package edit

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, text string) *File {
	t.Helper()
	f, err := Open("services/shop.cue", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func value(t *testing.T, v any) Value {
	t.Helper()
	out, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const shop = `// The shop's own file.
package fleet

registry: service_directory: services: shop: {
	// Two hosts serve; the third is ready to.
	active_hosts: ["atlas", "borea"] // in order of preference
	endpoints: {
		atlas: url: "http://127.0.0.1:8080"
		borea: url: "http://127.0.0.1:8080" // the slow one
		// carme is new.
		carme: url: "http://127.0.0.1:8080"
	}
	consumers: web: capabilities: ["order"]
	check: {kind: "http", path: "/healthz", interval: "5s"}
}
`

var shopPath = []string{"registry", "service_directory", "services", "shop"}

func under(labels ...string) []string {
	return append(append([]string{}, shopPath...), strings.Fields(strings.Join(labels, " "))...)
}

// TestEdits compares whole files: every byte outside the lines that an edit means is the same.
func TestEdits(t *testing.T) {
	type pair struct{ old, new string }
	for name, tc := range map[string]struct {
		text string // shop when empty
		edit func(f *File) error
		want []pair
	}{
		"a list is changed element by element": {
			edit: func(f *File) error { return f.Put(value(t, []string{"carme"}), under("active_hosts")...) },
			want: []pair{{`["atlas", "borea"] // in`, `["carme"] // in`}},
		},
		"a list grows": {
			edit: func(f *File) error {
				return f.Put(value(t, []string{"atlas", "borea", "carme"}), under("active_hosts")...)
			},
			want: []pair{{`["atlas", "borea"]`, `["atlas", "borea", "carme"]`}},
		},
		"a struct without braces gets them": {
			edit: func(f *File) error { return f.Put(value(t, struct{}{}), under("consumers", "batch-job")...) },
			want: []pair{{"\tconsumers: web: capabilities: [\"order\"]\n", "\tconsumers: {\n\t\tweb: capabilities: [\"order\"]\n\t\t\"batch-job\": {}\n\t}\n"}},
		},
		"a struct in braces grows at its end": {
			edit: func(f *File) error {
				return f.Put(value(t, "http://127.0.0.1:9"), under("endpoints", "delos", "url")...)
			},
			want: []pair{{"\t\tcarme: url: \"http://127.0.0.1:8080\"\n", "\t\tcarme: url: \"http://127.0.0.1:8080\"\n\t\tdelos: url: \"http://127.0.0.1:9\"\n"}},
		},
		"a struct on one line stays on it": {
			edit: func(f *File) error { return f.Put(value(t, 4), under("check", "rise")...) },
			want: []pair{{`interval: "5s"}`, `interval: "5s", rise: 4}`}},
		},
		"a field goes with its comments": {
			edit: func(f *File) error {
				return errors.Join(f.Delete(under("endpoints", "carme")...), f.Delete(under("endpoints", "borea")...))
			},
			want: []pair{{"\t\tborea: url: \"http://127.0.0.1:8080\" // the slow one\n\t\t// carme is new.\n\t\tcarme: url: \"http://127.0.0.1:8080\"\n", ""}},
		},
		"a field goes from the middle of a line": {
			edit: func(f *File) error { return f.Delete(under("check", "path")...) },
			want: []pair{{`path: "/healthz", `, ``}},
		},
		"a field goes from the end of a line": {
			edit: func(f *File) error { return f.Delete(under("check", "interval")...) },
			want: []pair{{`, interval: "5s"}`, `}`}},
		},
		"the only field of a chain takes the chain along": {
			edit: func(f *File) error { return f.Delete(under("consumers", "web")...) },
			want: []pair{{"\tconsumers: web: capabilities: [\"order\"]\n", ""}},
		},
		"a value that is there already changes nothing": {
			edit: func(f *File) error {
				return f.Put(value(t, map[string]string{"path": "/healthz", "interval": "5s", "kind": "http"}), under("check")...)
			},
		},
		"of a struct only what differs changes": {
			edit: func(f *File) error {
				return f.Put(value(t, map[string]any{"atlas": map[string]string{"url": "http://127.0.0.1:1"}, "carme": map[string]string{"url": "http://127.0.0.1:8080"}}), under("endpoints")...)
			},
			want: []pair{{"atlas: url: \"http://127.0.0.1:8080\"", "atlas: url: \"http://127.0.0.1:1\""}, {"\t\tborea: url: \"http://127.0.0.1:8080\" // the slow one\n", ""}},
		},
		"alignment follows when the file was formatted": {
			text: "package fleet\n\nregistry: hosts: a: {\n\tzone:   \"x\" // z\n\tregion: \"eu\"\n}\n",
			edit: func(f *File) error { return f.Put(value(t, "u"), "registry", "hosts", "a", "claim_key") },
			want: []pair{{"\tzone:   \"x\" // z\n\tregion: \"eu\"\n", "\tzone:      \"x\" // z\n\tregion:    \"eu\"\n\tclaim_key: \"u\"\n"}},
		},
		"a file that was not formatted is left as it is": {
			text: "package fleet\nregistry:   hosts: a: { zone :\"x\"\n  // own\n  region:\"eu\" }\n",
			edit: func(f *File) error { return f.Put(value(t, "us"), "registry", "hosts", "a", "region") },
			want: []pair{{`"eu"`, `"us"`}},
		},
		"the literal part of a template's use is edited": {
			text: "package fleet\n\nregistry: hosts: a: service_resolver: _resolver & {\n\tadapters: [\n\t\t// one\n\t\t{service: \"s\", consumer: \"c\", bind: \"127.0.0.1:1\"},\n\t]\n}\n",
			edit: func(f *File) error {
				return f.Put(value(t, []any{
					map[string]string{"service": "s", "consumer": "c", "bind": "127.0.0.1:2"}, map[string]string{"service": "t"},
				}), "registry", "hosts", "a", "service_resolver", "adapters")
			},
			want: []pair{{"127.0.0.1:1\"},\n", "127.0.0.1:2\"},\n\t\t{service: \"t\"},\n"}},
		},
		"elements on lines of their own go with their lines": {
			text: "package fleet\n\nregistry: x: [\n\t\"a\", // first\n\t\"b\", // second\n]\n",
			edit: func(f *File) error { return f.Put(value(t, []string{"a"}), "registry", "x") },
			want: []pair{{"\t\"b\", // second\n", ""}},
		},
		"an empty list is filled": {
			text: "package fleet\n\nregistry: x: []\n",
			edit: func(f *File) error { return f.Put(value(t, []int{7}), "registry", "x") },
			want: []pair{{"[]", "[7]"}},
		},
		"an empty struct is filled": {
			text: "package fleet\n\nregistry: x: {}\n",
			edit: func(f *File) error { return f.Put(value(t, true), "registry", "x", "y-z") },
			want: []pair{{"{}", "{\n\t\"y-z\": true\n}"}},
		},
		"a field goes before an ellipsis": {
			text: "package fleet\n\n_x: {\n\ta: 1\n\t...\n}\nregistry: {\n\ta: 1\n\t...\n}\n",
			edit: func(f *File) error { return f.Put(value(t, 2), "registry", "b") },
			want: []pair{{"registry: {\n\ta: 1\n", "registry: {\n\ta: 1\n\tb: 2\n"}},
		},
		"a text over several lines keeps its value": {
			text: "package fleet\n\nregistry: x: y: \"\"\"\n\ttwo\n\tlines\n\t\"\"\"\n",
			edit: func(f *File) error { return f.Put(value(t, 1), "registry", "x", "z") },
			want: []pair{{"y: \"\"\"\n\ttwo\n\tlines\n\t\"\"\"\n", "{\n\ty: \"\"\"\n\t\ttwo\n\t\tlines\n\t\t\"\"\"\n\tz: 1\n}\n"}},
		},
		"what the file does not begin is added at its end": {
			text: "package fleet // no newline",
			edit: func(f *File) error { return f.Put(value(t, map[string]any{"zone": "x"}), "registry", "hosts", "a") },
			want: []pair{{"newline", "newline\n\nregistry: hosts: a: zone: \"x\"\n"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := tc.text
			if text == "" {
				text = shop
			}
			f := open(t, text)
			if err := tc.edit(f); err != nil {
				t.Fatal(err)
			}
			want := text
			for _, p := range tc.want {
				if strings.Count(want, p.old) != 1 {
					t.Fatalf("the case is wrong: %q is not there once", p.old)
				}
				want = strings.Replace(want, p.old, p.new, 1)
			}
			if diff := cmp.Diff(want, string(f.Bytes())); diff != "" {
				t.Errorf("want - got +:\n%s", diff)
			}
		})
	}
}

// TestRefusals names the line where a value is computed, and leaves the file as it is.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct{ text, path, want string }{
		"a reference": {
			"package fleet\n\nregistry: a: b: _x\n_x: 1\n", "a b",
			"services/shop.cue:3: registry.a.b is computed here, not written as a value, so no program changes it (edit it by hand)",
		},
		"a reference on the way":  {"package fleet\n\nregistry: a: _x\n_x: {}\n", "a b", "services/shop.cue:3: registry.a.b is computed here"},
		"a default":               {"package fleet\nregistry: a: *1 | int\n", "a", "services/shop.cue:2: registry.a is computed here"},
		"an interpolation":        {"package fleet\n_n: 1\nregistry: a: \"\\(_n)\"\n", "a", "services/shop.cue:3: registry.a is computed here"},
		"a list that is computed": {"package fleet\nregistry: a: [for x in _l {x}]\n_l: []\n", "a", "services/shop.cue:2: registry.a is computed here"},
		"two places":              {"package fleet\nregistry: a: 1\nregistry: a: 1\n", "a", "registry.a is set in 2 places (services/shop.cue:2, services/shop.cue:3)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, tc.text)
			err := f.Put(value(t, 7), append([]string{"registry"}, strings.Fields(tc.path)...)...)
			var refused *Error
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if got := string(f.Bytes()); got != tc.text {
				t.Errorf("the file changed:\n%s", got)
			}
		})
	}
	f := open(t, shop)
	if err := f.Delete(under("selector")...); err == nil || !strings.Contains(err.Error(), "is not written in this file") {
		t.Errorf("deleting what is not there: %v", err)
	}
}

func TestEmpty(t *testing.T) {
	for text, want := range map[string]bool{"": true, "// c\n\npackage fleet\n\nimport \"strings\"\n": true, "package fleet\nregistry: {}\n": false, "x: 1\n": false, "_x: 1\n": false} {
		if got := open(t, text).Empty(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestBadText(t *testing.T) {
	for name, text := range map[string]string{
		"syntax": "package fleet\nregistry: {\n", "nesting": "package fleet\nx: " + strings.Repeat("[", 100_000),
		"labels": "package fleet\n" + strings.Repeat("a: ", 100_000), "utf8": "package fleet\n// \xff\n", "bracket": "package fleet\n}\n",
		"merge": "package fleet\n<<<<<<< ours\n", "size": "package fleet\n//" + strings.Repeat("x", 300<<10),
	} {
		if _, err := Open("a.cue", []byte(text)); err == nil || !strings.Contains(err.Error(), "STADO-") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadData(t *testing.T) {
	want := `{"a":{"b":[1,true,null,"x"]},"c":-2.5}`
	for name, text := range map[string]string{
		"json": `{"a": {"b": [1, true, null, "x"]}, "c": -2.5}`, "cue": "package p\n// c\na: b: [1, true, null, \"x\"]\nc: -2.5\n",
	} {
		v, err := ReadData(name, []byte(text))
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := v.JSON()
		if err != nil || string(got) != want {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
	for text, want := range map[string]string{
		"{\"a\": 1,\n\"a\": 2}": `f:2: field "a" is written twice, first in line 1`,
		"a: 1\nb: a\n":          "f:2: the file computes a value here",
		"a: 1\na: 2\n":          `f:2: field "a" is written twice`,
		"a?: 1\n":               "f:1: the file computes",
		"a: 'x'\n":              "f:1: the file computes",
		"#a: 1\n":               "f:1: the file computes",
		"import \"strings\"\n":  "f:1: the file computes",
		"{\"a\": \n":            "STADO-",
		strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100): "nests more than 64 deep",
	} {
		if _, err := ReadData("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	v, err := ReadJSON("f", []byte("{\n \"a\": {\n  \"b\": [\n 1,\n 2]}}"))
	if err != nil {
		t.Fatal(err)
	}
	b, ok := v.At("a", "b")
	if items, isList := b.Data.([]Value); !ok || !isList || items[1].Line != 5 || items[1].Data != json.Number("2") || b.Line != 3 {
		t.Errorf("%+v", b)
	}
}
