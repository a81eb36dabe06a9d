package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// Index judges what a commit made now would hold below the repository's directory: the blobs of the index, whatever the work tree says.
// Errors are as for [Evaluator.WorkTree].
func (e Evaluator) Index(ctx context.Context, r Repository) (Verdict, error) {
	entries, err := r.index(ctx)
	if err != nil {
		return Verdict{}, err
	}
	return e.entries(ctx, r, &listGate{}, entries)
}

// Tree judges a commit's files below a directory of it, "" for all, with the objects that git sees in the repository's environment: in a
// pre-receive hook also those of the push. commit is a full object id. Errors are as for [Evaluator.WorkTree].
func (e Evaluator) Tree(ctx context.Context, r Repository, commit, dir string) (Verdict, error) {
	message, err := r.output(ctx, "log", "-1", "--format=%P%n%B", commit)
	if err != nil {
		return Verdict{}, err
	}
	parents, message, _ := strings.Cut(message, "\n")
	entries, err := r.tree(ctx, commit, dir)
	if err != nil {
		if exists, asked := r.holds(ctx, "rev-parse", "--quiet", "--verify", commit+":"+dir); asked == nil && !exists {
			err = &Error{Phase: PhaseRead, Remote: r.Dir, Kind: KindRevision, Cause: "commit " + commit + " has no directory " + dir, Err: err}
		}
		return Verdict{}, err
	}
	v, err := e.entries(ctx, r, &listGate{whole: true}, entries)
	v.Commit = commit
	v.Parent, _, _ = strings.Cut(parents, " ")
	says := trailers(message)
	v.AllowEmptyFleet, v.Nonce = says[TrailerAllow] == AllowEmptyFleet, says[TrailerNonce]
	v.TakesNumber = TakesNumber(says[TrailerKind])
	return v, err
}

// entries takes a listing through the gates, reads its CUE files and has the child judge them.
func (e Evaluator) entries(ctx context.Context, r Repository, g *listGate, entries []entry) (Verdict, error) {
	for _, entry := range entries {
		if !g.full() && g.entries <= maxEntries {
			g.take(entry)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(g.names)) {
		g.cases(dir, slices.Sorted(slices.Values(g.names[dir])))
	}
	if len(g.findings) == 0 {
		if err := g.measure(ctx, r); err != nil {
			return Verdict{}, err
		}
	}
	if len(g.findings) > 0 {
		g.findings.Sort()
		return Verdict{Findings: g.findings}, nil
	}
	files, err := g.read(ctx, r)
	if err != nil {
		return Verdict{}, err
	}
	return e.run(ctx, taskFiles, filesRequest{Files: files, evaluation: e.how()}, r.Dir)
}

// filesRequest gives the child the files themselves.
type filesRequest struct {
	Files []schema.File `json:"files"`
	evaluation
}

func givenFiles(_ context.Context, r filesRequest, p func(sandbox.Progress)) (localReply, error) {
	return r.judged(withNames(r.Files), r.open(), nil, p)
}

// listGate is a gate over a listing.
type listGate struct {
	gate
	whole  bool // the listing names directories too
	open   map[string]bool
	files  []entry
	seen   map[string]bool
	names  map[string][]string // by directory
	values map[string]int64    // sizes by hash: many names may mean one object
}

// take judges one entry by its path and its mode.
func (g *listGate) take(e entry) {
	if g.seen == nil {
		g.seen, g.open, g.values, g.names = map[string]bool{}, map[string]bool{"": true}, map[string]int64{}, map[string][]string{}
	}
	dir, name := split(e.path)
	if !g.enterable(dir) {
		g.open[e.path] = false // in case it is a directory
		return
	}
	if !g.seen[e.path] && !g.enter(dir, name, 1+strings.Count(e.path, "/")) {
		g.open[e.path] = false
		return
	}
	g.names[dir] = append(g.names[dir], name)
	switch {
	case e.unmerged:
		if !g.seen[e.path] {
			g.refuse(RuleUnmerged, e.path, "a merge is not finished: the index holds more than one version of the file", "edit the file, then git add it")
		}
	case g.seen[e.path]:
		g.refuse(RuleTwice, e.path, "the directory names the entry twice", "write the commit with git itself")
	case e.mode == "040000":
		g.open[e.path] = !hidden(name)
	case e.mode == "120000":
		g.symlink(e.path)
	case e.mode == "160000":
		g.submodule(e.path)
	case e.mode == "100644" || e.mode == "100755" || e.mode == "100664":
		g.files = append(g.files, e)
	default:
		g.refuse(RuleSpecial, e.path, "the entry has the unknown mode "+e.mode, "write the commit with git itself")
	}
	g.seen[e.path] = true
}

// enterable reports whether files of a directory are looked at: not those of a hidden one, nor those of one that is refused. A listing
// of a commit has named the directory before; one of the index names files only, and each directory is judged with its first file.
func (g *listGate) enterable(dir string) bool {
	if open, known := g.open[dir]; known {
		return open
	}
	if g.whole { // a name with a slash in it, which looks like a path
		g.refuse(RuleName, "?", fmt.Sprintf("unsafe path: a name in %q holds a path separator", dir), "rename it")
		g.open[dir] = false
		return false
	}
	parent, name := split(dir)
	entered := g.enterable(parent) && g.enter(parent, name, 1+strings.Count(dir, "/"))
	if entered {
		g.names[parent] = append(g.names[parent], name)
	}
	g.open[dir] = entered && !hidden(name)
	return g.open[dir]
}

// split is a path's directory, "" for the top, and its name, without cleaning either.
func split(p string) (dir, name string) {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i], p[i+1:]
	}
	return "", p
}

// measure judges the sizes of all files, CUE or not.
func (g *listGate) measure(ctx context.Context, r Repository) error {
	var hashes []string
	for _, f := range g.files {
		if _, asked := g.values[f.hash]; !asked {
			g.values[f.hash] = 0
			hashes = append(hashes, f.hash)
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	sizes, err := r.sizes(ctx, hashes)
	if err != nil {
		return err
	}
	for i, hash := range hashes {
		g.values[hash] = sizes[i]
	}
	for _, f := range g.files {
		g.size(f.path, g.values[f.hash])
	}
	return nil
}

// read reads the CUE files.
func (g *listGate) read(ctx context.Context, r Repository) ([]schema.File, error) {
	announced, err := g.announced(ctx, r)
	if err != nil {
		return nil, err
	}
	var files []schema.File
	var hashes []string
	for _, f := range g.files {
		if wanted(f.path) && !announced[f.path] {
			files = append(files, schema.File{Path: f.path})
			hashes = append(hashes, f.hash)
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	return files, r.blobs(ctx, hashes, func(i int, data []byte) { files[i].Data = data })
}

// announced lists the files that `git add --intent-to-add` put into the index: they look empty there, and a commit does not have them.
func (g *listGate) announced(ctx context.Context, r Repository) (map[string]bool, error) {
	out := map[string]bool{}
	empty := false
	for _, f := range g.files {
		empty = empty || g.values[f.hash] == 0
	}
	if g.whole || !empty {
		return out, nil
	}
	names, err := r.output(ctx, "diff-files", "--name-only", "--relative", "--diff-filter=A", "-z")
	for name := range strings.SplitSeq(names, "\x00") {
		out[name] = true
	}
	return out, err
}
