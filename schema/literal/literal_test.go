package literal_test

import (
	"encoding/json"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/parser"

	"stado.internal/stado/schema/literal"
)

// TestAccept judges data by small schemas. want is "" where the evaluator has to be asked; where it is not, the evaluator is asked whether
// that is true.
func TestAccept(t *testing.T) {
	tests := []struct{ name, schema, data, want string }{
		{"scalars", `{s!: string, n!: int, b!: bool, z!: null}`, `{s: "a", n: 3, b: true, z: null}`, `{"b":true,"n":3,"s":"a","z":null}`},
		{"a wrong kind", `{n!: int}`, `{n: "3"}`, ""},
		{"a missing field", `{n!: int}`, `{}`, ""},
		{"an unknown field", `{n?: int}`, `{m: 3}`, ""},
		{"optional", `{n?: int}`, `{}`, `{}`},
		{"a field twice", `{n?: int}`, `{n: 3, n: 3}`, ""},
		{"a default", `{p: *"http" | "tcp"}`, `{}`, `{"p":"http"}`},
		{"not the default", `{p: *"http" | "tcp" | error("p")}`, `{p: "tcp"}`, `{"p":"tcp"}`},
		{"none of them", `{p: *"http" | "tcp" | error("p")}`, `{p: "udp"}`, ""},
		{"two defaults", `{p: *"http" | *"tcp"}`, `{}`, ""},
		{"a struct of defaults", `{p: {q: *1 | 2}}`, `{}`, `{"p":{"q":1}}`},
		{"no default", `{p: int}`, `{}`, ""},
		{"a named pattern", `{p!: =~_a}`, `{p: "ab"}`, `{"p":"ab"}`},
		{"a pattern that does not match", `{p!: =~"^a"}`, `{p: "ba"}`, ""},
		{"not a pattern", `{p!: !~"^a"}`, `{p: "ba"}`, `{"p":"ba"}`},
		{"bounds", `{p!: int & >=1 & <=3}`, `{p: 3}`, `{"p":3}`},
		{"out of bounds", `{p!: int & >=1 & <3}`, `{p: 3}`, ""},
		{"a bound by a sibling", `{p!: int, q!: int & >p}`, `{p: 3, q: 4}`, `{"p":3,"q":4}`},
		{"a broken bound by a sibling", `{p!: int, q!: int & >p}`, `{p: 3, q: 3}`, ""},
		{"never", `{p?: (null & int) | error("gone")}`, `{p: null}`, ""},
		{"never, and not given", `{p?: (null & int) | error("gone")}`, `{}`, `{}`},
		{"a map", `{[=~"^[a-z]+$"]: int, [!~"^[a-z]+$"]: error("name")}`, `{a: 1, b: 2}`, `{"a":1,"b":2}`},
		{"a bad name in a map", `{[=~"^[a-z]+$"]: int, [!~"^[a-z]+$"]: error("name")}`, `{A: 1}`, ""},
		{"too few fields", "{struct.MinFields(1), [=~\"^a\"]: int}", `{}`, ""},
		{"enough fields", "{struct.MinFields(1), [=~\"^a\"]: int}", `{a: 1}`, `{"a":1}`},
		{"a list", `{l!: [...int]}`, `{l: [1, 2]}`, `{"l":[1,2]}`},
		{"a list that is too short", `{l!: [int, ...int]}`, `{l: []}`, ""},
		{"a list of fixed length", `{l!: [int, string]}`, `{l: [1, "a"]}`, `{"l":[1,"a"]}`},
		{"a list that is too long", `{l!: [int]}`, `{l: [1, 2]}`, ""},
		{"a condition that does not hold", `{k!: string, c?: string, if k == "x" {c!: _}}`, `{k: "y"}`, `{"k":"y"}`},
		{"a condition that holds", `{k!: string, c?: string, if k == "x" {c!: _}}`, `{k: "x", c: "c"}`, ""},
		{"a condition on what is there", `{a?: int, b?: int, if a != _|_ if b != _|_ {error("both")}}`, `{a: 1}`, `{"a":1}`},
		{"a condition on what is not there", `{a?: int, b?: int, if a == _|_ if b == _|_ {error("none")}}`, `{}`, ""},
		{"distinct", `{a!: string, l?: [...{b!: string}], _k: {(a): "a", if l != _|_ for i, x in l {(x.b): "l[\(i)] \(x.b)"}}}`, `{a: "1", l: [{b: "2"}, {b: "3"}]}`, `{"a":"1","l":[{"b":"2"},{"b":"3"}]}`},
		{"not distinct", `{a!: string, l?: [...{b!: string}], _k: {(a): "a", if l != _|_ for i, x in l {(x.b): "l[\(i)]"}}}`, `{a: "1", l: [{b: "1"}]}`, ""},
		{"nothing to be distinct from", `{a!: string, l?: [...{b!: string}], _k: {(a): "a", if l != _|_ for i, x in l {(x.b): "l[\(i)]"}}}`, `{a: "1"}`, `{"a":"1"}`},
		{"a text that lacks a part", `{a!: string, c?: string, _k: {(a): "a \(c)"}}`, `{a: "1"}`, ""},
		{"a schema that reads elsewhere", `{a!: string, b!: a}`, `{a: "1", b: "1"}`, ""},
		{"a schema of structs to choose from", `{a!: {b!: 1} | {c!: 1}}`, `{a: b: 1}`, ""},
		{"an open schema", `{a!: int, ...}`, `{a: 1}`, ""},
		{"an alias in the schema", `{X=a!: int}`, `{a: 1}`, ""},
		{"a let in the schema", "{let y = 1\n a!: y}", `{a: 1}`, ""},
		{"escapes", `{s!: string}`, `{s: "a\n\u2028<é\\"}`, "{\"s\":\"a\\n\\u2028<é\\\\\"}"},
		{"bytes", `{s!: bytes}`, `{s: 'a'}`, ""},
		{"a number with a fraction", `{n!: number}`, `{n: 1.0}`, ""},
		{"a number with a multiplier", `{n!: int}`, `{n: 1K}`, ""},
		{"an expression", `{n!: int}`, `{n: 1 + 1}`, ""},
		{"a negative number", `{n!: int}`, `{n: -1}`, ""},
		{"quoted names", `{n!: int}`, `{"n": 1}`, `{"n":1}`},
		{"a hidden field", `{n!: int}`, `{n: 1, _n: 1}`, ""},
		{"a constraint in data", `{n?: int}`, `{n?: 1}`, ""},
		{"a list in a map", `{m?: [=~"a"]: l?: [...{v: *1 | int}]}`, `{m: a: l: [{}, {v: 2}]}`, `{"m":{"a":{"l":[{"v":1},{"v":2}]}}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := "import \"struct\"\n_use: struct.MinFields(0)\n_a: \"^a\"\n#Root: at!: " + test.schema + "\n"
			schema, err := parser.ParseFile("schema.cue", text)
			if err != nil {
				t.Fatal(err)
			}
			data, err := parser.ParseExpr("data.cue", test.data)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := literal.New([]*ast.File{schema}, "#Root").Accept([]string{"at"}, data)
			if ok != (test.want != "") || string(got) != test.want {
				t.Fatalf("got %s, %t; want %q", got, ok, test.want)
			}
			if ok {
				agree(t, text, test.data, got)
			}
		})
	}
}

// agree asks the evaluator.
func agree(t *testing.T, schema, data string, got []byte) {
	t.Helper()
	v := cuecontext.New().CompileString(schema + "root: #Root\nroot: at: " + data + "\n").LookupPath(cue.ParsePath("root.at"))
	if err := v.Validate(cue.Concrete(true), cue.Hidden(true)); err != nil {
		t.Fatalf("accepted, and the evaluator refuses: %v", err)
	}
	raw, err := v.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &b); err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(a)
	if y, _ := json.Marshal(b); string(x) != string(y) {
		t.Fatalf("got %s, the evaluator has %s", y, x)
	}
}
