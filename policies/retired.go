package policies

import (
	_ "embed"
	"fmt"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
)

//go:embed retired.cue
var retiredTable []byte

// RetiredField is a field that was part of the registry once and is refused by name.
type RetiredField struct {
	Path        string `json:"path"`        // where it stood, with * for any name or index
	Field       string `json:"field"`       // its name
	Since       string `json:"since"`       // the first release that refuses it
	Replacement string `json:"replacement"` // what stands in its place
	Sentence    string `json:"sentence"`    // the refusal of a declaration, word for word
}

// Unknown is the sentence with which an import refuses the field: an importer knows no such field.
func (f RetiredField) Unknown() string { return fmt.Sprintf("unknown field `%s`", f.Field) }

// Retired is the table of retired fields, retired.cue. An error means that the table in this binary is broken.
func Retired() ([]RetiredField, error) {
	v := cuecontext.New().CompileBytes(retiredTable, cue.Filename("policies/retired.cue")).LookupPath(cue.ParsePath("retired"))
	var out []RetiredField
	if err := v.Decode(&out); err != nil {
		return nil, fmt.Errorf("cannot read the table of retired fields: %w", err)
	}
	return out, nil
}
