package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/schema"
)

func newSchemaExport(a *app) *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "export [DIR]",
		Short: "Write this version's schema into a registry repository",
		Long: `Write the schema of this version into cue.mod/pkg of the registry repository DIR (default: this directory), where plain cue
finds it. Agents never read that copy: they judge with the one inside their own binary.`,
		Example: "  stado schema export .\n  stado schema export --check .",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			drift, err := vendoredDrift(dir)
			if err != nil {
				return refused(err)
			}
			if check {
				for _, p := range drift {
					fmt.Fprintln(a.stdout, p)
				}
				if len(drift) > 0 {
					return refused(fmt.Errorf("the vendored schema in %s differs from this version's (run `stado schema export %s`)", dir, dir))
				}
				return nil
			}
			return exportSchema(dir, drift)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "write nothing; list the files that differ and exit 1 if any does")
	return c
}

// vendoredDrift lists the files of the vendored schema, by path inside the repository, that differ from this version's: changed, missing
// or not ours.
func vendoredDrift(dir string) ([]string, error) {
	folder := filepath.Join(dir, filepath.FromSlash(schema.VendorDir()))
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var files []schema.File
	for _, e := range entries {
		f := schema.File{Path: schema.VendorDir() + "/" + e.Name()}
		if e.Type().IsRegular() {
			if f.Data, err = os.ReadFile(filepath.Join(folder, e.Name())); err != nil {
				return nil, err
			}
		}
		files = append(files, f)
	}
	return schema.VendorDrift(files), nil
}

func exportSchema(dir string, drift []string) error {
	if _, err := os.Stat(filepath.Join(dir, "cue.mod", "module.cue")); err != nil {
		return refused(fmt.Errorf("%s is not a registry repository: it has no cue.mod/module.cue (run `stado init` in an empty directory)", dir))
	}
	target := filepath.Join(dir, filepath.FromSlash(schema.VendorDir()))
	if err := os.MkdirAll(target, 0o755); err != nil {
		return refused(err)
	}
	folder := durable.Folder{Path: target}
	for _, f := range schema.Files() {
		if err := folder.Write(f.Path, f.Data, 0o644); err != nil {
			return refused(err)
		}
		drift = slices.DeleteFunc(drift, func(p string) bool { return p == schema.VendorDir()+"/"+f.Path })
	}
	for _, stray := range drift {
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(stray))); err != nil {
			return refused(err)
		}
	}
	return nil
}
