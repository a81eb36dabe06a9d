package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/reconcile/source"
)

// sandboxVerb is the hidden verb under which this program runs itself for work that it does not trust.
const sandboxVerb = "sandbox"

// childCommand is the command line of the limited child. The path is resolved now: after an upgrade in place /proc/self/exe still
// names the running image, so parent and child always speak the same version.
func childCommand() ([]string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return []string{self, sandboxVerb}, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program's own file, which it runs for evaluation: %w", err)
	}
	return []string{exe, sandboxVerb}, nil
}

func newSandbox(a *app) *cobra.Command {
	return &cobra.Command{
		Use: sandboxVerb, Short: "Run one piece of untrusted work under limits (started by stado itself)", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if code := sandbox.Serve(c.Context(), source.Tasks()); code != 0 {
				return &exitError{code: code}
			}
			return nil
		},
	}
}
