// Command startup does what an agent does before it serves: it loads the registry that its host holds and works out what the host serves
// of it. It is a process of its own, as an agent that starts is, so that a benchmark can measure it. It prints the nanoseconds that it took.
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/reconcile/store"
)

func main() {
	start := time.Now()
	view, err := store.Read(os.Args[1])
	if err != nil || view.Snapshot == nil {
		log.Fatalf("nothing is held in %s: %v", os.Args[1], err)
	}
	if table, err := route.NewTable(view.Snapshot, view.Snapshot.Registry.HostNames()[0]); err != nil || len(table.Routes()) == 0 {
		log.Fatalf("nothing is served: %v", err)
	}
	fmt.Println(time.Since(start).Nanoseconds())
}
