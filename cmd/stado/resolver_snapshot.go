package main

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

// snapshotAnswer is what another host reads from this one: exactly these two members.
type snapshotAnswer struct {
	StoreVersion string          `json:"store_version"`
	Document     json.RawMessage `json:"document"`
}

func newResolverSnapshot(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "snapshot",
		Short:   "Print the registry snapshot this host holds, with its version",
		Long:    "Print the registry snapshot this host holds as one JSON object: store_version (the commit) and document (the compiled registry).",
		Example: "  stado resolver snapshot | jq .document.service_directory.generation",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := a.held()
			if err != nil {
				return err
			}
			version := s.Commit
			if version == "" {
				version = string(s.Provenance)
			}
			// The document goes out byte for byte: whoever reads it may compare its digest.
			enc := json.NewEncoder(a.stdout)
			enc.SetEscapeHTML(false)
			return enc.Encode(snapshotAnswer{StoreVersion: version, Document: s.Document})
		},
	}
}
