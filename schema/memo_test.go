package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stado.internal/stado/schema/schematest"
)

// mapCache is a cache without a file.
type mapCache map[Key][]byte

func (c mapCache) Get(k Key) ([]byte, bool)   { v, ok := c[k]; return v, ok }
func (c mapCache) Put(k Key, value []byte)    { c[k] = slices.Clone(value) }
func contentID(data []byte) string            { sum := sha256.Sum256(data); return hex.EncodeToString(sum[:]) }
func (c mapCache) compile(fs []File) Compiled { return Compile(c.options(fs)) }

// options gives what a source gives: no bytes of a file that the cache knows.
func (c mapCache) options(files []File) ([]File, Options) {
	o := Options{Cache: c, IDs: map[string]string{}, Sparse: true}
	texts := map[string][]byte{}
	given := slices.Clone(files)
	for i, f := range files {
		texts[f.Path] = f.Data
		o.IDs[f.Path] = contentID(f.Data)
		if _, known := Known(c, f.Path, o.IDs[f.Path]); known {
			given[i].Data = nil
		}
	}
	o.Read = func(path string) ([]byte, error) { return texts[path], nil }
	return given, o
}

// TestIncrementalMeansWhole edits registries at random, and compiles after every edit with all that is known from before. The last result
// has the document of one evaluation of everything, and the findings and positions of an evaluation that knows nothing.
func TestIncrementalMeansWhole(t *testing.T) {
	cached := 0
	rapid.Check(t, func(t *rapid.T) {
		files := map[string]string{}
		for _, f := range registryText(t) {
			files[f.Path] = string(f.Data)
		}
		cache := mapCache{}
		for range rapid.IntRange(1, 5).Draw(t, "edits") {
			got := cache.compile(filesOf(files))
			if got.Counts.Units != got.Counts.Cached+got.Counts.Literal+got.Counts.Evaluated {
				t.Fatalf("the counts do not add up: %+v", got.Counts)
			}
			cached += got.Counts.Cached
			editFiles(t, files)
		}
		compare(t, filesOf(files), cache.compile(filesOf(files)))
	})
	if cached == 0 {
		t.Error("nothing was ever known from before: the test says nothing")
	}
}

func filesOf(texts map[string]string) []File {
	var out []File
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		out = append(out, File{path, []byte(texts[path])})
	}
	return out
}

func compare(t *rapid.T, files []File, got Compiled) {
	whole := newCompiler(Options{})
	whole.whole, whole.literal = true, nil
	fresh := newCompiler(Options{})
	fresh.literal = nil
	one, apart := whole.compile(files), fresh.compile(files)
	if diff := cmp.Diff(string(one.Document), string(got.Document)); diff != "" {
		t.Fatalf("-whole +incremental\n%s\n%v\n%v\n%s", diff, one.Findings, got.Findings, dump(files))
	}
	if diff := cmp.Diff(apart.Findings, got.Findings); diff != "" {
		t.Fatalf("findings: -fresh +incremental\n%s\n%s", diff, dump(files))
	}
	if diff := cmp.Diff(apart.Unowned, got.Unowned); diff != "" {
		t.Fatalf("unowned: -fresh +incremental\n%s\n%s", diff, dump(files))
	}
	for path, at := range apart.Positions {
		if now := got.At(path); now != at {
			t.Fatalf("%s is at %+v, incrementally at %+v\n%s", path, at, now, dump(files))
		}
	}
}

