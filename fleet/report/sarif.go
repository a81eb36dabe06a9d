package report

import (
	"io"
	"net/url"
	"strings"

	"stado.internal/stado/fleet"
)

// sarifSchema names the schema that a SARIF file says it follows.
const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// sarifRoot is the name under which consumers know the root of the checked-out repository.
const sarifRoot = "%SRCROOT%"

// sarifMark is the name and version of our fingerprints: a change of what goes into them must change it.
const sarifMark = "stadoFinding/v1"

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool       sarifTool       `json:"tool"`
	Automation sarifAutomation `json:"automationDetails"`
	ColumnKind string          `json:"columnKind"`
	Results    []sarifResult   `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"`
	Rules   []sarifRule `json:"rules"`
}

type sarifAutomation struct {
	ID string `json:"id"`
}

type sarifRule struct {
	ID     string         `json:"id"`
	Short  sarifText      `json:"shortDescription"`
	Full   sarifText      `json:"fullDescription"`
	Help   sarifText      `json:"help"`
	Config sarifRuleLevel `json:"defaultConfiguration"`
}

type sarifRuleLevel struct {
	Level string `json:"level"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string            `json:"ruleId"`
	RuleIndex *int              `json:"ruleIndex,omitempty"` // nil: the rule is not among the driver's
	Level     string            `json:"level"`
	Message   sarifText         `json:"message"`
	Locations []sarifLocation   `json:"locations"`
	Marks     map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"`
}

type sarifArtifact struct {
	URI  string `json:"uri"`
	Base string `json:"uriBaseId"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

type sarifLogical struct {
	Name string `json:"fullyQualifiedName"`
	Kind string `json:"kind"`
}

// SARIF writes findings as one run of SARIF 2.1.0 with every rule explained. Paths are relative to the repository, and a finding without
// a file stands in registry.cue, because forges show no result without a place.
func (r Report) SARIF(w io.Writer) error {
	run := sarifRun{
		Tool:       sarifTool{sarifDriver{Name: "stado", Version: r.Version, Rules: make([]sarifRule, 0, len(r.Rules))}},
		Automation: sarifAutomation{ID: "stado-vet/" + r.Prefix},
		ColumnKind: "unicodeCodePoints",
		Results:    make([]sarifResult, 0, len(r.Findings)),
	}
	for _, rule := range r.Rules {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: rule.ID, Short: sarifText{rule.Title}, Full: sarifText{rule.Explanation}, Help: sarifText{rule.Explanation},
			Config: sarifRuleLevel{"error"},
		})
	}
	marks := r.fingerprints()
	for i, f := range r.Findings {
		run.Results = append(run.Results, r.sarifResult(f, marks[i]))
	}
	return encode(w, sarifLog{Schema: sarifSchema, Version: "2.1.0", Runs: []sarifRun{run}})
}

func (r Report) sarifResult(f fleet.Finding, mark string) sarifResult {
	file, line := r.where(f)
	place := sarifLocation{Physical: sarifPhysical{
		Artifact: sarifArtifact{URI: relativeURI(file), Base: sarifRoot},
		Region:   sarifRegion{StartLine: line},
	}}
	if f.File != "" && f.Line > 0 {
		place.Physical.Region.StartColumn = f.Column
	}
	if f.Path != "" {
		place.Logical = []sarifLogical{{Name: oneLine(f.Path), Kind: "property"}}
	}
	result := sarifResult{
		RuleID: f.Rule, Level: "error", Message: sarifText{sentence(f)}, Locations: []sarifLocation{place},
		Marks: map[string]string{sarifMark: mark},
	}
	if f.Severity == fleet.SeverityWarning {
		result.Level = "warning"
	}
	if i := r.ruleIndex(f.Rule); i >= 0 {
		result.RuleIndex = &i
	}
	return result
}

// relativeURI is a path as a relative reference: never absolute, and never taken for one with a scheme or a host.
func relativeURI(file string) string {
	return (&url.URL{Path: strings.TrimLeft(file, "/")}).String()
}
