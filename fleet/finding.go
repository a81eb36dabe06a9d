package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity grades a finding.
type Severity string

// The severities: an error refuses the document, a warning does not.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Finding is one thing that a judge has to say about a registry. The same value is printed by the command line, by hooks and by the
// agent, so a person reads one sentence everywhere.
type Finding struct {
	Rule     string   `json:"rule"` // stable id, such as STADO-GEN-001
	Severity Severity `json:"severity"`
	Path     string   `json:"path,omitempty"` // field path in the document, such as hosts.a1.ssh
	File     string   `json:"file,omitempty"` // path inside the registry repository
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"` // what to do
}

// Position is the file:line:column of a finding as far as it is known; empty when no file is.
func (f Finding) Position() string {
	switch {
	case f.File == "":
		return ""
	case f.Line == 0:
		return f.File
	case f.Column == 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// String is the finding as one line: `file:line:column: RULE: message (hint)`.
func (f Finding) String() string {
	var b strings.Builder
	if p := f.Position(); p != "" {
		b.WriteString(p + ": ")
	}
	b.WriteString(f.Rule + ": " + f.Message)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}

// Findings is a list of findings in the order of [Findings.Sort].
type Findings []Finding

// Sort orders by file, line, column, rule and message, so that output is the same on every run.
func (fs Findings) Sort() {
	slices.SortFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
}

// Refuses reports whether any finding is an error.
func (fs Findings) Refuses() bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Severity == SeverityError })
}
