// Command child is the program that the tests of source start as their sandbox.
package main

import (
	"context"
	"os"

	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/reconcile/source"
)

func main() {
	os.Exit(sandbox.Serve(context.Background(), source.Tasks()))
}
