package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/reconcile/store"
)

func newRegistryLog(a *app) *cobra.Command {
	var asJSON bool
	var count int
	c := &cobra.Command{
		Use:     "log",
		Short:   "List the generations this host admitted, newest first",
		Example: "  stado registry log\n  stado registry log -n 5 --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if count < 1 {
				return misused(fmt.Errorf("--count is %d (write a number above zero)", count))
			}
			home, err := a.clientHome(filepath.Join(registryFolder, "held.json"))
			if err != nil {
				return refused(err)
			}
			entries, err := store.ReadLog(filepath.Join(home, registryFolder))
			if err != nil && len(entries) == 0 {
				return refused(err)
			}
			if err != nil {
				fmt.Fprintln(a.stderr, err) // the other lines are whole
			}
			if len(entries) > count {
				entries = entries[len(entries)-count:]
			}
			newest := make([]store.Admission, 0, len(entries))
			for i := len(entries) - 1; i >= 0; i-- {
				newest = append(newest, entries[i])
			}
			if asJSON {
				return a.printJSON(newest)
			}
			rows := [][]string{{"GENERATION", "COMMIT", "ADMITTED", "PROVENANCE", "SUBJECT"}}
			for _, e := range newest {
				subject := e.Subject
				if e.Reset != nil {
					subject += " (reset accepted, from " + short(e.Reset.FromCommit) + ": " + e.Reset.Reason + ")"
				}
				rows = append(rows, []string{fmt.Sprint(e.Generation), short(e.Commit), e.At.UTC().Format(time.RFC3339), string(e.Provenance), subject})
			}
			return a.table(rows)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().IntVarP(&count, "count", "n", 50, "how many at the most")
	return c
}

func short(commit string) string { return dash(fmt.Sprintf("%.12s", commit)) }
