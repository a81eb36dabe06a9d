package schema

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzCompile compiles a registry with one file of arbitrary bytes. Bombs are for the limits of the process, not for this test, so
// what can multiply work is left out.
func FuzzCompile(f *testing.F) {
	for _, a := range archives(f) {
		for _, file := range a.files {
			if strings.HasPrefix(file.Path, "hosts/") || strings.HasPrefix(file.Path, "services/") {
				f.Add(file.Data)
			}
		}
	}
	for _, text := range []string{
		"package fleet\nregistry: hosts: a1: service_resolver: adapters: [_, ...]",
		"package fleet\nregistry: hosts: a1: service_resolver: _binds: x: 1",
		"package fleet\nregistry: \"\": \"\": 1", "package fleet\nregistry: hosts: a1: \"\\u0000\": 1", "package fleet\nregistry: 1", "package fleet\nregistry: _|_",
		"package fleet\nregistry: service_directory: services: [string]: _", "package fleet\nlet registry = 1", "package fleet\nregistry: hosts: a1: \"\"\"\n\tx\n\t\"\"\": 1",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 || bytes.Contains(data, []byte("for")) || bytes.Contains(data, []byte("list.")) || bytes.Count(data, []byte("|")) > 4 || bytes.Contains(data, []byte(`\(`)) {
			t.Skip("may take long to evaluate")
		}
		files := withBase([]File{{"hosts/a1.cue", data}})
		c := Compile(files, Options{})
		if (c.Document == nil) != c.Findings.Refuses() || (c.Document == nil) != (c.Registry == nil) {
			t.Fatalf("document %q with findings %v", c.Document, c.Findings)
		}
		for _, finding := range c.Findings {
			if finding.Message == "" || strings.Contains(finding.Message, "failed on this registry") || strings.HasPrefix(finding.File, VendorDir()) {
				t.Errorf("finding %+v", finding)
			}
			if finding.File != "" && (finding.Line < 1 || finding.Line > 1+bytes.Count(data, []byte("\n"))+3) {
				t.Errorf("finding beyond the file: %+v", finding)
			}
		}
		if c.Document == nil {
			return
		}
		again, err := Canonical(c.Registry)
		if err != nil || len(again) == 0 {
			t.Fatalf("the model does not render: %v", err)
		}
	})
}
