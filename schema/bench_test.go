package schema

import (
	"fmt"
	"testing"
)

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{100, 1000} {
		files := syntheticFleet(n)
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
