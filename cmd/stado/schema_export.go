package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

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

// vendored opens the folder of the vendored schema inside a registry repository. Nothing on the way may be a symbolic link: the repository
// is somebody's pull request, and what it points at is not its to show, write or delete. It is nil when there is no such folder. What stands
// in its place is an [*obstacle].
func vendored(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	below := ""
	for part := range strings.SplitSeq(schema.VendorDir(), "/") {
		below = path.Join(below, part)
		info, err := root.Lstat(part)
		if errors.Is(err, os.ErrNotExist) {
			return nil, root.Close()
		}
		if err == nil && !info.IsDir() {
			err = &obstacle{path: below}
		}
		if err != nil {
			return nil, errors.Join(err, root.Close())
		}
		next, err := root.OpenRoot(part)
		if err := errors.Join(err, root.Close()); err != nil {
			return nil, err
		}
		root = next
	}
	return root, nil
}

// obstacle is a link or a file where the vendored schema has a directory; its path is that inside the repository.
type obstacle struct{ path string }

func (o *obstacle) Error() string {
	return o.path + " is not a directory (remove it; the vendored schema is written there)"
}

// vendoredDrift lists the files of the vendored schema, by path inside the repository, that differ from this version's: changed, missing
// or not ours. Where a directory of it is none, that alone is listed.
func vendoredDrift(dir string) (drift []string, err error) {
	ours := map[string][]byte{}
	for _, f := range schema.Files() {
		ours[f.Path] = f.Data
	}
	found := map[string]bool{}
	for name := range ours {
		found[name] = false // until it is seen: a missing file differs
	}
	root, err := vendored(dir)
	if o, ok := errors.AsType[*obstacle](err); ok {
		return []string{o.path}, nil
	}
	if err != nil {
		return nil, err
	}
	if root != nil {
		defer func() { err = errors.Join(err, root.Close()) }()
		entries, err := fs.ReadDir(root.FS(), ".")
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			want, known := ours[e.Name()]
			found[e.Name()] = known && e.Type().IsRegular() && holds(root, e.Name(), want)
		}
	}
	for name, same := range found {
		if !same {
			drift = append(drift, schema.VendorDir()+"/"+name)
		}
	}
	slices.Sort(drift)
	return drift, nil
}

// holds reads no more than it compares, and does not wait on what is no regular file after all.
func holds(root *os.Root, name string, want []byte) bool {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(want)) {
		return false
	}
	got, err := io.ReadAll(io.LimitReader(f, int64(len(want))+1))
	return err == nil && bytes.Equal(got, want)
}

func exportSchema(dir string, drift []string) error {
	if _, err := os.Stat(filepath.Join(dir, "cue.mod", "module.cue")); err != nil {
		return refused(fmt.Errorf("%s is not a registry repository: it has no cue.mod/module.cue (run `stado init` in an empty directory)", dir))
	}
	target := filepath.Join(dir, filepath.FromSlash(schema.VendorDir()))
	if root, err := vendored(dir); err != nil { // before anything is made: a link on the way would lead it elsewhere
		return refused(err)
	} else if root != nil {
		_ = root.Close() // nothing was written through it
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return refused(err)
	}
	root, err := vendored(dir)
	if err != nil {
		return refused(err)
	}
	defer func() { _ = root.Close() }() // nothing is written through it
	ours := map[string]bool{}
	folder := durable.Folder{Path: target}
	for _, f := range schema.Files() {
		ours[f.Path] = true
		if err := folder.Write(f.Path, f.Data, 0o644); err != nil {
			return refused(err)
		}
	}
	for _, p := range drift {
		if name := path.Base(p); !ours[name] {
			if err := root.Remove(name); err != nil {
				return refused(fmt.Errorf("cannot remove what is no file of the schema: %w", err))
			}
		}
	}
	return nil
}
