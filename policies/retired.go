package policies

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

//go:embed retired.cue
var retiredTable []byte

// RetiredField is a field that was part of the registry once and is refused by name, or that is about to be.
type RetiredField struct {
	Path        string `json:"path"`        // where it stood, with * for any name or index
	Field       string `json:"field"`       // its name
	Since       string `json:"since"`       // the first release that refuses it, or warns of it
	Deprecated  bool   `json:"deprecated"`  // the schema still has it, and its use is a warning
	Replacement string `json:"replacement"` // what stands in its place
	Sentence    string `json:"sentence"`    // the refusal of a declaration, word for word
}

// Unknown is the sentence with which an import refuses the field: an importer knows no such field.
func (f RetiredField) Unknown() string { return fmt.Sprintf("unknown field `%s`", f.Field) }

// Retired is the table of retired fields, retired.cue. An error means that the table in this binary is broken.
func Retired() ([]RetiredField, error) { return retiredFrom(retiredTable) }

func retiredFrom(table []byte) ([]RetiredField, error) {
	v := cuecontext.New().CompileBytes(table, cue.Filename("policies/retired.cue")).LookupPath(cue.ParsePath("retired"))
	var out []RetiredField
	if err := v.Decode(&out); err != nil {
		return nil, fmt.Errorf("cannot read the table of retired fields: %w", err)
	}
	return out, nil
}

// deprecated warns of deprecated fields that the document has, at the place that gives them.
func (k *checker) deprecated(table []RetiredField, document []byte) {
	table = slices.DeleteFunc(slices.Clone(table), func(f RetiredField) bool { return !f.Deprecated })
	if len(table) == 0 {
		return
	}
	var tree any
	if err := json.Unmarshal(document, &tree); err != nil {
		return // it was decoded before
	}
	for _, f := range table {
		for _, labels := range occurrences(tree, strings.Split(f.Path, ".")) {
			p := schema.FieldPath(labels...)
			warning := refuse(RuleDeprecated, k.at(p), p, f.Sentence, hintDeprecated(f))
			warning.Severity = fleet.SeverityWarning
			k.findings = append(k.findings, warning)
		}
	}
}

// occurrences lists the fields of a tree that a path means, in which * is any name or index.
func occurrences(tree any, path []string) [][]string {
	if len(path) == 0 {
		return [][]string{nil}
	}
	var out [][]string
	descend := func(label string, inner any) {
		for _, rest := range occurrences(inner, path[1:]) {
			out = append(out, append([]string{label}, rest...))
		}
	}
	switch x := tree.(type) {
	case map[string]any:
		for _, label := range slices.Sorted(maps.Keys(x)) {
			if path[0] == "*" || path[0] == label {
				descend(label, x[label])
			}
		}
	case []any:
		for i, inner := range x {
			if path[0] == "*" {
				descend(strconv.Itoa(i), inner)
			}
		}
	}
	return out
}
