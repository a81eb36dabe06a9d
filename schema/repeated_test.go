package schema

import (
	"fmt"
	"strings"
	"testing"
)

// TestRepeated refuses what one file says twice, with both places, whether the file is read as data or evaluated.
func TestRepeated(t *testing.T) {
	host := func(body string) []File {
		return []File{cueFile("hosts/a1.cue", "registry: hosts: a1: {\n"+body+"\n}\n")}
	}
	for name, tc := range map[string]struct {
		files []File
		want  string // positions of both; empty when it is admitted, "-" for what the evaluator refuses
	}{
		"in one literal":      {host("zone: \"x\"\nzone: \"x\""), "4:1 hosts/a1.cue:3:1"},
		"quoted":              {host("zone: \"x\"\n\"zone\": #\"x\"#"), "4:1 hosts/a1.cue:3:1"},
		"evaluated":           {append(host("zone: \"x\"\nzone: \"x\"\nregion: _r"), cueFile("r.cue", "_r: \"r\"")), "4:1 hosts/a1.cue:3:1"},
		"lists":               {host("hostnames: [\"a\", \"b\"]\nhostnames: [\"a\", \"b\"]"), "4:1 hosts/a1.cue:3:1"},
		"in two parts":        {host("labels: x: \"1\"\nlabels: {y: \"2\", x: \"1\"}"), "4:18 hosts/a1.cue:3:9"},
		"parts":               {host("labels: x: \"1\"\nlabels: y: \"2\""), ""},
		"template and a part": {append(host("labels: _t\nlabels: x: \"1\""), cueFile("t.cue", "_t: x: \"1\"")), ""},
		"types":               {host("zone: string\nzone: \"x\""), ""},
		"hidden":              {host("_z: \"x\"\n_z: \"x\"\nzone: _z"), ""},
		"a conflict":          {host("zone: \"x\"\nzone: \"y\""), "-"},
		"two kinds":           {host("zone: \"x\"\nzone: 1"), "-"},
		"the generation":      {[]File{cueFile(GenerationFile, "registry: service_directory: generation: 42\nregistry: service_directory: generation: 42\n")}, "3:30 generation.cue:2:30"},
		"the same number":     {[]File{cueFile(GenerationFile, "registry: service_directory: {generation: 1_000, generation: 0x3e8}\n")}, "2:50 generation.cue:2:31"},
		"two generations":     {[]File{cueFile(GenerationFile, "registry: service_directory: {generation: 42, generation: 43}\n")}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Compile(withBase(tc.files), Options{})
			if (got.Document != nil) != (tc.want == "") {
				t.Fatalf("findings: %v", got.Findings)
			}
			twice := strings.Contains(fmt.Sprint(got.Findings), RuleRepeated)
			if twice != (len(tc.want) > 1) {
				t.Fatalf("findings: %v", got.Findings)
			}
			if !twice {
				return
			}
			at, first, _ := strings.Cut(tc.want, " ")
			f := got.Findings[0]
			if len(got.Findings) != 1 || f.Position() != tc.files[0].Path+":"+at || !strings.HasSuffix(f.Message, " is set twice, here and at "+first) {
				t.Errorf("%v", got.Findings)
			}
			if _, ok := NewChanges().Of(withoutRepeat(tc.files[0]), tc.files[0]); ok {
				t.Error("the change of one file alone is admitted")
			}
		})
	}
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "registry: hosts: a1: labels: l%d: \"x\"\n", i)
	}
	many.WriteString("registry: hosts: a1: labels: l7: \"x\"\n")
	got := Compile(withBase([]File{cueFile("hosts/a1.cue", many.String())}), Options{})
	if len(got.Findings) != 1 || got.Findings[0].Rule != RuleRepeated || got.Findings[0].Line != 3002 {
		t.Errorf("of many parts: %v", got.Findings)
	}
}

// withoutRepeat is a file with its last line but one gone.
func withoutRepeat(f File) File {
	lines := strings.SplitAfter(string(f.Data), "\n")
	return File{f.Path, []byte(strings.Join(append(lines[:2:2], lines[3:]...), ""))}
}
