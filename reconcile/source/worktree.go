package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// dirGate is a gate over a directory of the file system. It judges the size of CUE files only: what else lies in a working directory
// need not be meant for a commit.
type dirGate struct {
	gate
	root  *os.Root
	paths []string
}

// readDir reads the CUE files below a directory, tracked by git or not.
func readDir(dir string, p func(sandbox.Progress)) (_ []schema.File, _ fleet.Findings, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	g := &dirGate{root: root}
	p(sandbox.Progress{Phase: PhaseRead, File: "/"})
	if err := g.walk(".", 1); err != nil {
		return nil, nil, err
	}
	if len(g.findings) > 0 {
		return nil, g.findings, nil
	}
	files := make([]schema.File, 0, len(g.paths))
	for _, name := range g.paths {
		p(sandbox.Progress{Phase: PhaseRead, File: name})
		data, err := g.read(name)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, schema.File{Path: name, Data: data})
	}
	return files, nil, nil
}

func (g *dirGate) walk(dir string, depth int) error {
	d, err := g.root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(-1)
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var names []string
	for _, e := range entries {
		if e.Name() == ".git" { // the repository's own at the top, somebody else's below
			if dir != "." {
				g.submodule(path.Join(dir, ".git"))
			}
			continue
		}
		if !g.enter(dir, e.Name(), depth) {
			if g.full() || g.entries > maxEntries {
				return nil
			}
			continue
		}
		names = append(names, e.Name())
		if err := g.entry(path.Join(dir, e.Name()), e, depth); err != nil {
			return err
		}
	}
	g.cases(dir, names)
	return nil
}

func (g *dirGate) entry(file string, e fs.DirEntry, depth int) error {
	switch {
	case e.IsDir():
		if hidden(e.Name()) {
			return nil
		}
		return g.walk(file, depth+1)
	case e.Type()&fs.ModeSymlink != 0:
		g.symlink(file)
	case !e.Type().IsRegular():
		g.refuse(RuleSpecial, file, "the entry is not a plain file", "move it out of the repository")
	case wanted(file):
		info, err := e.Info()
		if err != nil {
			return err
		}
		g.size(file, info.Size())
		g.paths = append(g.paths, file)
	}
	return nil
}

// read opens a file that was plain when it was listed. It may have been replaced since, so links are not followed, a pipe does not
// block, and no more than the gate's size is taken.
func (g *dirGate) read(name string) (_ []byte, err error) {
	f, err := g.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s grew while it was read", name)
	}
	return data, err
}
