package schema

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stado.internal/stado/fleet"
)

// TestChangeMeansWhole changes one file of registries that are mostly separate. What Changes accepts is what the compiled registries differ
// in, whatever else is in them.
func TestChangeMeansWhole(t *testing.T) {
	accepted, refused, changes := 0, 0, NewChanges()
	rapid.Check(t, func(t *rapid.T) {
		files := separateText(t)
		before := Compile(filesOf(files), Options{})
		path := rapid.SampledFrom(slices.Sorted(maps.Keys(files))).Draw(t, "file")
		old := files[path]
		switch {
		case path == GenerationFile:
			files[path] = generationText(t)
		case ownerOf(path).kind == hostsLabel:
			files[path] = separateHost(t, ownerOf(path).name)
		default:
			files[path] += rapid.SampledFrom([]string{"\n// a word\n", "registry: hosts: h0: zone: \"z\"\n", "\nregistry: policies: {}\n"}).Draw(t, "words")
		}
		if !before.Separate || len(before.Findings) > 0 || len(before.Unowned) > 0 {
			return
		}
		change, ok := changes.Of(File{path, []byte(old)}, File{path, []byte(files[path])})
		if !ok {
			refused++
			return
		}
		accepted++
		after := Compile(filesOf(files), Options{})
		if !after.Separate || len(after.Findings) > 0 || len(after.Unowned) > 0 {
			t.Fatalf("%s accepted, separate %v, %v, %v\n%s", path, after.Separate, after.Findings, after.Unowned, dump(filesOf(files)))
		}
		hosts := map[fleet.HostName][]byte{}
		if change.Host != "" {
			hosts[change.Host] = change.Value
		}
		parts, ok := fleet.TakeApart(before.Document, before.Registry)
		if ok {
			parts, ok = parts.Replace(hosts, change.Generation, nil)
		}
		if ok && !bytes.Equal(parts.Document(), after.Document) {
			t.Fatalf("%s comes to\n%s\nwant\n%s\n%s", path, parts.Document(), after.Document, dump(filesOf(files)))
		} else if !ok && bytes.Contains(before.Document, []byte(`"services":{`)) && len(hosts) == 0 && bytes.Contains(before.Document, []byte(`"hosts":{`)) {
			t.Fatalf("nothing replaced in %s", before.Document)
		}
		for p, at := range change.Positions {
			if now := after.Positions[p]; now.File == path && now != at {
				t.Fatalf("%s: %s is at %v, want %v\n%s", path, p, at, now, dump(filesOf(files)))
			}
		}
	})
	if accepted == 0 || refused == 0 {
		t.Errorf("%d accepted, %d refused: the test says nothing", accepted, refused)
	}
}

// separateText is a registry that is separate as a rule.
func separateText(t *rapid.T) map[string]string {
	files := map[string]string{
		"registry.cue":    "package fleet\n\nimport \"" + ImportPath + "\"\n\nregistry: schema.#Registry\n",
		GenerationFile:    generationText(t),
		"services/s0.cue": "package fleet\n\nregistry: service_directory: services: s0: {active_hosts: [\"h0\"], endpoints: h0: url: \"http://127.0.0.1:9000\", consumers: web: {}}\n",
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "hosts") {
		name := fmt.Sprintf("h%d", i)
		files["hosts/"+name+".cue"] = separateHost(t, name)
	}
	switch rapid.IntRange(0, 3).Draw(t, "besides") {
	case 0:
		files["hosts/again/h0.cue"] = separateHost(t, "h0")
	case 1:
		files["shared.cue"] = "package fleet\n\n" + rapid.SampledFrom([]string{
			"registry: hosts: [string]: user: *\"stado\" | string",
			"registry: trust: mode: [\"none\", registry.service_directory.generation][0]",
			"registry: policies: {}",
			"schema: registry\nregistry: policies: {}",
			"registry: hosts: h0: zone: \"z1\"",
			"registry: {}",
			"words: \"of no use\"",
			"_n: registry.service_directory.generation",
			"let n = registry.service_directory.generation\nregistry: policies: change_limits: removed_hosts: n",
		}).Draw(t, "shared") + "\n"
	}
	return files
}

func generationText(t *rapid.T) string {
	return "package fleet\n\n" + rapid.SampledFrom([]string{
		"registry: service_directory: generation: 7", "registry: service_directory: generation: 8", "registry: {service_directory: {generation: 1_000}}",
		"// why\nregistry: service_directory: generation: 9", "registry: service_directory: generation: 0", "registry: service_directory: generation: 3+4",
		"registry: service_directory: generation: 9223372036854775807", "registry: service_directory: generation: 9223372036854775808",
		"registry: service_directory: {generation: 7, authority: {}}", "registry: service_directory: generation: \"7\"",
	}).Draw(t, "generation") + "\n"
}

func separateHost(t *rapid.T, name string) string {
	head := rapid.SampledFrom([]string{"package fleet\n\n", "// why\npackage fleet\n\n", "package fleet\n"}).Draw(t, "head")
	text := rapid.SampledFrom([]string{
		"registry: hosts: %s: zone: \"z1\"", "registry: hosts: %s: zone: \"z1\"", "registry: hosts: %s: labels: a: \"b\"", "registry: hosts: %s: region: \"eu\"", "registry: hosts: %s: {}", "registry: {hosts: {%s: {zone: \"z2\", labels: {role: \"edge\"}}}}",
		"registry: hosts: %s: service_resolver: {api_bind: \"127.0.0.1:7100\", refresh_seconds: 30, max_stale_seconds: 60, adapters: [{service: \"s0\", consumer: \"web\", bind: \"127.0.0.1:7101\"}]}",
		"registry: hosts: %s: labels: g: \"\\(registry.service_directory.generation)\"", "registry: hosts: %s: zone: 3", "registry: hosts: %s: bogus: 3",
		"registry: hosts: %s: zone: \"z1\"\nregistry: hosts: h9: zone: \"z1\"", "registry: hosts: %s: zone: \"z1\"\nother: 1", "// %s", "registry: hosts: %s: zone: \"z1\"\r",
		"registry: hosts: %s: zone: \"z1\"\nregistry: hosts: h0: region: \"r\"", "registry: hosts: %s: zone: ",
	}).Draw(t, "host of "+name)
	return head + strings.ReplaceAll(text, "%s", name) + "\n"
}

// What NewChanges judges beforehand is accepted, so that it goes all the way.
func TestUsualChanges(t *testing.T) {
	t.Parallel()
	for path, text := range map[string]string{"hosts/h.cue": usualHost, GenerationFile: usualGeneration} {
		if _, ok := NewChanges().Of(File{path, []byte(text)}, File{path, []byte(text)}); !ok {
			t.Errorf("%s is not accepted:\n%s", path, text)
		}
	}
}
