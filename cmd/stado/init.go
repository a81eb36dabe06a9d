package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

func newInit(a *app) *cobra.Command {
	var host string
	var forge integration
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a registry repository",
		Long: `Make a registry repository in DIR (default: this directory), which must be absent or empty: the binding to the schema, the
vendored schema, one host and one sample service, in one commit on main. Plain 'cue vet -c ./...' passes in it, offline.

With --ci github or gitlab it also gets the files with which the forge judges every change and gives merged changes their generation
(generation_mode "stamped"), CODEOWNERS, and a configuration for pre-commit. The forge runs the program that wrote the files, known
by its digest, from the address of --binary; without --binary from the one in the variable STADO_URL of the project, which GitHub
does not show to pull requests from forks.`,
		Example: "  stado init fleet\n  stado init fleet --host a1\n  stado init fleet --ci github --binary https://dl.example.net/stado --owner @acme/platform",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := forge.check(); err != nil {
				return misused(err)
			}
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return a.initRepository(dir, host, forge)
		},
	}
	f := c.Flags()
	f.StringVar(&host, "host", "", "name of the first host (default: this machine's host name)")
	f.StringVar(&forge.CI, "ci", ciNone, "continuous integration to write files for: "+strings.Join(knownCI(), ", "))
	f.StringVar(&forge.Binary, "binary", "", "https address of this program, for the forge to run")
	f.StringVar(&forge.Owner, "owner", "", "who reviews what concerns the whole fleet, such as @acme/platform")
	return c
}

func (a *app) initRepository(dir, host string, forge integration) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return refused(err)
	}
	s, err := scaffoldFor(host)
	if err != nil {
		return misused(err)
	}
	s.integration = forge
	if forge.Stamped() {
		if s.Digest, err = ownDigest(); err != nil {
			return refused(err)
		}
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
		dir, s.Host, filepath.Join(dir, "hosts", schema.EntryFile(s.Host)), dir)
	return nil
}

func scaffoldFor(host string) (scaffold, error) {
	if host != "" {
		if err := checkName("host", host); err != nil { // the rule of host add: what somebody names keeps its name
			return scaffold{}, fmt.Errorf("--host: %w", err)
		}
		return newScaffold(host), nil
	}
	name, err := os.Hostname()
	if err != nil {
		return scaffold{}, fmt.Errorf("cannot tell this machine's host name: %w (give --host)", err)
	}
	host = hostLabel(name)
	s := newScaffold(host)
	if full := fleet.NormalizeIdentity(name); full != host && identifier.MatchString(full) {
		s.Hostnames = append(s.Hostnames, full)
	}
	return s, nil
}
