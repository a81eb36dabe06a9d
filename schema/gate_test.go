package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
)

func cueFile(path, text string) File { return File{path, []byte("package fleet\n" + text)} }

// TestGates refuses what is not to be parsed or evaluated, each thing by its rule and in its file.
func TestGates(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	tests := []struct {
		name  string
		files []File
		rule  string
		file  string
	}{
		{"file size", []File{{"a.cue", make([]byte, maxFileBytes+1)}}, RuleFileSize, "a.cue"},
		{"total size", fill(maxTotalBytes/maxFileBytes+1, maxFileBytes), RuleTotalSize, ""},
		{"count", make([]File, maxFiles+1), RuleFileCount, ""},
		{"absolute", []File{cueFile("/etc/a.cue", "")}, RulePath, "/etc/a.cue"},
		{"parent", []File{cueFile("../a.cue", "")}, RulePath, "../a.cue"},
		{"parent inside", []File{cueFile("hosts/../a.cue", "")}, RulePath, "hosts/../a.cue"},
		{"empty component", []File{cueFile("hosts//a.cue", "")}, RulePath, "hosts//a.cue"},
		{"control character", []File{cueFile("hosts/a\n.cue", "")}, RulePath, `hosts/a\n.cue`},
		{"backslash", []File{cueFile(`hosts\a.cue`, "")}, RulePath, `hosts\\a.cue`},
		{"long name", []File{cueFile(strings.Repeat("a", 125)+".cue", "")}, RulePath, strings.Repeat("a", 125) + ".cue"},
		{"deep path", []File{cueFile(strings.Repeat("a/", 16)+"a.cue", "")}, RulePath, strings.Repeat("a/", 16) + "a.cue"},
		{"twice", []File{cueFile("a.cue", ""), cueFile("a.cue", "")}, RulePath, "a.cue"},
		{"case", []File{cueFile("hosts/A1.cue", ""), cueFile("hosts/a1.cue", "")}, RuleCaseFold, "hosts/a1.cue"},
		{"case of a directory", []File{cueFile("Hosts/a1.cue", ""), cueFile("hosts/a2.cue", "")}, RuleCaseFold, "hosts/a2.cue"},
		{"local module", []File{cueFile("cue.mod/local-module.cue", "")}, RuleModule, "cue.mod/local-module.cue"},
		{"UTF-8", []File{cueFile("a.cue", "// \xff")}, RuleNotText, "a.cue"},
		{"label chain", []File{cueFile("a.cue", strings.Repeat("a: ", 100_000/2)+"1")}, RuleDepth, "a.cue"},
		{"parentheses", []File{cueFile("a.cue", "a: "+strings.Repeat("(", 5000)+"1"+strings.Repeat(")", 5000))}, RuleDepth, "a.cue"},
		{"braces", []File{cueFile("a.cue", "a: "+strings.Repeat("{", 5000)+strings.Repeat("}", 5000))}, RuleDepth, "a.cue"},
		{"brackets", []File{cueFile("a.cue", "a: "+strings.Repeat("[", 5000)+strings.Repeat("]", 5000))}, RuleDepth, "a.cue"},
		{"many brackets", []File{cueFile("a.cue", "a: "+strings.Repeat("[", 120_000))}, RuleDepth, "a.cue"},
		{"longest label chain", []File{cueFile("a.cue", strings.Repeat("a:", 120_000)+"1")}, RuleDepth, "a.cue"},
		{"label chain over lines", []File{cueFile("a.cue", strings.Repeat("a:\n", 60_000)+"1")}, RuleDepth, "a.cue"},
		{"label chain in an interpolation", []File{cueFile("a.cue", `a: "x\({`+strings.Repeat("a:", 60_000)+`1})"`)}, RuleDepth, "a.cue"},
		{"label chain after a mistake", []File{cueFile("a.cue", "a: (]\n"+strings.Repeat("a:", 60_000)+"1")}, RuleSyntax, "a.cue"},
		{"unary operators", []File{cueFile("a.cue", "a: "+strings.Repeat("!", 200_000)+"true")}, RuleSyntax, "a.cue"},
		{"nodes", []File{cueFile("a.cue", "a: ["+many(4000, "[%d,1,2,3,4,5,6,7,8,9,10,11,12],")+"]")}, RuleNodes, "a.cue"},
		{"fields", []File{cueFile("a.cue", "a: {"+many(maxFields+1, "a%d: 1\n")+"}")}, RuleFields, "a.cue"},
		{"elements", []File{cueFile("a.cue", "a: ["+many(maxFields+1, "%d,")+"]")}, RuleFields, "a.cue"},
		{"top-level fields", []File{cueFile("a.cue", many(maxFields+1, "a%d: 1\n"))}, RuleFields, "a.cue"},
		{"network import", []File{cueFile("a.cue", "import \"example.com/x\"\n_x: x")}, RuleImport, "a.cue"},
		{"import of a part of the schema", []File{cueFile("a.cue", "import \"stado.internal/schema/x\"\n_x: x")}, RuleImport, "a.cue"},
		{"attribute in a declaration", []File{cueFile("a.cue", "a: {@experiment(x)}")}, RuleAttribute, "a.cue"},
		{"ignored file", []File{{"a.cue", []byte("@ignore()\n\npackage fleet\n")}}, RuleAttribute, "a.cue"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := Compile(test.files, Options{})
			if got.Document != nil {
				t.Fatal("the registry compiles")
			}
			for _, f := range got.Findings {
				if f.Rule == test.rule && f.File == test.file {
					return
				}
			}
			t.Errorf("no finding of %s in %q: %v", test.rule, test.file, got.Findings)
		})
	}
}

