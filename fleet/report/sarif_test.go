package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/xeipuuv/gojsonschema"

	"stado.internal/stado/fleet"
	"stado.internal/stado/fleet/report"
)

// The official schema judges what we write, as it stands; the types of the module that carries the schema must be able to read it too.
func TestSARIFFollowsTheSchema(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]report.Report{
		"nothing found": {Version: "v1", Rules: rules()},
		"no version":    {Findings: hostile(), Rules: rules()},
		"all kinds":     {Findings: append(hostile(), many(30)...), Prefix: "registries/a b/", Version: "v1", Rules: rules()},
		"no rules":      {Findings: many(1)},
	} {
		t.Run(name, func(t *testing.T) {
			ours := sarifOf(t, r)
			if err := validSARIF(t, ours); err != nil {
				t.Errorf("%v\n%s", err, ours)
			}
		})
	}
}

// A validator that accepts everything would prove nothing.
func TestSARIFSchemaRefuses(t *testing.T) {
	t.Parallel()
	good := string(sarifOf(t, report.Report{Findings: many(1), Rules: rules()}))
	for _, change := range [][2]string{
		{`"startLine": 3`, `"startLine": 0`},
		{`"level": "error",`, `"level": "fatal",`},
		{`"version": "2.1.0"`, `"version": "2.0"`},
		{`"columnKind": "unicodeCodePoints"`, `"columnKind": "bytes"`},
		{`"ruleId"`, `"ruleid"`},
	} {
		bad := strings.ReplaceAll(good, change[0], change[1])
		if bad == good || validSARIF(t, []byte(bad)) == nil {
			t.Errorf("%s passed for %s", change[1], change[0])
		}
	}
}

func validSARIF(t *testing.T, text []byte) error {
	t.Helper()
	verdict, err := gojsonschema.Validate(gojsonschema.NewStringLoader(sarifSchema(t)), gojsonschema.NewBytesLoader(text))
	if err != nil {
		return err
	}
	var wrong []error
	for _, e := range verdict.Errors() {
		wrong = append(wrong, errors.New(e.String()))
	}
	var decoded sarif.Report
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	return errors.Join(append(wrong, strict.Decode(&decoded))...)
}

// sarifSchema is the text of the schema. The module that carries it keeps it to itself and offers to judge its own types only, which add
// to what they have read; so the text is taken out of the module's source.
func sarifSchema(t *testing.T) string {
	t.Helper()
	const pkg = "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "schema.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && len(lit.Value) > len(text) {
			text, err = strconv.Unquote(lit.Value)
		}
		return true
	})
	if err != nil || !strings.Contains(text, "sarif-schema-2.1.0.json") {
		t.Fatalf("%s holds no schema: %v", dir, err)
	}
	return text
}

func TestSARIFResults(t *testing.T) {
	t.Parallel()
	r := report.Report{Findings: append(many(2), hostile()...), Prefix: "fleet/", Rules: rules()}
	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct {
					Rules []struct {
						ID   string
						Help struct{ Text string }
					}
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI, URIBaseID string }
					}
				}
				PartialFingerprints map[string]string
			}
		}
	}
	if err := json.Unmarshal(sarifOf(t, r), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	marks := map[string]bool{}
	for i, result := range run.Results {
		rule := run.Tool.Driver.Rules[result.RuleIndex]
		if rule.ID != result.RuleID || rule.Help.Text == "" {
			t.Errorf("result %d is of rule %s and points to %+v", i, result.RuleID, rule)
		}
		place := result.Locations[0].PhysicalLocation.ArtifactLocation
		u, err := url.Parse(place.URI)
		if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "fleet/") || place.URIBaseID != "%SRCROOT%" {
			t.Errorf("result %d is at %+v: %v", i, place, err)
		}
		marks[result.PartialFingerprints["stadoFinding/v1"]] = true
	}
	if len(run.Results) != len(r.Findings) || len(marks) != len(r.Findings) {
		t.Errorf("%d findings, %d results, %d fingerprints", len(r.Findings), len(run.Results), len(marks))
	}
}

// A finding keeps its fingerprint when text is added above it, and two equal ones have two.
func TestFingerprintsFollowTheFinding(t *testing.T) {
	t.Parallel()
	f := many(1)[0]
	moved := f
	moved.Line += 7
	marks := func(fs ...fleet.Finding) []string {
		var out []string
		for _, e := range gitlabOf(t, report.Report{Findings: fs}) {
			out = append(out, e["fingerprint"].(string))
		}
		return out
	}
	if diff := cmp.Diff(marks(f), marks(moved)); diff != "" {
		t.Error(diff)
	}
	if twice := marks(f, f); twice[0] == twice[1] || twice[0] != marks(f)[0] {
		t.Error(twice)
	}
	other := f
	other.Message += "!"
	if marks(f)[0] == marks(other)[0] {
		t.Error("two messages, one fingerprint")
	}
}

func sarifOf(t *testing.T, r report.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.SARIF(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