// editFiles changes the files as people and merges do.
func editFiles(t *rapid.T, files map[string]string) {
	paths := slices.Sorted(maps.Keys(files))
	path := rapid.SampledFrom(paths).Draw(t, "file")
	text := files[path]
	name := fmt.Sprintf("h%d", rapid.IntRange(0, 4).Draw(t, "host"))
	host := func() string {
		return fmt.Sprintf("package fleet\n\nregistry: hosts: %s: {\n\t%s\n}\n", name, hostBody(t, name))
	}
	switch rapid.SampledFrom([]string{"add", "change", "remove", "rename", "shared", "twice", "broken", "generation", "literal", "nothing"}).Draw(t, "edit") {
	case "add", "change":
		files["hosts/p0/"+name+".cue"] = host()
	case "twice":
		files["hosts/other/"+name+".cue"] = host()
	case "remove":
		if strings.Contains(path, "/") {
			delete(files, path)
		}
	case "rename":
		if strings.HasPrefix(path, "hosts/") {
			delete(files, path)
			to := rapid.SampledFrom([]string{"hosts/renamed/" + filepath.Base(path), "hosts/" + name + ".cue", "services/" + name + ".cue", name + ".cue"})
			files[to.Draw(t, "to")] = text
		}
	case "shared":
		lines := strings.Split(files["shared.cue"], "\n")
		i := rapid.IntRange(2, len(lines)-1).Draw(t, "line")
		lines[i] = rapid.SampledFrom([]string{
			"", "_more: 1", "registry: hosts: [string]: labels: all: \"1\"", "registry: hosts: h9: zone: \"z9\"", "registry: hosts: h0: zone: \"z0\"",
			"registry: policies: {}", "registry: hosts: h8: labels: n: \"\\(len(registry.hosts))\"",
		}).Draw(t, "text")
		files["shared.cue"] = strings.Join(lines, "\n")
	case "broken":
		broken := []string{text + "\n<<<<<<< ours\n", text + "\n}", strings.Replace(text, "zone", "zoan", 1), strings.Replace(text, "\"z1\"", "\"z!\"", 1), text + "\nother: 1\n", "\r\n" + text}
		files[path] = rapid.SampledFrom(broken).Draw(t, "broken")
	case "generation":
		files["generation.cue"] = fmt.Sprintf("package fleet\n\nregistry: service_directory: generation: %d\n", rapid.IntRange(1, 99).Draw(t, "generation"))
	case "literal":
		files["hosts/p0/"+name+".cue"] = "package fleet\n\nregistry: hosts: " + name + ": {zone: \"z1\", labels: n: \"" + rapid.StringMatching("[a-z]{0,3}").Draw(t, "label") + "\"}\n"
	}
}

// TestGateOneChange holds how much of a registry is evaluated again, whichever way its hosts are written.
func TestGateOneChange(t *testing.T) {
	for _, shared := range []string{"", "#Edge: labels: role: \"edge\"\n", "registry: hosts: [string]: user: *\"stado\" | string\n"} {
		files := map[string]string{}
		schematest.Fleet(300, func(path, text string) { files[path] = text })
		if shared != "" {
			files["templates.cue"] = "package fleet\n\n" + shared
		}
		if strings.HasPrefix(shared, "#") {
			for path, text := range files {
				if strings.HasPrefix(path, "hosts/") {
					files[path] = strings.Replace(text, "labels: {role: \"edge\"}", "#Edge", 1)
				}
			}
		}
		cache := mapCache{}
		first := cache.compile(filesOf(files))
		if first.Document == nil || first.Counts.Units != 331 || first.Counts.Cached != 0 {
			t.Fatalf("first: %+v, %v", first.Counts, first.Findings)
		}
		if again := cache.compile(filesOf(files)); again.Counts.Cached != again.Counts.Units || again.Digest != first.Digest {
			t.Errorf("nothing has changed: %+v", again.Counts)
		}
		// One host and the generation, which a change raises: the generation's file is of the shared ones.
		files[schematest.HostFile(7)] = strings.Replace(files[schematest.HostFile(7)], "region: \"r0\"", "region: \"r9\"", 1)
		files["generation.cue"] = strings.Replace(files["generation.cue"], "1", "2", 1)
		next := cache.compile(filesOf(files))
		if got := next.Counts.Literal + next.Counts.Evaluated; next.Document == nil || got != 2 || next.Digest == first.Digest {
			t.Errorf("with %q: %+v after one change, %v", shared, next.Counts, next.Findings)
		}
	}
}

// TestSharedReads tells the results that a shared file of plain data has a say in.
func TestSharedReads(t *testing.T) {
	generation := func(n int) File {
		return cueFile("generation.cue", fmt.Sprintf("registry: service_directory: generation: %d\n", n))
	}
	for text, want := range map[string]int{
		"registry: hosts: a1: zone: \"z\"\n":                                                           0,
		"registry: hosts: a1: labels: g: \"\\(registry.service_directory.generation)\"\n":              1,
		"registry: hosts: a1: labels: g: \"\\(1)\"\n":                                                  0,
		"registry: hosts: a1: {let x = registry.service_directory.generation, labels: g: \"\\(x)\"}\n": 1,
	} {
		cache := mapCache{}
		compile := func(n int) Compiled {
			return cache.compile(withBase([]File{generation(n), cueFile("hosts/a1.cue", text)}))
		}
		first, second := compile(1), compile(2)
		if first.Document == nil || second.Document == nil {
			t.Fatal(first.Findings, second.Findings)
		}
		if got := second.Counts.Evaluated - 1; got != want {
			t.Errorf("%s: %d evaluated again, want %d", text, got, want)
		}
		if want == 1 && !strings.Contains(string(second.Document), `"g":"2"`) {
			t.Errorf("%s: %s", text, second.Document)
		}
	}
}