func fill(n, size int) []File {
	data := make([]byte, size)
	out := make([]File, n)
	for i := range out {
		out[i] = File{fmt.Sprintf("f%d.cue", i), data}
	}
	return out
}

// TestSkippedFiles leaves out what the cue command leaves out, whatever is in it.
func TestSkippedFiles(t *testing.T) {
	files := withBase(nil)
	for _, p := range []string{
		"README.md", "_draft.cue", ".hidden.cue", ".github/x.cue", "_old/x.cue", "a_tool.cue", "a_test.cue",
		"policies/own.cue", "policies/deep/own.cue", "cue.mod/pkg/example.net/x.cue", "hosts/a.cue.orig",
	} {
		files = append(files, File{p, []byte("@embed(nothing that is CUE")})
	}
	got := Compile(files, Options{})
	if got.Document == nil || len(got.Findings) > 0 {
		t.Fatalf("findings: %v", got.Findings)
	}
	if want := `{"service_directory":{"generation":42}}`; string(got.Document) != want {
		t.Errorf("got %s, want %s", got.Document, want)
	}
}

// TestSkippedEntries warns of files that look like a host or a service and that nobody reads, with the name that would be read.
func TestSkippedEntries(t *testing.T) {
	files := withBase(nil)
	for _, p := range []string{"hosts/b_test.cue", "hosts/fra/_b.cue", "services/.b.cue", "services/_b_tool.cue", "hosts/b_test.entry.cue"} {
		files = append(files, cueFile(p, "registry: hosts: b_test: {}"))
	}
	got := Compile(files, Options{})
	if got.Document == nil || !strings.Contains(string(got.Document), `"b_test"`) {
		t.Fatalf("%s, findings %v", got.Document, got.Findings)
	}
	want := map[string]string{
		"hosts/b_test.cue": "hosts/b_test.entry.cue", "hosts/fra/_b.cue": "hosts/fra/b.cue", "services/.b.cue": "services/b.cue",
		"services/_b_tool.cue": "services/b_tool.entry.cue",
	}
	for _, f := range got.Findings {
		name, ok := want[f.File]
		if delete(want, f.File); !ok || f.Rule != RuleSkipped || f.Severity != fleet.SeverityWarning || !strings.HasPrefix(f.Hint, "rename it to "+name+", ") {
			t.Errorf("%+v", f)
		}
	}
	if len(want) > 0 {
		t.Errorf("no warning of %v", want)
	}
}

// TestLimitOfFindings lists a hundred findings and counts the rest.
func TestLimitOfFindings(t *testing.T) {
	files := withBase(nil)
	for i := range 130 {
		files = append(files, cueFile(fmt.Sprintf("hosts/h%03d.cue", i), fmt.Sprintf("registry: hosts: h%03d: bogus: 1\n", i)))
	}
	files = append(files, cueFile("a.cue", "outside: 1\n"))
	got := Compile(files, Options{}).Findings
	if len(got) != MaxFindings+1 {
		t.Fatalf("%d findings", len(got))
	}
	last := got[len(got)-1]
	if last.Rule != RuleMoreResults || last.Message != "31 more findings are not listed" || last.Severity != fleet.SeverityError {
		t.Errorf("the last finding is %+v", last)
	}
	if got[0].File != "hosts/h000.cue" {
		t.Errorf("the first finding is %+v: a warning stands before errors that are not listed", got[0])
	}
}

