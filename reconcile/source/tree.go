package source

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/results"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// Gates of one commit. They are checked on names, modes and headers; no file is read before all of them are passed.
const (
	maxFile     = 1 << 20  // bytes of one blob
	maxTotal    = 64 << 20 // bytes of all blobs
	maxEntries  = 200_000
	maxDepth    = 16
	maxTree     = 16 << 20 // bytes of one directory's object: 200,000 entries with names of 50 bytes
	maxFindings = 100
)

// gate walks one set of files before any is read, and collects what is to be read and what is refused.
type gate struct {
	findings fleet.Findings
	entries  int
	total    int64
}

// full reports that nothing more needs to be looked at.
func (g *gate) full() bool { return len(g.findings) >= maxFindings }

func (g *gate) refuse(rule, file, message, hint string) {
	if !g.full() {
		g.findings = append(g.findings, fleet.Finding{Rule: rule, Severity: fleet.SeverityError, File: printable(file), Message: message, Hint: hint})
	}
}

// enter counts one entry and judges its name and depth; false means: look no further at it.
func (g *gate) enter(dir, name string, depth int) bool {
	g.entries++
	if g.entries == maxEntries+1 {
		g.refuse(RuleEntries, dir, sayGate("entries", strconv.Itoa(maxEntries), "the repository has more files and directories"), "split the fleet, or remove what is not registry")
	}
	if g.entries > maxEntries || g.full() {
		return false
	}
	if why := unsafeName(name); why != "" {
		g.refuse(RuleName, path.Join(dir, "?"), fmt.Sprintf("unsafe path: name %q %s", name, why), "rename it")
		return false
	}
	if depth > maxDepth {
		g.refuse(RuleDepth, path.Join(dir, name), sayGate("depth", strconv.Itoa(maxDepth), "the path has more components"), "move it up")
		return false
	}
	return true
}

// fold is a name as file systems see it that ignore case.
func fold(name string) string {
	lower := strings.ToLower(name)
	if !strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return lower
	}
	return strings.ToLower(strings.ToUpper(lower)) // some letters have two small forms
}

// cases refuses the names of one directory that differ by case only, CUE or not: of a file, or a directory, of that name in another
// spelling a checkout would leave only one.
func (g *gate) cases(dir string, names []string) {
	spelt := make(map[string]string, len(names))
	for _, name := range names {
		key := fold(name)
		if other, ok := spelt[key]; ok && other != name {
			g.refuse(schema.RuleCaseFold, path.Join(dir, name), sayCaseFold(path.Join(dir, name), path.Join(dir, other)), "rename one of them")
			continue
		}
		spelt[key] = name
	}
}

func (g *gate) size(file string, size int64) {
	if size > maxFile {
		g.refuse(RuleFileSize, file, sayGate("file size", sayBytes(maxFile), "the file has "+sayBytes(size)), "keep it out of the registry repository")
		return
	}
	if before := g.total; before <= maxTotal && before+size > maxTotal {
		g.refuse(RuleTotalSize, file, sayGate("total size", sayBytes(maxTotal), "the files have more together"), "keep out of the registry repository what is not registry")
	}
	g.total += size
}

func (g *gate) symlink(file string) {
	g.refuse(RuleSymlink, file, "the entry is a symbolic link", "commit the file itself")
}

func (g *gate) submodule(file string) {
	g.refuse(RuleSubmodule, file, "the entry is a submodule, or another repository", "commit its files, or remove it")
}

