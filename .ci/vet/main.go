// Command vet is the house's own vet tool: analyzers that neither `go vet` nor staticcheck runs, with the house's choices. It is run
// as `go vet -vettool=…`, once per package, with the results in the build cache.
package main

import (
	"go/ast"
	"log"
	"slices"
	"strings"

	"github.com/kisielk/errcheck/errcheck"
	"github.com/nishanths/exhaustive"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/nilness"
	"golang.org/x/tools/go/analysis/passes/unusedwrite"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	// A default answers for the members of an enum that a switch does not name; without one it must name all of them. Only our own
	// enums are meant: those of others grow without us.
	for flag, value := range map[string]string{"d": "true", "typeonly": `^stado\.internal/`} {
		if err := exhaustive.Analyzer.Flags.Set(flag, value); err != nil {
			log.Fatalf("cannot set up the exhaustive analyzer: %v", err)
		}
	}
	errcheck.DefaultExcludedSymbols = append(errcheck.DefaultExcludedSymbols, unchecked()...)
	unitchecker.Main(exhaustive.Analyzer, outsideTests(errcheck.Analyzer), nilness.Analyzer, unusedwrite.Analyzer)
}

// unchecked lists the calls whose error tells nobody anything. What is not listed is handled, or dropped visibly with `_ =`.
func unchecked() []string {
	return []string{
		// A program whose output has nobody behind it has nobody to tell.
		"fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln",
		// Closing something that was read from, or a connection that is over. Files that must survive are written by reconcile/durable,
		// which looks at every step.
		"(*os.File).Close", "(io.Closer).Close", "(io.ReadCloser).Close",
		"(net.Conn).Close", "(*net.TCPConn).Close", "(*net.UnixConn).Close",
		"(net.Listener).Close", "(*net.TCPListener).Close", "(*net.UnixListener).Close",
	}
}

// outsideTests runs an analyzer on everything but test files, where the assertion that follows tells what went wrong.
func outsideTests(a *analysis.Analyzer) *analysis.Analyzer {
	wrapped := *a
	wrapped.Run = func(pass *analysis.Pass) (any, error) {
		rest := *pass
		rest.Files = slices.DeleteFunc(slices.Clone(pass.Files), func(f *ast.File) bool {
			return strings.HasSuffix(pass.Fset.File(f.Pos()).Name(), "_test.go")
		})
		return a.Run(&rest)
	}
	return &wrapped
}
