package report

import (
	"encoding/json"
	"io"

	"stado.internal/stado/fleet"
)

// codeQuality is one entry of a Code Quality report of GitLab.
type codeQuality struct {
	Description string              `json:"description"`
	CheckName   string              `json:"check_name"`
	Fingerprint string              `json:"fingerprint"`
	Severity    string              `json:"severity"` // info, minor, major, critical or blocker
	Location    codeQualityLocation `json:"location"`
}

type codeQualityLocation struct {
	Path  string           `json:"path"`
	Lines codeQualityLines `json:"lines"`
}

type codeQualityLines struct {
	Begin int `json:"begin"`
}

// GitLab writes findings as a Code Quality report: an array, empty when there is nothing to say. Every entry needs a file, so a finding
// without one stands in registry.cue.
func (r Report) GitLab(w io.Writer) error {
	entries := make([]codeQuality, 0, len(r.Findings))
	marks := r.fingerprints()
	for i, f := range r.Findings {
		severity := "blocker" // the change cannot be admitted
		if f.Severity == fleet.SeverityWarning {
			severity = "minor"
		}
		file, begin := r.where(f)
		entries = append(entries, codeQuality{
			Description: f.Rule + ": " + sentence(f), CheckName: f.Rule, Fingerprint: marks[i], Severity: severity,
			Location: codeQualityLocation{Path: file, Lines: codeQualityLines{Begin: begin}},
		})
	}
	return encode(w, entries)
}

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
