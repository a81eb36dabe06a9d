package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
	"stado.internal/stado/fleet/report"
)

func rules() []report.Rule {
	return []report.Rule{
		{"STADO-GEN-001", "generation reused", "A changed registry has a higher generation."},
		{"STADO-FILE-001", "unsafe path", "A path is made of letters, digits and more."},
		{"STADO-SCHEMA-002", "unknown field", "The schema is closed."},
	}
}

// many is n errors of one rule at different lines.
func many(n int) fleet.Findings {
	var out fleet.Findings
	for i := range n {
		out = append(out, fleet.Finding{
			Rule: "STADO-SCHEMA-002", Severity: fleet.SeverityError, Path: fmt.Sprintf("hosts.a%d.bogus", i),
			File: "hosts/a.cue", Line: 3 + i, Column: 2, Message: fmt.Sprintf("unknown field `bogus%d`", i), Hint: "remove it",
		})
	}
	return out
}

// hostile quotes what somebody wrote to get out of the quotes.
func hostile() fleet.Findings {
	return fleet.Findings{
		{Rule: "STADO-FILE-001", Severity: fleet.SeverityError, File: "a%0A::error::b,c:d.cue", Message: "one\r\n::add-mask::x\n##[command]y\u202ez"},
		{Rule: "STADO-FILE-001", Severity: fleet.SeverityWarning, File: "javascript:x.cue", Line: 1, Message: "``` <img src=x> @everyone [l](http://x) `"},
		{Rule: "STADO-GEN-001", Severity: fleet.SeverityError, Message: "no file, not \xff UTF-8, \x1b[2J"},
		{Rule: "STADO-FILE-001", Severity: fleet.SeverityError, File: "/etc/passwd", Message: "absolute"},
		{Rule: "STADO-FILE-001", Severity: fleet.SeverityError, File: "//host/share", Message: "absolute"},
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := (report.Report{Findings: append(many(1), hostile()[:2]...)}).Text(&b); err != nil {
		t.Fatal(err)
	}
	want := "hosts/a.cue:3:2: STADO-SCHEMA-002: unknown field `bogus0` (remove it)\n" +
		"a%0A::error::b,c:d.cue: STADO-FILE-001: one  ::add-mask::x ##[command]yz\n" +
		"warning: javascript:x.cue:1: STADO-FILE-001: ``` <img src=x> @everyone [l](http://x) `\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// What GitHub documents of its workflow commands, one row for each rule.
func TestGitHubCommands(t *testing.T) {
	t.Parallel()
	at := func(f fleet.Finding) fleet.Finding {
		f.Rule, f.Severity = "STADO-GEN-001", fleet.SeverityError
		return f
	}
	for _, tc := range []struct {
		rule    string
		finding fleet.Finding
		want    string
	}{
		{"file, line and col are properties", at(fleet.Finding{File: "a.cue", Line: 4, Column: 9, Message: "m"}), "::error file=fleet/a.cue,line=4,col=9,title=STADO-GEN-001 generation reused::m"},
		{"col without a line means nothing", at(fleet.Finding{File: "a.cue", Column: 9, Message: "m"}), "::error file=fleet/a.cue,title=STADO-GEN-001 generation reused::m"},
		{"a finding of no file belongs to the step", at(fleet.Finding{Line: 4, Message: "m"}), "::error title=STADO-GEN-001 generation reused::m"},
		{"a warning is its own command", fleet.Finding{Rule: "X", Severity: fleet.SeverityWarning, Message: "m"}, "::warning title=X::m"},
		{"data: % is escaped", at(fleet.Finding{Message: "50%25"}), "::error title=STADO-GEN-001 generation reused::50%2525"},
		{"data: line ends cannot start a command", at(fleet.Finding{Message: "a\r\n::error::b"}), "::error title=STADO-GEN-001 generation reused::a  ::error::b"},
		{"data: colons and commas stay", at(fleet.Finding{Message: "a:b,c"}), "::error title=STADO-GEN-001 generation reused::a:b,c"},
		{"properties: % : , are escaped", at(fleet.Finding{File: "a:b,c%.cue", Message: "m"}), "::error file=fleet/a%3Ab%2Cc%25.cue,title=STADO-GEN-001 generation reused::m"},
		{"the hint is part of the message", at(fleet.Finding{Message: "m", Hint: "do it"}), "::error title=STADO-GEN-001 generation reused::m (do it)"},
	} {
		got := githubOf(t, report.Report{Findings: fleet.Findings{tc.finding}, Prefix: "fleet/", Rules: rules()})
		if got != tc.want+"\n" {
			t.Errorf("%s:\ngot  %swant %s", tc.rule, got, tc.want)
		}
	}
}

// Ten errors, ten warnings and one notice are what GitHub shows of a step, and never 50 of a job. The rest is in the log, where no line
// is a command of either form.
func TestGitHubLimits(t *testing.T) {
	t.Parallel()
	var all fleet.Findings
	for i, f := range many(60) {
		if i%3 == 0 {
			f.Severity = fleet.SeverityWarning
		}
		all = append(all, f)
	}
	late := fleet.Finding{Rule: "STADO-GEN-001", Severity: fleet.SeverityError, File: "z.cue", Line: 1, Message: "the last file, and an error"}
	placeless := fleet.Finding{Rule: "STADO-GEN-001", Severity: fleet.SeverityError, Message: "##[error]placeless\n::error::x"}
	all = append(fleet.Findings{placeless}, append(all, late)...)
	got := githubOf(t, report.Report{Findings: all, Rules: rules()})
	counts := map[string]int{}
	for line := range strings.Lines(got) {
		if strings.Contains(line, "##[") {
			t.Errorf("a command of the old form: %s", line)
		}
		m := regexp.MustCompile(`^::(\w+) `).FindStringSubmatch(line)
		switch {
		case m != nil:
			counts[m[1]]++
		case strings.HasPrefix(line, "also "):
			counts["log"]++
		default:
			t.Errorf("what is this line? %s", line)
		}
	}
	want := map[string]int{"error": 10, "warning": 10, "notice": 1, "log": len(all) - 20}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
	if first, _, _ := strings.Cut(got, "\n"); !strings.HasPrefix(first, "::error file=") {
		t.Errorf("the first line is %s", first)
	}
	if !strings.HasSuffix(got, fmt.Sprintf("::notice title=stado vet::%d more findings are in the log above and in the summary of the step\n", len(all)-20)) {
		t.Errorf("the last line is %s", got[strings.LastIndex(got[:len(got)-1], "\n")+1:])
	}
}

func TestGitHubSaysNothingOfNothing(t *testing.T) {
	t.Parallel()
	if got := githubOf(t, report.Report{}); got != "" {
		t.Errorf("%q", got)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	got := string(report.Report{Findings: append(many(1), hostile()[:2]...), Verdict: "refused: 3 findings"}.Summary(report.SummaryLimit))
	want := "### stado vet\n\n`refused: 3 findings`\n\n" +
		"- **error** `STADO-SCHEMA-002` at `hosts/a.cue:3:2`: `` unknown field `bogus0` (remove it) ``\n" +
		"- **error** `STADO-FILE-001` at `a%0A::error::b,c:d.cue`: `one  ::add-mask::x ##[command]yz`\n" +
		"- **warning** `STADO-FILE-001` at `javascript:x.cue:1`: ```` ``` <img src=x> @everyone [l](http://x) ` ````\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A summary is never larger than it may be, whatever that is, and says what it leaves out.
func TestSummaryLimit(t *testing.T) {
	t.Parallel()
	r := report.Report{Findings: many(40), Verdict: "refused"}
	whole := len(r.Summary(report.SummaryLimit))
	for limit := range whole + 1 {
		got := string(r.Summary(limit))
		if len(got) > limit || !utf8.ValidString(got) {
			t.Fatalf("limit %d: %d bytes", limit, len(got))
		}
		items := strings.Count(got, "- **error**")
		if items == 0 || items == 40 {
			continue
		}
		if want := fmt.Sprintf("- … and %d more, in the log of the step\n", 40-items); !strings.HasSuffix(got, want) {
			t.Fatalf("limit %d ends %q", limit, got[max(0, len(got)-80):])
		}
	}
}

// What GitLab documents of a Code Quality report, checked on every entry.
func TestGitLab(t *testing.T) {
	t.Parallel()
	if got := gitlabOf(t, report.Report{}); got == nil || len(got) != 0 {
		t.Errorf("nothing found is not an empty array: %v", got)
	}
	entries := gitlabOf(t, report.Report{Findings: append(hostile(), many(3)...), Prefix: "fleet/"})
	marks := map[string]bool{}
	for i, e := range entries {
		location := e["location"].(map[string]any)
		p := location["path"].(string)
		begin := location["lines"].(map[string]any)["begin"].(float64)
		mark := e["fingerprint"].(string)
		for rule, holds := range map[string]bool{
			"a description in words":                      len(e["description"].(string)) > len(e["check_name"].(string)),
			"a check name":                                strings.HasPrefix(e["check_name"].(string), "STADO-"),
			"a fingerprint of its own":                    mark != "" && !marks[mark],
			"a known severity":                            e["severity"] == "blocker" || e["severity"] == "minor",
			"a path relative to the repository, no ./":    strings.HasPrefix(p, "fleet/"),
			"a line from 1":                               begin >= 1,
			"no other fields":                             len(e) == 5 && len(location) == 2,
			"one line, without terminal control sequence": !strings.ContainsAny(e["description"].(string)+p, "\n\r\x1b"),
		} {
			if !holds {
				t.Errorf("entry %d has not %s: %v", i, rule, e)
			}
		}
		marks[mark] = true
	}
	if len(entries) != 8 {
		t.Errorf("%d entries", len(entries))
	}
}

func githubOf(t *testing.T, r report.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.GitHub(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gitlabOf(t *testing.T, r report.Report) []map[string]any {
	t.Helper()
	var b bytes.Buffer
	if err := r.GitLab(&b); err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
