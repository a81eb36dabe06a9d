package change

import (
	"context"
	"maps"
	"slices"
	"strings"

	"stado.internal/stado/schema/edit"
)

// Join is another history that a change brings in.
type Join struct {
	Commit string // its head
	Base   string // the commit that it has in common with the one that the change is made on
	// Parent makes Commit the second parent of the change.
	Parent bool
	// Contents takes what Commit has changed since Base, whole files at a time. One that has been changed in both histories, and is not
	// the same in both now, refuses the change. Who the authority is, and the generation, are not taken.
	Contents bool
}

// ownFiles are the files of which the one side's are kept: the edit says what becomes of them.
var ownFiles = [...]string{"authority.cue", "generation.cue"}

// entry is a file of a tree; the zero one is none.
type entry struct{ mode, id string }

// line is the entry for git update-index; sample is any object id, for its length.
func (e entry) line(name, sample string) string {
	if e == (entry{}) {
		e = entry{"0", strings.Repeat("0", len(sample))}
	}
	return e.mode + " " + e.id + "\t" + name + "\x00"
}

// take brings the files of another history into a draft.
func (r *repository) take(ctx context.Context, d *Draft, j Join) error {
	var trees [3]map[string]entry
	for i, commit := range []string{j.Base, d.Commit, j.Commit} {
		var err error
		if trees[i], err = r.tree(ctx, commit); err != nil {
			return err
		}
	}
	taken, differ := merged(trees[0], trees[1], trees[2], func(name string) bool {
		own, inside := strings.CutPrefix(name, r.prefix)
		return inside && slices.Contains(ownFiles[:], own)
	})
	if len(differ) > 0 {
		return &RefusedError{Message: sayBothChanged(differ, d.Commit, j)}
	}
	theirs, err := r.files(ctx, j.Commit)
	if err != nil {
		return err
	}
	for full, e := range taken {
		name, inside := strings.CutPrefix(full, r.prefix)
		data, given := theirs[name]
		_, had := d.base[name]
		switch {
		case inside && given:
			if d.open[name], err = edit.Open(name, data); err != nil {
				return err
			}
		case inside && had:
			d.Remove(name)
		default:
			d.others[full] = e
		}
	}
	return nil
}

// merged compares three trees: what is to be taken of theirs, and the names of files that both sides have changed, each in its way.
func merged(base, ours, theirs map[string]entry, own func(name string) bool) (taken map[string]entry, differ []string) {
	taken = map[string]entry{}
	names := maps.Clone(base)
	maps.Copy(names, theirs)
	for name := range names {
		switch b, o, t := base[name], ours[name], theirs[name]; {
		case own(name), t == b, t == o:
		case o == b:
			taken[name] = t
		default:
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	return taken, differ
}

// tree lists all files of a commit.
func (r *repository) tree(ctx context.Context, commit string) (map[string]entry, error) {
	list, err := r.run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	out := map[string]entry{}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		meta, name, _ := strings.Cut(line, "\t")
		if words := strings.Fields(meta); len(words) == 3 {
			out[name] = entry{words[0], words[2]}
		}
	}
	return out, nil
}
