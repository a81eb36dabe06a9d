package schema

import (
	"fmt"
	"runtime"
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

// BenchmarkIncremental compiles a registry of which one host changes each time, and holds that nothing piles up: what the thousandth
// compilation leaves in memory is at most a fifth above what the tenth does.
func BenchmarkIncremental(b *testing.B) {
	cache := mapCache{}
	files := map[string]string{}
	schematest.Fleet(100, func(path, text string) { files[path] = text })
	rounds := 0
	compile := func() {
		rounds++
		files[schematest.HostFile(rounds%100)] = schematest.Host(rounds%100, fmt.Sprintf("r%d", rounds), func() int { return 0 })
		if c := cache.compile(filesOf(files)); c.Document == nil || c.Counts.Literal == 0 {
			b.Fatal(c.Counts, c.Findings)
		}
		if rounds%10 == 0 {
			clear(cache) // as a file of results that is bounded
			cache.compile(filesOf(files))
		}
	}
	for b.Loop() {
		compile()
	}
	b.StopTimer()
	var after [2]uint64
	for i, n := range []int{10, 1000} {
		for range n {
			compile()
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		after[i] = m.HeapAlloc
	}
	ratio := float64(after[1]) / float64(after[0])
	b.ReportMetric(ratio, "heap-1000/10")
	if ratio > 1.2 {
		b.Errorf("%d bytes after 1,000 more compilations, %d after 10", after[1], after[0])
	}
}