// unsafeName says why a name of one path component is not safe; empty when it is. The schema is stricter with the names of CUE files.
func unsafeName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case name == "." || name == "..":
		return "names another directory"
	case strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1"):
		return "names a repository's own files"
	case len(name) > 255:
		return "is longer than 255 bytes"
	case strings.ContainsAny(name, `/\`):
		return "holds a path separator"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }):
		return "holds a control character or is not UTF-8"
	}
	return ""
}

// printable is a path for people: quoted where it could change a terminal.
func printable(file string) string {
	q := fmt.Sprintf("%q", file)
	if q == `"`+file+`"` {
		return file
	}
	return q
}

// wanted reports whether the schema is to see a file outside hidden directories: CUE files, and those that look like a host or a service
// and are hidden themselves, of which it says that nobody reads them.
func wanted(file string) bool {
	if !strings.HasSuffix(file, ".cue") {
		return false
	}
	return !hidden(path.Base(file)) || strings.HasPrefix(file, "hosts/") || strings.HasPrefix(file, "services/")
}

// hidden reports whether a name starts with a dot: legal, as in .github, and never entered or read.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// blob is a file that passed the gates.
type blob struct {
	path  string
	hash  plumbing.Hash
	known bool // the cache knows what it comes to
}

// treeGate is a gate over git objects.
type treeGate struct {
	gate
	st    *filesystem.Storage
	cache *results.Cache // nil for none: it knows the sizes of files
	blobs []blob
	sizes map[plumbing.Hash]int64 // of what was looked at: many names may mean one object
}

// listTree takes a git tree through the gates and lists its CUE files, with the size of all. Findings say what is refused; an error says
// that the store could not be read.
func listTree(st *filesystem.Storage, root plumbing.Hash, cache *results.Cache, p func(sandbox.Progress)) ([]blob, int64, fleet.Findings, error) {
	g := &treeGate{st: st, cache: cache, sizes: map[plumbing.Hash]int64{}}
	p(sandbox.Progress{Phase: PhaseRead, File: "/"})
	if err := g.walk("", root, 1); err != nil {
		return nil, 0, nil, err
	}
	return g.blobs, g.total, g.findings, nil
}

func readNamed(st *filesystem.Storage, b blob, p func(sandbox.Progress)) ([]byte, error) {
	p(sandbox.Progress{Phase: PhaseRead, File: b.path})
	data, err := readBlob(st, b.hash)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", b.path, err)
	}
	return data, nil
}

func (g *treeGate) walk(dir string, hash plumbing.Hash, depth int) error {
	size, err := g.sizeOf(hash)
	if err != nil {
		return fmt.Errorf("cannot read directory /%s: %w", dir, err)
	}
	if size > maxTree {
		g.refuse(RuleEntries, dir, sayGate("directory size", sayBytes(maxTree), "the directory has too many entries"), "shard it")
		return nil
	}
	tree, err := object.GetTree(g.st, hash)
	if err != nil {
		return fmt.Errorf("cannot read directory /%s: %w", dir, err)
	}
	seen := make(map[string]struct{}, len(tree.Entries))
	plain := true
	for _, e := range tree.Entries {
		if !g.enter(dir, e.Name, depth) {
			if g.full() || g.entries > maxEntries {
				return nil
			}
			continue
		}
		file := path.Join(dir, e.Name)
		if _, twice := seen[e.Name]; twice {
			g.refuse(RuleTwice, file, "the directory names the entry twice", "write the commit with git itself")
			continue
		}
		seen[e.Name] = struct{}{}
		plain = plain && fold(e.Name) == e.Name
		if err := g.entry(file, e, depth); err != nil {
			return err
		}
	}
	if !plain {
		g.cases(dir, slices.Sorted(maps.Keys(seen)))
	}
	return nil
}

func (g *treeGate) entry(file string, e object.TreeEntry, depth int) error {
	switch e.Mode {
	case filemode.Dir:
		if hidden(e.Name) {
			return nil
		}
		return g.walk(file, e.Hash, depth+1)
	case filemode.Symlink:
		g.symlink(file)
	case filemode.Submodule:
		g.submodule(file)
	case filemode.Regular, filemode.Executable, filemode.Deprecated:
		size, known, err := g.fileSize(file, e.Hash)
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", file, err)
		}
		g.size(file, size)
		if wanted(file) {
			g.blobs = append(g.blobs, blob{path: file, hash: e.Hash, known: known})
		}
	default:
		g.refuse(RuleSpecial, file, fmt.Sprintf("the entry has the unknown mode %o", uint32(e.Mode)), "write the commit with git itself")
	}
	return nil
}

func (g *treeGate) fileSize(file string, hash plumbing.Hash) (size int64, known bool, err error) {
	if g.cache != nil {
		if size, ok := schema.Known(g.cache, file, hash.String()); ok {
			return int64(size), true, nil
		}
	}
	size, err = g.sizeOf(hash)
	return size, false, err
}

func (g *treeGate) sizeOf(hash plumbing.Hash) (int64, error) {
	if size, ok := g.sizes[hash]; ok {
		return size, nil
	}
	size, err := objectSize(g.st, hash)
	if err == nil {
		g.sizes[hash] = size
	}
	return size, err
}

// readBlob reads a blob whose size passed the gate; the limit is for a header that lied.
func readBlob(st *filesystem.Storage, hash plumbing.Hash) (data []byte, err error) {
	o, err := st.EncodedObject(plumbing.BlobObject, hash)
	if err != nil {
		return nil, err
	}
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data, err = io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("object %s is larger than its header says", hash)
	}
	return data, err
}
