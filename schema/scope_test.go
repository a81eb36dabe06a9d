package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wrapped is a struct that gives inner under a label, in one of the ways that CUE has for it. n makes names unique.
func wrapped(t *rapid.T, label, inner string, n *int) (decl string, plain bool) {
	*n++
	forms := []struct {
		text  string
		plain bool // a form in which owners may be told apart
	}{
		{"L: {I}", true},
		{`"L": {I}`, true},
		{"L: {I} & {...}", true},
		{"L: ({I})", true},
		{"L: {{I}}", true},
		{"{L: {I}}", true},
		{"if true {L: {I}}", true},
		{"L?: {I}", true},
		{`[=~"^L"]: {I}`, false},
		{`("" + "L"): {I}`, false},
		{`"\("L")": {I}`, false},
		{`for k in ["L"] {(k): {I}}`, false},
		{"let T# = {I}\nL: T#", false},
		{"_t#: {I}\nL: _t#", false},
		{"L: {I} | {never!: 1}", false},
		{"L: close({I, ...})", false},
		{`L: [{I}][0]`, false},
		{"L: [string]: _\nL: {I}", false},
	}
	f := rapid.SampledFrom(forms).Draw(t, "form")
	r := strings.NewReplacer("L", label, "I", inner, "#", fmt.Sprint(*n))
	return r.Replace(f.text), f.plain
}

// without is a document without one service.
func without(t *rapid.T, document []byte, service string) []byte {
	tree, err := decodeTree(document)
	if err != nil {
		t.Fatal(err)
	}
	delete(tree.(map[string]any)["service_directory"].(map[string]any)["services"].(map[string]any), service)
	out, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestScopeSeesEveryReach writes something into the file of service a, in every form that CUE has. Whatever changes more than service a,
// or keeps the registry from compiling, is unowned; and what is written plainly about service a is not.
func TestScopeSeesEveryReach(t *testing.T) {
	service := func(name string) string {
		return "registry: service_directory: services: " + name + ": {active_hosts: [\"h\"], endpoints: h: url: \"http://127.0.0.1:1\", consumers: web: {}}\n"
	}
	base := func(more string) Compiled {
		return Compile(withBase([]File{
			cueFile("hosts/h.cue", "registry: hosts: h: zone: \"z\"\n"),
			cueFile("services/a.cue", service("a")+more),
			cueFile("services/b.cue", service("b")),
			cueFile("shared.cue", "_base: {selector?: string, ...}\n"),
		}), Options{})
	}
	before := base("")
	if before.Document == nil || len(before.Unowned) > 0 {
		t.Fatalf("%v, %v", before.Findings, before.Unowned)
	}
	reached, missed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var labels []string
		switch target := rapid.SampledFrom([]string{"a", "b", "h", "generation", "template"}).Draw(t, "target"); target {
		case "h":
			labels = []string{"registry", "hosts", "h"}
		case "generation":
			labels = []string{"registry", "service_directory"}
		case "template":
			labels = []string{"_base"}
		default:
			labels = []string{"registry", "service_directory", "services", target}
		}
		text := map[string]string{"h": `region: "eu"`, "service_directory": "generation: >41", "_base": `selector: "x"`}[labels[len(labels)-1]]
		if text == "" {
			text = `selector: "x"`
		}
		plain, n := labels[len(labels)-1] == "a", 0
		for i := len(labels) - 1; i >= 0; i-- {
			if rapid.IntRange(0, 3).Draw(t, "plainly") > 0 || strings.HasPrefix(labels[i], "_") {
				text = labels[i] + ": {" + text + "}"
				continue
			}
			decl, seen := wrapped(t, labels[i], text, &n)
			text, plain = decl, plain && seen
		}
		after := base(text + "\n")
		switch {
		case plain && (after.Document == nil || len(after.Unowned) > 0):
			t.Fatalf("%s\nis plainly about service a: %v, %+v", text, after.Findings, after.Unowned)
		case len(after.Unowned) > 0:
			reached++
		case after.Document == nil:
			t.Fatalf("%s\nkeeps the registry from compiling and is not unowned: %v", text, after.Findings)
		case !bytes.Equal(without(t, before.Document, "a"), without(t, after.Document, "a")):
			t.Fatalf("%s\nchanges more than service a and is not unowned", text)
		default:
			missed++
		}
	})
	if reached == 0 || missed == 0 {
		t.Errorf("%d unowned, %d owned: one of them was never drawn", reached, missed)
	}
}
