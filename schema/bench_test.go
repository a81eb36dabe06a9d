package schema

import (
	"fmt"
	"testing"

	"stado.internal/stado/schema/schematest"
)

// fleetOf is a generated registry of n hosts.
func fleetOf(n int) []File {
	var files []File
	schematest.Fleet(n, func(path, text string) { files = append(files, File{path, []byte(text)}) })
	return files
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{100, 1000} {
		files := fleetOf(n)
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c := Compile(files, Options{}); c.Document == nil {
					b.Fatal(c.Findings)
				}
			}
		})
	}
}
