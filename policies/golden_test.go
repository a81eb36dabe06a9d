package policies

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

const (
	wantFile   = "want.findings"
	registry   = "package fleet\n\nimport \"stado.internal/schema\"\n\nregistry: schema.#Registry\n"
	generation = "package fleet\n\nregistry: service_directory: generation: 42\n"
)

// TestArchives judges the registries of testdata. Files below previous/ are the revision that is held; all others are the next one. A
// comment line "allow empty fleet" sets that choice. STADO_UPDATE=1 writes what was found.
func TestArchives(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no archives in testdata: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, f := range judgeArchive(t, archive) {
				if f.File == "" {
					t.Errorf("finding without a file: %s", f)
				}
				fmt.Fprintf(&got, "%s [%s] %s\n", f.Severity, f.Path, f)
			}
			compare(t, name, archive, got.Bytes())
		})
	}
}

func judgeArchive(t *testing.T, archive *txtar.Archive) fleet.Findings {
	t.Helper()
	var previous, next []schema.File
	for _, f := range archive.Files {
		if p, ok := strings.CutPrefix(f.Name, "previous/"); ok {
			previous = append(previous, schema.File{Path: p, Data: f.Data})
		} else if f.Name != wantFile {
			next = append(next, schema.File{Path: f.Name, Data: f.Data})
		}
	}
	compiled := compile(t, next)
	findings := slices.Concat(compiled.Findings, Check(compiled))
	if compiled.Registry != nil {
		findings = append(findings, CheckOwn(next, compiled.Document, nil)...)
	}
	if len(previous) > 0 {
		held := compile(t, previous)
		findings = append(findings, Judge(
			Revision{Registry: held.Registry, Document: held.Document, Digest: held.Digest, GenerationFile: generationFile(previous)},
			Revision{
				GenerationFile: generationFile(next), TakesNumber: bytes.Contains(archive.Comment, []byte("\nstamp\n")),
				Registry: compiled.Registry, Document: compiled.Document, Digest: compiled.Digest, Positions: compiled.Positions,
				AllowEmptyFleet: bytes.Contains(archive.Comment, []byte("\nallow empty fleet\n")),
			})...)
		findings = append(findings, JudgeOwn(previous, held.Document, compiled.Document, nil)...)
	}
	return findings
}

// generationFile is the content of generation.cue, which stands for git's name of it.
func generationFile(files []schema.File) string {
	for _, f := range files {
		if f.Path == schema.GenerationFile {
			return string(f.Data)
		}
	}
	return generation
}

// compile completes a set of files with what every registry has, and compiles it.
func compile(t testing.TB, files []schema.File) schema.Compiled {
	t.Helper()
	for p, text := range map[string]string{"registry.cue": registry, "generation.cue": generation} {
		if !slices.ContainsFunc(files, func(f schema.File) bool { return f.Path == p }) {
			files = append(files, schema.File{Path: p, Data: []byte(text)})
		}
	}
	c := schema.Compile(files, schema.Options{})
	if c.Registry == nil && len(c.Unowned) == 0 {
		t.Fatalf("the registry does not compile: %v", c.Findings)
	}
	return c
}

func compare(t *testing.T, name string, archive *txtar.Archive, got []byte) {
	t.Helper()
	var want []byte
	var rest []txtar.File
	for _, f := range archive.Files {
		if f.Name == wantFile {
			want = f.Data
		} else {
			rest = append(rest, f)
		}
	}
	if os.Getenv("STADO_UPDATE") != "" {
		archive.Files = append(rest, txtar.File{Name: wantFile, Data: got})
		if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: -want +got\n%s", name, diff)
	}
}
