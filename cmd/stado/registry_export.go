package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/change"
	"stado.internal/stado/schema/edit"
)

func newRegistryExport(a *app) *cobra.Command {
	var repository, rev, format string
	c := &cobra.Command{
		Use:   "export",
		Short: "Print a registry as one document",
		Long: `Print the registry that this host holds, or with --repository the one of a repository's commit, as one document: the compiled
JSON, or one CUE file that says the same. 'stado registry import' makes a repository of the JSON again.`,
		Example: "  stado registry export >registry.json\n  stado registry export --repository . --rev origin/main --format cue",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "json" && format != "cue" {
				return misused(fmt.Errorf("--format is %q (write json or cue)", format))
			}
			if rev != "" && repository == "" {
				return misused(fmt.Errorf("--rev names a commit of no repository (add --repository)"))
			}
			document, err := a.exported(c, repository, rev)
			if err != nil {
				return err
			}
			if format == "json" {
				return a.printJSON(json.RawMessage(document))
			}
			return a.printCUE(document)
		},
	}
	c.Flags().StringVar(&repository, "repository", "", "export the registry of this repository instead of the held one")
	c.Flags().StringVar(&rev, "rev", "", "the commit to export, with --repository (default HEAD)")
	c.Flags().StringVar(&format, "format", "json", "form of the document: json or cue")
	return c
}

// exported is the compiled document that is to be printed.
func (a *app) exported(c *cobra.Command, repository, rev string) ([]byte, error) {
	if repository == "" {
		s, err := a.held()
		if err != nil {
			return nil, err
		}
		return s.Document, nil
	}
	if rev == "" {
		rev = "HEAD"
	}
	evaluator, err := evaluator(config.Evaluation{})
	if err != nil {
		return nil, refused(err)
	}
	v, err := evaluator.Commit(c.Context(), repository, rev)
	switch {
	case err != nil:
		return nil, refused(err)
	case v.Findings.Refuses():
		return nil, refused(&change.RefusedError{Message: fmt.Sprintf("the registry at %s is refused", rev), Findings: v.Findings})
	}
	return v.Document, nil
}

func (a *app) printCUE(document []byte) error {
	v, err := edit.ReadJSON("", document)
	if err != nil {
		return refused(err)
	}
	f, err := change.NewFile("registry.cue", v)
	if err != nil {
		return refused(err)
	}
	_, err = a.stdout.Write(f.Bytes())
	return err
}

// pullReceipt is the JSON answer of `stado registry pull --with-generation`. Generation is the version of the store, a commit, as it is
// in the receipts of a push; the number of the service directory has a name of its own.
type pullReceipt struct {
	Schema              string           `json:"schema"`
	Location            string           `json:"location"`
	Generation          string           `json:"generation"`
	DirectoryGeneration fleet.Generation `json:"directory_generation"`
	Document            json.RawMessage  `json:"document"`
}

func newRegistryPull(a *app) *cobra.Command {
	var repository, remote string
	var only, with bool
	c := &cobra.Command{
		Use:   "pull",
		Short: "Print the newest registry of the store",
		Long: `Print the compiled document that the store holds now: the branch of the repository's remote, or of the repository itself when it
has no remote. The version of the store is a commit id: --generation-only prints it alone, --with-generation a receipt with both, and
'stado registry push --if-generation' takes it. Neither the branch here nor the work tree moves.

Exit status: 0 done, 1 refused, 2 usage, 69 the remote does not answer.`,
		Example: "  stado registry pull >registry.json\n  stado registry pull --generation-only",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf(c, "generation-only", "with-generation"); err != nil {
				return misused(err)
			}
			held, err := a.pull(c, change.Options{Dir: repository, Remote: remote})
			switch {
			case err != nil:
				return err
			case only:
				fmt.Fprintln(a.stdout, held.Commit)
				return nil
			case with:
				return a.printJSON(pullReceipt{
					"stado.registry-pull-receipt.v1", held.Location, held.Commit, held.Registry.Directory.Generation, held.Document,
				})
			}
			return a.printJSON(json.RawMessage(held.Document))
		},
	}
	c.Flags().StringVar(&repository, "repository", ".", "the registry repository, bare or with a work tree")
	c.Flags().StringVar(&remote, "remote", "", "the remote to read (default: the branch's own, else origin, else the repository itself)")
	c.Flags().BoolVar(&only, "generation-only", false, "print the version of the store and nothing else")
	c.Flags().BoolVar(&with, "with-generation", false, "print a receipt with the version and the document")
	return c
}

func (a *app) pull(c *cobra.Command, o change.Options) (change.Held, error) {
	evaluator, err := evaluator(config.Evaluation{})
	if err != nil {
		return change.Held{}, refused(err)
	}
	o.Evaluator = evaluator
	if _, o.Push, err = change.Store(c.Context(), o); err != nil {
		return change.Held{}, changeExit(err)
	}
	held, err := change.Read(c.Context(), o)
	return held, changeExit(err)
}
