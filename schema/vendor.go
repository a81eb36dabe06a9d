package schema

import (
	"bytes"
	"slices"
	"strings"
)

// VendorDrift lists the files of a registry's vendored schema that differ from the embedded one, sorted by path: changed, missing, or
// not ours. files may be those of the whole registry. Agents never read the vendored schema; drift only means that plain `cue vet` judges
// otherwise than they do.
func VendorDrift(files []File) []string {
	vendored := map[string][]byte{}
	for _, f := range files {
		if strings.HasPrefix(f.Path, VendorDir()+"/") {
			vendored[f.Path] = f.Data
		}
	}
	var drift []string
	for _, want := range Files() {
		p := VendorDir() + "/" + want.Path
		if got, ok := vendored[p]; !ok || !bytes.Equal(got, want.Data) {
			drift = append(drift, p)
		}
		delete(vendored, p)
	}
	for stray := range vendored {
		drift = append(drift, stray)
	}
	slices.Sort(drift)
	return drift
}
