package schema

import "testing"

// TestCycle names the place of a value that holds itself, in a template as in the registry, of which the evaluator names none.
func TestCycle(t *testing.T) {
	for text, want := range map[string]string{
		"#A: {n: #A}\n":                                  "t.cue:2:6",
		"#A: n: #B\n#B: m: #A\n":                         "t.cue:3:5",
		"\"x-y\": {}\n_a: k: {\n\tn: _a\n}\n":            "t.cue:4:2",
		"#A: {n: #A}\nregistry: hosts: x: #A\n":          "t.cue:2:6",
		"registry: hosts: x: {n: registry.hosts.x}\n":    "t.cue:2:18",
		"_a: {zone: _a}\nregistry: hosts: \"x.y\": _a\n": "t.cue:2:6",
	} {
		found := false
		got := Compile(withBase([]File{cueFile("t.cue", text)}), Options{})
		for _, f := range got.Findings {
			if f.File == "" || f.Line == 0 || f.Path == "" && f.Rule == RuleValue {
				t.Errorf("%q: nowhere: %+v", text, f)
			}
			found = found || f.Message == "structural cycle" && f.Position() == want
		}
		if !found {
			t.Errorf("%q: no cycle at %s: %v", text, want, got.Findings)
		}
	}
}
