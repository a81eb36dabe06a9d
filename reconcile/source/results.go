package source

import (
	"context"
	"debug/elf"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/results"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// suffixResults is behind the name of the folder beside a store that holds the results of evaluations.
const suffixResults = ".results"

// ResultsFolder is where the results of evaluations of a local repository are kept: inside its own git directory, which no commit, clone
// or fetch can write to. Empty when there is no repository.
func (r Repository) ResultsFolder(ctx context.Context) string {
	dir, err := r.output(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil || dir == "" {
		return ""
	}
	return filepath.Join(dir, "stado")
}

// evaluation says how a set of files is evaluated.
type evaluation struct {
	// Results is the folder of a [results.Cache]; empty for none.
	Results string `json:"results,omitempty"`
	// Sparse: nobody asks for positions inside hosts and services.
	Sparse bool `json:"sparse,omitempty"`
}

// manyFiles is how many files have more positions than fit into a reply.
const manyFiles = 2000

// fileSet is the files of one registry. Data is nil where the cache knows what a file comes to; read gives it when it is needed after all.
type fileSet struct {
	files []schema.File
	ids   map[string]string // git's names of the contents, by path
	read  func(path string) ([]byte, error)
	bytes int64 // of all files of a git tree
}

// withNames is a set of files whose contents have git's names.
func withNames(files []schema.File) fileSet {
	ids := make(map[string]string, len(files))
	for _, f := range files {
		ids[f.Path] = plumbing.ComputeHash(plumbing.BlobObject, f.Data).String()
	}
	return fileSet{files: files, ids: ids}
}

// open opens the cache; nil when there is none. What a cache holds is good for this very program and no other.
func (e evaluation) open() *results.Cache {
	if program := buildID(); e.Results != "" && program != "" {
		return results.Open(e.Results, program+" "+schema.Version())
	}
	return nil
}

// options are the schema's options for a set of files.
func (e evaluation) options(set fileSet, cache *results.Cache) schema.Options {
	o := schema.Options{IDs: set.ids, Read: set.read, Sparse: e.Sparse || len(set.files) > manyFiles}
	if cache != nil {
		o.Cache = cache
	}
	return o
}

// buildID is the name that the linker gave this program, by its content; empty when it has none.
func buildID() string {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // read only
	section := f.Section(".note.go.buildid")
	if section == nil {
		return ""
	}
	id, err := section.Data()
	if err != nil {
		return ""
	}
	return string(id)
}

// treeSet reads the CUE files of a git tree, but for those that the cache knows. When there are findings no file has been read.
func treeSet(st *filesystem.Storage, root plumbing.Hash, cache *results.Cache, p func(sandbox.Progress)) (fileSet, fleet.Findings, error) {
	blobs, total, findings, err := listTree(st, root, cache, p)
	if err != nil || len(findings) > 0 {
		return fileSet{}, findings, err
	}
	set := fileSet{ids: make(map[string]string, len(blobs)), bytes: total}
	hashes := make(map[string]plumbing.Hash, len(blobs))
	set.read = func(path string) ([]byte, error) { return readNamed(st, blob{path: path, hash: hashes[path]}, p) }
	for _, b := range blobs {
		set.ids[b.path], hashes[b.path] = b.hash.String(), b.hash
		f := schema.File{Path: b.path}
		if !b.known {
			if f.Data, err = readNamed(st, b, p); err != nil {
				return fileSet{}, nil, err
			}
		}
		set.files = append(set.files, f)
	}
	return set, nil, nil
}