// TestTokenDepthFollowsStrings accepts brackets and colons inside strings and interpolations, however many there are.
func TestTokenDepthFollowsStrings(t *testing.T) {
	text := "_a: \"" + strings.Repeat("(:[{", 5000) + "\"\n" +
		"_b: \"" + strings.Repeat(`\(_a):([`, 600) + "\"\n" +
		"_c: #\"\"\"\n\t" + strings.Repeat(`\#(_a) }])`, 600) + "\n\t\"\"\"#\n" +
		"_d: [" + strings.Repeat("{a: b: 1}, ", 2000) + "]\n" +
		strings.Repeat("_e: f: 1\n", 2000) + "// " + strings.Repeat(":[", 5000) + "\n"
	if _, unbalanced, refused := gateTokens(cueFile("a.cue", text)); unbalanced != nil || refused != nil {
		t.Errorf("unbalanced %v, refused %v", unbalanced, refused)
	}
}

// TestLimitIsRepeatable limits what was limited before, alone and with others, without losing count.
func TestLimitIsRepeatable(t *testing.T) {
	var all fleet.Findings
	for i := range 130 {
		all = append(all, fleet.Finding{Rule: RuleValue, Severity: fleet.SeverityWarning, File: fmt.Sprintf("f%03d", i)})
	}
	once := Limit(all)
	if twice := Limit(once); !slices.Equal(once, twice) || once[MaxFindings].Severity != fleet.SeverityWarning {
		t.Errorf("once %v, twice %v", once[MaxFindings], twice[len(twice)-1])
	}
	more := Limit(append(slices.Clone(once), fleet.Finding{Rule: RuleUnknown, Severity: fleet.SeverityError, File: "z"}))
	if len(more) != MaxFindings+1 || more[MaxFindings].Message != sayMore(31) || more[MaxFindings-1].File != "z" {
		t.Errorf("%d findings, the last %v", len(more), more[len(more)-1])
	}
}

// TestFindingsAreShortLines evaluates text of ten megabytes, with line ends and codes for a terminal, that becomes the message of a finding.
func TestFindingsAreShortLines(t *testing.T) {
	var text strings.Builder
	text.WriteString("_a: \"" + strings.Repeat(`boom\nstado resolver serves\u001b[2J `, 30) + "\"\n")
	last := "_a"
	for _, next := range []string{"_b", "_c", "_d", "_e"} {
		text.WriteString(next + `: "` + strings.Repeat(`\(`+last+`)`, 10) + "\"\n")
		last = next
	}
	got := Compile(withBase([]File{cueFile("long.cue", text.String()+"registry: hosts: zz: user: error(_e)\n")}), Options{})
	if len(got.Findings) == 0 || !strings.HasPrefix(got.Findings[0].Message, "boom stado") {
		t.Fatalf("%v", got.Findings)
	}
	for _, f := range got.Findings {
		if s := f.String(); len(s) > 4*fleet.MaxText || strings.ContainsAny(s, "\n\x1b") {
			t.Errorf("%d bytes: %.200q", len(s), s)
		}
	}
}

// TestLargeDocument refuses what a few comprehensions become.
func TestLargeDocument(t *testing.T) {
	text := "import \"list\"\nfor h in list.Range(0, 20, 1) {registry: hosts: \"h\\(h)\": labels: zone: \"z\\(h)\"}\n"
	files := withBase([]File{cueFile("big.cue", text)})
	whole := Compile(files, Options{})
	if whole.Document == nil {
		t.Fatalf("%v", whole.Findings)
	}
	for largest, refused := range map[int]bool{len(whole.Document): false, len(whole.Document) - 1: true} {
		c := newCompiler(Options{})
		c.largest = largest
		got := c.compile(files)
		if refused != (got.Document == nil) || refused && (len(got.Findings) != 1 || got.Findings[0].Rule != RuleDocument) {
			t.Errorf("at most %d bytes: %d bytes, %v", largest, len(got.Document), got.Findings)
		}
	}
}
