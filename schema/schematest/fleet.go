// Package schematest writes registries of any size, for tests and benchmarks.
package schematest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// perSite is how many hosts share a directory, so that no directory of a large fleet is large.
const perSite = 200

// Fleet gives the files of a registry of n hosts with ten adapters each, and a tenth as many services (at least 20) with three endpoints
// each, one file per host and per service: the path and the text. The same n gives the same files. The vendored schema is not among them.
func Fleet(n int, file func(path, text string)) {
	file("cue.mod/module.cue", "module: \"fleet.example@v0\"\nlanguage: version: \"v0.14.0\"\n")
	file("registry.cue", "package fleet\n\nimport \"stado.internal/schema\"\n\nregistry: schema.#Registry\n")
	file("generation.cue", "package fleet\n\nregistry: service_directory: generation: 1\n")
	services := max(20, n/10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		file(HostFile(i), Host(i, fmt.Sprintf("r%d", i%7), func() int { return rng.IntN(services) }))
	}
	for i := range services {
		file(fmt.Sprintf("services/svc%04d.cue", i), service(i, n))
	}
}

// HostFile is the path of the i-th host's file.
func HostFile(i int) string { return fmt.Sprintf("hosts/s%02d/%s.cue", i/perSite, host(i)) }

// Host is the text of the i-th host's file, in a region, with adapters for ten services that pick chooses by number.
func Host(i int, region string, pick func() int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package fleet\n\nregistry: hosts: %s: {\n\tssh: \"stado@[10.%d.%d.%d]:2222\"\n\tregion: %q\n\tlabels: {role: \"edge\"}\n", host(i), i>>16, i>>8&255, i&255, region)
	b.WriteString("\tservice_resolver: {\n\t\tapi_bind: \"127.0.0.1:7100\"\n\t\trefresh_seconds: 30\n\t\tmax_stale_seconds: 300\n\t\tadapters: [\n")
	for r := range 10 {
		fmt.Fprintf(&b, "\t\t\t{service: \"svc%04d\", consumer: \"c%d\", bind: \"127.0.0.1:%d\"},\n", pick(), r, 7101+r)
	}
	b.WriteString("\t\t]\n\t}\n}\n")
	return b.String()
}

func host(i int) string { return fmt.Sprintf("h%05d", i) }

func service(i, hosts int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package fleet\n\nregistry: service_directory: services: svc%04d: {\n\tactive_hosts: [%q]\n\tendpoints: {\n", i, host(i*3%hosts))
	for e := range 3 {
		fmt.Fprintf(&b, "\t\t%s: url: \"http://127.0.0.1:%d\"\n", host((i*3+e)%hosts), 9000+i%1000)
	}
	b.WriteString("\t}\n\tconsumers: {\n")
	for r := range 10 {
		fmt.Fprintf(&b, "\t\tc%d: {}\n", r)
	}
	b.WriteString("\t}\n}\n")
	return b.String()
}
