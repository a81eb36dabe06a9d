package schema

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// syntheticFleet is a registry of n hosts with ten adapters each, and a tenth as many services with three endpoints each.
func syntheticFleet(n int) []File {
	rng := rand.New(rand.NewPCG(1, 2))
	services := max(20, n/10)
	host := func(i int) string { return fmt.Sprintf("h%05d", i%n) }
	files := withBase(nil)
	for i := range n {
		var b strings.Builder
		fmt.Fprintf(&b, "package fleet\n\nregistry: hosts: %s: {\n\tssh: \"stado@[10.%d.%d.%d]:2222\"\n\tregion: \"r%d\"\n\tlabels: {role: \"edge\"}\n", host(i), i>>16, i>>8&255, i&255, i%7)
		b.WriteString("\tservice_resolver: {\n\t\tapi_bind: \"127.0.0.1:7100\"\n\t\trefresh_seconds: 30\n\t\tmax_stale_seconds: 300\n\t\tadapters: [\n")
		for r := range 10 {
			fmt.Fprintf(&b, "\t\t\t{service: \"svc%04d\", consumer: \"c%d\", bind: \"127.0.0.1:%d\"},\n", rng.IntN(services), r, 7101+r)
		}
		b.WriteString("\t\t]\n\t}\n}\n")
		files = append(files, File{"hosts/" + host(i) + ".cue", []byte(b.String())})
	}
	for i := range services {
		var b strings.Builder
		fmt.Fprintf(&b, "package fleet\n\nregistry: service_directory: services: svc%04d: {\n\tactive_hosts: [%q]\n\tendpoints: {\n", i, host(i*3))
		for e := range 3 {
			fmt.Fprintf(&b, "\t\t%s: url: \"http://127.0.0.1:%d\"\n", host(i*3+e), 9000+i%1000)
		}
		b.WriteString("\t}\n\tconsumers: {\n")
		for r := range 10 {
			fmt.Fprintf(&b, "\t\tc%d: {}\n", r)
		}
		b.WriteString("\t}\n}\n")
		files = append(files, File{fmt.Sprintf("services/svc%04d.cue", i), []byte(b.String())})
	}
	return files
}
