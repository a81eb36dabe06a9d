package schema_test

import (
	"slices"
	"testing"

	"stado.internal/stado/schema"
)

func TestVendorDrift(t *testing.T) {
	t.Parallel()
	bound := schema.File{Path: "registry.cue", Data: []byte("package fleet\n\nimport \"stado.internal/schema\"\n\nregistry: schema.#Registry\n")}
	module := schema.File{Path: schema.ModuleFile, Data: []byte("module: \"f.example@v0\"\nlanguage: version: \"v0.14.0\"\n")}
	whole := []schema.File{bound}
	for _, f := range schema.Files() {
		whole = append(whole, schema.File{Path: schema.VendorDir() + "/" + f.Path, Data: f.Data})
	}
	if drift := schema.VendorDrift(append(slices.Clone(whole), module)); len(drift) != 0 {
		t.Errorf("this version's own schema drifts: %v", drift)
	}
	if drift := schema.VendorDrift(nil); len(drift) != len(schema.Files())+2 {
		t.Errorf("nothing is vendored, and what is missing is %v", drift)
	}
	first, last := whole[1], whole[len(whole)-1]
	stray := schema.File{Path: schema.VendorDir() + "/zzz.cue", Data: []byte("package schema\n")}
	changed := schema.File{Path: first.Path, Data: append(slices.Clone(first.Data), '\n')}
	files := append(slices.Clone(whole[2:len(whole)-1]), stray, changed, bound)
	if drift := schema.VendorDrift(files); !slices.Equal(drift, []string{schema.ModuleFile, first.Path, last.Path, stray.Path}) {
		t.Errorf("got %v", drift)
	}
}

// Plain `cue vet` checks nothing where no file of the top directory binds the registry to the schema.
func TestBinding(t *testing.T) {
	t.Parallel()
	for text, bound := range map[string]bool{
		"import \"stado.internal/schema\"\nregistry: schema.#Registry":                         true,
		"import s \"stado.internal/schema\"\nregistry: s.#Registry & {hosts: {}}":              true,
		"import \"stado.internal/schema\"\nregistry: {schema.#Registry, hosts: {}}":            true,
		"import \"stado.internal/schema\"\nregistry: hosts: {}\nregistry: (schema.#Registry)":  true,
		"import \"stado.internal/schema\"\nregistry: hosts: a1: schema.#Host":                  false,
		"import \"stado.internal/schema\"\n_registry: schema.#Registry":                        false,
		"import \"stado.internal/schema\"\nregistry: schema.#Registry | {...}":                 false,
		"import s \"stado.internal/schema\"\nregistry: schema.#Registry\nschema: #Registry: _": false,
		"schema: \"stado.internal/schema\"\nregistry: schema.#Registry":                        false,
		"import \"stado.internal/schema\"\nregistry: schema.#Registry &":                       false,
	} {
		for file, read := range map[string]bool{"registry.cue": true, "other.cue": true, "hosts/a1.cue": false, "_old.cue": false, "registry.txt": false} {
			drift := schema.VendorDrift([]schema.File{{Path: file, Data: []byte("package fleet\n" + text + "\n")}})
			if got := !slices.Contains(drift, schema.BindingFile); got != (bound && read) {
				t.Errorf("%s with %q: bound is %t", file, text, got)
			}
		}
	}
}
