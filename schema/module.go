package schema

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
	"cuelang.org/go/mod/module"
	"stado.internal/stado/fleet"
)

// ModuleFile names the registry's module and the version of CUE that plain `cue` reads it with. Agents take nothing from it, and refuse what
// `cue` could not read: else nobody could check a registry without them. That it is missing is drift, see [VendorDrift].
const ModuleFile = modDir + "/module.cue"

var languageForm = regexp.MustCompile(`^v(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(-[0-9A-Za-z.-]+)?$`)

// moduleFindings judges the file of the module. It is data of a few fields.
func moduleFindings(f File) []fleet.Finding {
	if finding, bad := gateText(f); bad {
		return []fleet.Finding{finding}
	}
	file, fs := parseText(f)
	if len(fs) > 0 {
		return fs
	}
	m := moduleGate{name: f.Path, given: map[string]bool{}}
	m.findings = gateSyntax(f.Path, file, file.PackageName()) // that it has none is said below
	m.fields("", file.Decls)
	for _, required := range []string{"module", "language.version"} {
		if !m.given[required] && len(m.findings) == 0 {
			m.refuse(Position{File: f.Path, Line: 1, Column: 1}, "the file does not give "+required)
		}
	}
	return m.findings
}

// moduleGate reads one file of a module.
type moduleGate struct {
	name     string
	given    map[string]bool
	findings []fleet.Finding
}

func (m *moduleGate) refuse(at Position, why string) {
	m.findings = append(m.findings, hinted(refusal(RuleModule, at, "", sayModule(why)), hintModuleFile))
}

func (m *moduleGate) fields(parent string, elts []ast.Decl) {
	for _, d := range elts {
		at := position(d.Pos())
		at.File = m.name
		f, ok := d.(*ast.Field)
		if !ok || !plainField(f) || !literalValue(f.Value) {
			m.refuse(at, "it is data: names and values, nothing computed")
			continue
		}
		label, _, _ := ast.LabelName(f.Label) // a plain field has a name
		full := join(parent, label)
		m.given[full] = true
		if why := m.field(full, f.Value); why != "" {
			m.refuse(at, why)
		}
	}
}

// field says what is wrong with one field, "" for nothing.
func (m *moduleGate) field(full string, e ast.Expr) string {
	text, isText := stringLiteral(e)
	st, isStruct := e.(*ast.StructLit)
	switch full {
	case "module":
		return badModule(text, isText)
	case "language", "source":
		if !isStruct {
			return full + " is a struct"
		}
		m.fields(full, st.Elts)
		return ""
	case "language.version":
		return badLanguage(text, isText)
	case "deps":
		if !isStruct || len(st.Elts) > 0 {
			return "a registry has no dependencies: cue would fetch them"
		}
		return ""
	case "source.kind":
		if text != "self" && text != "git" {
			return `source.kind is "self" or "git"`
		}
		return ""
	case "description":
		if !isText {
			return "description is a string"
		}
		return ""
	case "custom":
		if !isStruct {
			return "custom is a struct"
		}
		return ""
	}
	return "cue knows no field " + full + " there"
}

func stringLiteral(e ast.Expr) (string, bool) {
	x, ok := e.(*ast.BasicLit)
	if !ok || x.Kind != token.STRING {
		return "", false
	}
	text, err := literal.Unquote(x.Value)
	return text, err == nil && !strings.HasPrefix(strings.TrimLeft(x.Value, "#"), "'")
}

func badModule(text string, ok bool) string {
	base, major, versioned := strings.Cut(text, "@")
	number, v := strings.CutPrefix(major, "v")
	n, err := strconv.ParseUint(number, 10, 31)
	switch {
	case !ok:
		return `module is a string, such as "fleet.example@v0"`
	case versioned && (!v || err != nil || strconv.FormatUint(n, 10) != number):
		return `the module's major version is none (write "fleet.example@v0")`
	}
	if err := module.CheckPathWithoutVersion(base); err != nil {
		return "the module has a path that cue does not take: " + err.Error()
	}
	return ""
}

// badLanguage judges the version of the language: it has what the schema needs, and the evaluator of this program knows it.
func badLanguage(text string, ok bool) string {
	version, known := languageNumbers(text)
	lowest, _ := languageNumbers(languageVersion)
	highest, _ := languageNumbers(cue.LanguageVersion())
	switch {
	case !ok || !known:
		return `language.version is a version of CUE in full, such as "` + languageVersion + `"`
	case slices.Compare(version, lowest) < 0, slices.Compare(version, highest) > 0:
		return "language.version is " + text + ", and the schema is read with " + languageVersion + " to " + cue.LanguageVersion()
	}
	return ""
}

func languageNumbers(text string) ([]int, bool) {
	m := languageForm.FindStringSubmatch(text)
	if m == nil {
		return nil, false
	}
	out := make([]int, 3)
	for i := range out {
		out[i], _ = strconv.Atoi(m[i+1]) // at most nine digits
	}
	return out, true
}
