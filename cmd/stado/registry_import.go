package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/change"
)

// maxDocument bounds a whole registry as JSON: as much as the files of one may have together.
const maxDocument = 64 << 20

// importReceipt is the JSON answer of `stado registry import`.
type importReceipt struct {
	Status     string           `json:"status"`
	Repository string           `json:"repository"`
	Generation fleet.Generation `json:"registry_generation"`
	Digest     string           `json:"digest"`
	Hosts      int              `json:"hosts"`
	Services   int              `json:"services"`
}

func newRegistryImport(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "import PATH|- [DIR]",
		Short: "Make a registry repository of a document",
		Long: `Make a registry repository in DIR (default: registry), which must be absent or empty, of the compiled document PATH, as
'stado registry export' prints it: one file per host and service, the generation and the authority in files of their own, in one
commit on main. The document is judged first, as every agent would judge the repository; a field that is unknown, or was retired, is
refused by name and line. To change a repository that exists, use 'stado registry push'.`,
		Example: "  stado registry import registry.json fleet\n  stado registry export | stado registry import - fleet",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "registry"
			if len(args) == 2 {
				dir = args[1]
			}
			answer, err := importDocument(c, args[0], dir)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(answer)
			}
			fmt.Fprintf(a.stdout, "made a registry repository in %s: %d host(s), %d service(s), generation %d\n",
				answer.Repository, answer.Hosts, answer.Services, answer.Generation)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the receipt as JSON")
	return c
}

func importDocument(c *cobra.Command, path, dir string) (importReceipt, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return importReceipt{}, refused(err)
	}
	switch state, err := inspectRepository(dir); {
	case err != nil:
		return importReceipt{}, refused(err)
	case state == repositoryPresent:
		return importReceipt{}, refused(fmt.Errorf("%s already is a registry repository (`stado registry push %s --repository %s` changes it)", dir, path, dir))
	}
	document, _, err := readDocument(c, path)
	if err != nil {
		return importReceipt{}, err
	}
	// The rest of a repository is that of a new one.
	files, err := scaffold{}.files()
	if err != nil {
		return importReceipt{}, refused(err)
	}
	for name := range files {
		if strings.HasPrefix(name, "hosts/") || strings.HasPrefix(name, "services/") || name == "generation.cue" {
			delete(files, name)
		}
	}
	maps.Copy(files, document.Files)
	r := document.Registry
	if err := writeRepository(dir, files, fmt.Sprintf("registry: import of generation %d", r.Directory.Generation)); err != nil {
		return importReceipt{}, refused(fmt.Errorf("cannot make a registry repository in %s: %w", dir, err))
	}
	return importReceipt{
		Status: "imported", Repository: dir, Generation: r.Directory.Generation, Digest: document.Digest,
		Hosts: len(r.Hosts), Services: len(r.Directory.Services),
	}, nil
}

// readDocument reads and judges a whole registry, and gives the name under which it was read.
func readDocument(c *cobra.Command, path string) (change.Document, string, error) {
	name, data, err := readInput(path, c.InOrStdin(), maxDocument)
	if err != nil {
		return change.Document{}, name, refused(fmt.Errorf("cannot read the document: %w", err))
	}
	evaluator, err := evaluator(config.Evaluation{})
	if err != nil {
		return change.Document{}, name, refused(err)
	}
	document, err := change.ReadDocument(c.Context(), evaluator, name, data)
	if err != nil {
		return document, name, refused(err)
	}
	return document, name, nil
}
