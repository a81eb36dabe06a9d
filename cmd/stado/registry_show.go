package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newRegistryShow(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the registry this host holds",
		Long: `Print the registry this host holds: what it serves, or would serve with its authority silent. With --json the compiled
document is printed byte for byte as it was admitted: its SHA-256 is the digest.`,
		Example: "  stado registry show\n  stado registry show --json | jq .hosts",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := a.held()
			if err != nil {
				return err
			}
			if asJSON {
				_, err := a.stdout.Write(s.Document) // byte for byte, so that its SHA-256 is the digest
				return err
			}
			r := s.Registry
			fmt.Fprintf(a.stdout, "generation %d\ncommit     %s\ndigest     %s\nprovenance %s\n", s.Generation(), dash(s.Commit), s.Digest, s.Provenance)
			switch au := r.Directory.Authority; {
			case au.Host != "":
				fmt.Fprintf(a.stdout, "authority  %s (branch %s of %s)\n", au.Host, au.Branch, au.Repository)
			case au.Remote != "":
				fmt.Fprintf(a.stdout, "authority  %s (branch %s)\n", au.Remote, au.Branch)
			}
			fmt.Fprintf(a.stdout, "hosts      %d\nservices   %d\n", len(r.Hosts), len(r.Directory.Services))
			for _, h := range r.HostNames() {
				res := r.Hosts[h].Resolver
				if res == nil {
					fmt.Fprintf(a.stdout, "\nhost %s (no resolver)\n", h)
					continue
				}
				fmt.Fprintf(a.stdout, "\nhost %s api=%s refresh=%ds\n", h, res.APIBind, res.RefreshSeconds)
				for _, ad := range res.Adapters {
					fmt.Fprintf(a.stdout, "  adapter %s consumer=%s %s %s\n", ad.Service, ad.Consumer, ad.Bind, r.AdapterProtocol(ad))
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the compiled document")
	return c
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
