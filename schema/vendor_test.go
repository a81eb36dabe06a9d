package schema_test

import (
	"slices"
	"testing"

	"stado.internal/stado/schema"
)

func TestVendorDrift(t *testing.T) {
	t.Parallel()
	whole := []schema.File{{Path: "registry.cue", Data: []byte("package fleet\n")}}
	for _, f := range schema.Files() {
		whole = append(whole, schema.File{Path: schema.VendorDir() + "/" + f.Path, Data: f.Data})
	}
	if drift := schema.VendorDrift(whole); len(drift) != 0 {
		t.Errorf("this version's own schema drifts: %v", drift)
	}
	if drift := schema.VendorDrift(nil); len(drift) != len(schema.Files()) {
		t.Errorf("nothing is vendored, and what is missing is %v", drift)
	}
	first, last := whole[1], whole[len(whole)-1]
	stray := schema.File{Path: schema.VendorDir() + "/zzz.cue", Data: []byte("package schema\n")}
	changed := schema.File{Path: first.Path, Data: append(slices.Clone(first.Data), '\n')}
	files := append(slices.Clone(whole[2:len(whole)-1]), stray, changed)
	if drift := schema.VendorDrift(files); !slices.Equal(drift, []string{first.Path, last.Path, stray.Path}) {
		t.Errorf("got %v", drift)
	}
}
