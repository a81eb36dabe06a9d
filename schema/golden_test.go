package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/load"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// baseFiles are what every registry has; an archive gives only what differs. A comment line "bare" leaves them out.
var baseFiles = []File{
	{"cue.mod/module.cue", []byte("module: \"fleet.example@v0\"\nlanguage: version: \"v0.14.0\"\n")},
	{"registry.cue", []byte("package fleet\n\nimport \"stado.internal/schema\"\n\nregistry: schema.#Registry\n")},
	{"generation.cue", []byte("package fleet\n\nregistry: service_directory: generation: 42\n")},
}

// archive is one case of testdata: the files of a registry, and what each judge has to say about them.
type archive struct {
	name  string
	txtar *txtar.Archive
	files []File
}

func archives(t testing.TB) []archive {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no archives in testdata: %v", err)
	}
	var out []archive
	for _, name := range names {
		parsed, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		a := archive{name: name, txtar: parsed}
		for _, f := range parsed.Files {
			if !strings.HasPrefix(f.Name, "want.") {
				a.files = append(a.files, File{f.Name, f.Data})
			}
		}
		if !bytes.Contains(parsed.Comment, []byte("\nbare\n")) {
			a.files = withBase(a.files)
		}
		out = append(out, a)
	}
	return out
}

func withBase(files []File) []File {
	for _, base := range baseFiles {
		if !slices.ContainsFunc(files, func(f File) bool { return f.Path == base.Path }) {
			files = append(files, base)
		}
	}
	return files
}

// TestArchives compiles every archive and compares the document, the findings and what plain cue says with the archive's want files.
// STADO_UPDATE=1 writes them.
func TestArchives(t *testing.T) {
	for _, a := range archives(t) {
		t.Run(strings.TrimSuffix(filepath.Base(a.name), ".txtar"), func(t *testing.T) {
			got := Compile(a.files, Options{})
			want := map[string][]byte{"want.plain": plainCue(t, a.files)}
			if got.Document != nil {
				var b bytes.Buffer
				if err := json.Indent(&b, got.Document, "", "\t"); err != nil {
					t.Fatal(err)
				}
				want["want.json"] = append(b.Bytes(), '\n')
			}
			if len(got.Findings) > 0 {
				want["want.findings"] = findingText(got)
			}
			a.compare(t, want)
		})
	}
}

func findingText(c Compiled) []byte {
	var b bytes.Buffer
	for _, f := range c.Findings {
		fmt.Fprintf(&b, "%s [%s] %s\n", f.Severity, f.Path, f)
	}
	return b.Bytes()
}

func (a archive) compare(t *testing.T, got map[string][]byte) {
	t.Helper()
	if os.Getenv("STADO_UPDATE") != "" {
		a.txtar.Files = slices.DeleteFunc(a.txtar.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "want.") })
		for _, name := range []string{"want.findings", "want.plain", "want.json"} {
			if data, ok := got[name]; ok {
				a.txtar.Files = append(a.txtar.Files, txtar.File{Name: name, Data: data})
			}
		}
		if err := os.WriteFile(a.name, txtar.Format(a.txtar), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := map[string][]byte{}
	for _, f := range a.txtar.Files {
		if strings.HasPrefix(f.Name, "want.") {
			want[f.Name] = f.Data
		}
	}
	if diff := cmp.Diff(stringMap(want), stringMap(got)); diff != "" {
		t.Errorf("%s: -want +got\n%s", a.name, diff)
	}
}

func stringMap(m map[string][]byte) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}

// plainCue judges a registry as `cue vet -c ./...` does, offline, in a directory with the vendored schema. It lists the errors with the
// positions in the registry's own files, or says pass.
func plainCue(t *testing.T, files []File) []byte {
	t.Helper()
	dir := t.TempDir()
	for _, f := range Files() {
		files = append(files, File{VendorDir() + "/" + f.Path, f.Data})
	}
	for _, f := range files {
		p := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lines := map[string]bool{}
	for _, instance := range load.Instances([]string{"./..."}, &load.Config{Dir: dir, Env: []string{"CUE_REGISTRY=none"}}) {
		err := instance.Err
		var all errors.Error
		if err != nil {
			all = errors.Append(all, err)
		} else if err := cuecontext.New().BuildInstance(instance).Validate(cue.Concrete(true), cue.Attributes(true), cue.Optional(true), cue.Definitions(true), cue.Hidden(true)); err != nil {
			all = errors.Append(all, errors.Promote(err, ""))
		}
		for _, e := range errors.Errors(all) {
			lines[plainLine(dir, e)] = true
		}
	}
	if len(lines) == 0 {
		return []byte("pass\n")
	}
	var b bytes.Buffer
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		b.WriteString(line + "\n")
	}
	return b.Bytes()
}

func plainLine(dir string, e errors.Error) string {
	format, args := e.Msg()
	var line strings.Builder
	line.WriteString(strings.Join(e.Path(), ".") + ": " + fmt.Sprintf(format, args...))
	for _, p := range errors.Positions(e) {
		name, err := filepath.Rel(dir, p.Filename())
		if err == nil && !strings.HasPrefix(name, "cue.mod") && name != "registry.cue" {
			line.WriteString(fmt.Sprintf(" @%s:%d", filepath.ToSlash(name), p.Line()))
		}
	}
	return strings.ReplaceAll(line.String(), dir, "DIR")
}
