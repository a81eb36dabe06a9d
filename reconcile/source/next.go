package source

import (
	"context"
	"maps"
	"os"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"golang.org/x/sys/unix"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/schema"
)

// maxNext is how many files of a commit may differ from the held one for their changes to be looked at one by one.
const maxNext = 8

// nextReply is what a fetch says besides when the tip is the commit after the held one, which is the usual news. Where it can say nothing
// for certain it says nothing, and the walk and the evaluation are asked, each in its own child.
type nextReply struct {
	Policies bool `json:"policies,omitempty"` // the held commit has policies of the fleet's own
	// Changes are all that the tip changes in the held commit's registry, which is [schema.Compiled.Separate]; nil when they are not known.
	Changes []schema.Change `json:"changes,omitempty"`
	Grown   int64           `json:"grown,omitempty"` // bytes that the files have more than before
	About   compileReply    `json:"about"`           // the tip, without a judgement
}

// next looks at a tip; nil when it is not the commit after held. judge is nil when the held commit's registry is not separate.
func next(ctx context.Context, st *filesystem.Storage, tip, held plumbing.Hash, judge *schema.Changes) *nextReply {
	c, err := readCommit(st, tip)
	if err != nil || len(c.ParentHashes) == 0 || c.ParentHashes[0] != held {
		return nil
	}
	before, err := readCommit(st, held)
	if err != nil {
		return nil
	}
	out := &nextReply{About: description(c)}
	if out.Policies, err = (walker{st: st, ctx: ctx}).policies(held); err != nil {
		return nil
	}
	if judge == nil {
		return out
	}
	var files []changedFile
	if !diffTrees(st, before.TreeHash, c.TreeHash, "", &files) {
		return out
	}
	changes, grown := []schema.Change{}, int64(0)
	for _, f := range files {
		old, err1 := readBlob(st, f.old)
		data, err2 := readBlob(st, f.new)
		if err1 != nil || err2 != nil {
			return out
		}
		change, ok := judge.Of(schema.File{Path: f.path, Data: old}, schema.File{Path: f.path, Data: data})
		if !ok {
			return out
		}
		changes, grown = append(changes, change), grown+int64(len(data)-len(old))
	}
	out.Changes, out.Grown = changes, grown
	return out
}

// changedFile is a file whose content two trees give differently.
type changedFile struct {
	path     string
	old, new plumbing.Hash
}

// diffTrees lists what differs between two trees, without looking into what is the same in both. False when it is more than the content
// of a few registry files: then the gates have to see all of it.
func diffTrees(st *filesystem.Storage, a, b plumbing.Hash, dir string, files *[]changedFile) bool {
	if a == b {
		return true
	}
	before, err1 := object.GetTree(st, a)
	after, err2 := object.GetTree(st, b)
	if err1 != nil || err2 != nil || len(before.Entries) != len(after.Entries) {
		return false
	}
	for i, e := range after.Entries {
		old := before.Entries[i]
		switch {
		case old.Name != e.Name || old.Mode != e.Mode:
			return false
		case old.Hash == e.Hash:
		case e.Mode == filemode.Dir:
			if !diffTrees(st, old.Hash, e.Hash, dir+e.Name+"/", files) {
				return false
			}
		case e.Mode != filemode.Symlink && e.Mode.IsFile() && wanted(dir+e.Name) && len(*files) < maxNext:
			*files = append(*files, changedFile{path: dir + e.Name, old: old.Hash, new: e.Hash})
		default:
			return false
		}
	}
	return true
}

// base is the registry of a commit that nothing is wrong with and that is [schema.Compiled.Separate].
type base struct {
	step  Step  // with its Parts
	bytes int64 // of its files
	clean policies.After
	room  []byte // for the next document; nil until one is fetched
}

// roomBeyond is by how much a next document may be larger and still fit.
const roomBeyond = 64 << 10

// prepare makes room for the document of the commit that is being fetched. Being given the memory of a large one by the kernel takes several
// times as long as filling it, in small pages many times as long; whoever waits for the network meanwhile loses nothing.
func (b *base) prepare() {
	if b.room != nil {
		return
	}
	b.room = make([]byte, len(b.step.Document)+roomBeyond)
	_ = unix.Madvise(b.room, unix.MADV_HUGEPAGE) // a kernel that does not do it gives small pages
	for i := 0; i < len(b.room); i += os.Getpagesize() {
		b.room[i] = 1
	}
}

// after is the verdict on a commit from that on the commit before it and what has changed; false when that cannot be told for certain.
func (b *base) after(commit string, n *nextReply) (*base, bool) {
	if b == nil || n == nil || len(n.Changes) == 0 || b.bytes+n.Grown > maxTotal {
		return nil, false
	}
	hosts, generation, positions := map[fleet.HostName][]byte{}, fleet.Generation(0), maps.Clone(b.step.Positions)
	for _, c := range n.Changes {
		if c.Host == "" {
			generation = c.Generation
		} else {
			hosts[c.Host] = c.Value
		}
		if !moved(positions, c.Positions) {
			return nil, false
		}
	}
	room := b.room
	b.room = nil
	parts, ok := b.step.Parts.Replace(hosts, generation, room)
	if !ok || len(parts.Document()) > schema.MaxDocument {
		return nil, false
	}
	document, registry := parts.Document(), parts.Registry()
	if !b.clean.Clean(b.step.Registry, registry, slices.Collect(maps.Keys(hosts))) {
		return nil, false
	}
	s := stepOf(commit, &n.About)
	s.Document, s.Digest, s.Generation = document, parts.Digest(), registry.Directory.Generation
	s.Registry, s.Parts = registry, parts
	s.Positions = positions
	return &base{step: s, bytes: b.bytes + n.Grown, clean: b.clean}, true
}

// moved takes over where a changed file gives what it gave before, of the places that a step tells. False when another file's place could
// be the first one now.
func moved(positions, changed map[string]schema.Position) bool {
	for p, at := range changed {
		old, known := positions[p]
		switch {
		case !known && !stepPosition(p), known && old.File < at.File:
		case known && old.File == at.File:
			positions[p] = at
		default:
			return false
		}
	}
	return true
}
