package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func newInit(a *app) *cobra.Command {
	var host, ci string
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a registry repository",
		Long: `Make a registry repository in DIR (default: this directory), which must be absent or empty: the binding to the schema, the
vendored schema, one host and one sample service, in one commit on main. Plain 'cue vet -c ./...' passes in it, offline.`,
		Example: "  stado init fleet\n  stado init fleet --host a1",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if ci != "none" {
				return misused(fmt.Errorf("--ci is %q (this version writes none)", ci))
			}
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return a.initRepository(dir, host)
		},
	}
	c.Flags().StringVar(&host, "host", "", "name of the first host (default: this machine's host name)")
	c.Flags().StringVar(&ci, "ci", "none", "continuous integration to write files for: none")
	return c
}

func (a *app) initRepository(dir, host string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return refused(err)
	}
	s, err := scaffoldFor(host)
	if err != nil {
		return misused(err)
	}
	switch state, err := inspectRepository(dir); {
	case err != nil:
		return refused(err)
	case state == repositoryPresent:
		return refused(fmt.Errorf("%s already is a registry repository (edit it; `stado vet %s` judges it)", dir, dir))
	}
	if err := s.write(dir); err != nil {
		return refused(fmt.Errorf("cannot make a registry repository in %s: %w", dir, err))
	}
	fmt.Fprintf(a.stdout, "made a registry repository in %s\nhost      %s\nedit      %s\nvet       stado vet %s\n",
		dir, s.Host, filepath.Join(dir, "hosts", s.Host+".cue"), dir)
	return nil
}

func scaffoldFor(host string) (scaffold, error) {
	if host != "" {
		if !hostnamePattern.MatchString(host) {
			return scaffold{}, fmt.Errorf("--host is %q, which is not a host name (lower-case letters, digits, dots and dashes)", host)
		}
		return newScaffold(host), nil
	}
	name, err := os.Hostname()
	if err != nil {
		return scaffold{}, fmt.Errorf("cannot tell this machine's host name: %w (give --host)", err)
	}
	return newScaffold(name), nil
}
