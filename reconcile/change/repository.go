package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"stado.internal/stado/reconcile/catfile"
)

// repository is a person's registry repository, bare or with a work tree.
type repository struct {
	runner
	dir    string // as it was named
	prefix string // where the registry is inside the repository: empty, or a path that ends with a slash
	branch string
	bare   bool
}

func openRepository(ctx context.Context, dir string) (*repository, error) {
	r := &repository{runner: runner{dir: dir}, dir: dir}
	places, err := r.line(ctx, "rev-parse", "--is-bare-repository", "--show-prefix")
	if err != nil {
		var failed *gitError
		if errors.As(err, &failed) {
			return nil, &RefusedError{Message: sayNoRepository(dir, failed.words)}
		}
		return nil, err
	}
	bare, prefix, _ := strings.Cut(places, "\n")
	if r.bare = bare == "true"; !r.bare {
		r.prefix = prefix
	}
	if r.branch = r.says(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); r.branch == "" {
		return nil, &RefusedError{Message: sayDetached(dir)}
	}
	return r, nil
}

// tip is the commit of the branch.
func (r *repository) tip(ctx context.Context) (string, error) {
	id, err := r.line(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+r.branch+"^{commit}")
	if err != nil {
		return "", &RefusedError{Message: sayNoCommit(r.dir, r.branch)}
	}
	return id, nil
}

// upstream is the remote that the branch is pushed to, and its branch there.
func (r *repository) upstream(ctx context.Context, remote string) (string, string) {
	var name, branch string
	settings := r.says(ctx, "config", "--null", "--get-regexp", `^branch\.`)
	for setting := range strings.SplitSeq(settings, "\x00") { // the last one counts
		switch key, value, _ := strings.Cut(setting, "\n"); key {
		case "branch." + r.branch + ".remote":
			name = value
		case "branch." + r.branch + ".merge":
			branch = strings.TrimPrefix(value, "refs/heads/")
		}
	}
	switch {
	case remote != "" && remote != name:
		return remote, r.branch
	case name == "":
		return "origin", r.branch
	case branch == "":
		return name, r.branch
	}
	return name, branch
}

// fetch gives the commit that the remote's branch is at.
func (r *repository) fetch(ctx context.Context, remote, branch string) (string, error) {
	if r.says(ctx, "remote", "get-url", remote) == "" {
		return "", &RefusedError{Message: sayNoRemote(r.dir, remote)}
	}
	if _, err := r.run(ctx, nil, "fetch", "--quiet", "--no-tags", remote, "refs/heads/"+branch); err != nil {
		var failed *gitError
		if !errors.As(err, &failed) {
			return "", err
		}
		if strings.Contains(failed.words, "couldn't find remote ref") {
			return "", &RefusedError{Message: sayNoBranch(remote, branch)}
		}
		return "", &UnreachableError{Remote: remote, Cause: failed.words}
	}
	return r.line(ctx, "rev-parse", "--verify", "FETCH_HEAD^{commit}")
}

// contained refuses a branch with commits that the remote's tip does not have: they would be pushed along.
func (r *repository) contained(ctx context.Context, t target) error {
	if _, err := r.run(ctx, nil, "merge-base", "--is-ancestor", t.head, t.base); err != nil {
		return &RefusedError{Message: sayAhead(r.branch, t.remote, t.branch)}
	}
	return nil
}

// files are the registry's CUE files at a commit, by path inside the registry, as git stores them.
func (r *repository) files(ctx context.Context, commit string) (map[string][]byte, error) {
	args := []string{"ls-tree", "-r", "-z", "--full-tree", commit}
	if r.prefix != "" {
		args = append(args, "--", r.prefix)
	}
	list, err := r.run(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	var names []string
	var wanted bytes.Buffer
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		meta, name, _ := strings.Cut(entry, "\t")
		words := strings.Fields(meta)
		name = strings.TrimPrefix(name, r.prefix)
		if len(words) == 3 && words[1] == "blob" && strings.HasSuffix(name, ".cue") && !hidden(name) {
			names = append(names, name)
			wanted.WriteString(words[2] + "\n")
		}
	}
	blobs, err := r.run(ctx, wanted.Bytes(), "cat-file", "--batch", "--buffer")
	if err != nil {
		return nil, err
	}
	answers := catfile.NewReader(bytes.NewReader(blobs))
	out := make(map[string][]byte, len(names))
	for _, name := range names {
		_, data, err := answers.Object(int64(len(blobs)))
		if err != nil {
			return nil, fmt.Errorf("cannot read %s at commit %.12s: %w", name, commit, err)
		}
		out[name] = data
	}
	return out, nil
}

// hidden reports whether a file or a directory above it starts with a dot: no part of a registry.
func hidden(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}

// dirty refuses to touch files that a person has changed and not committed: the edit was made on what is committed.
func (r *repository) dirty(ctx context.Context, paths []string) error {
	if r.bare {
		return nil
	}
	args := []string{"status", "--porcelain", "-z", "--untracked-files=all", "--"}
	for _, p := range paths {
		args = append(args, ":(top,literal)"+r.prefix+p)
	}
	out, err := r.run(ctx, nil, args...)
	if err != nil {
		return err
	}
	var names []string
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if len(entry) > 3 {
			names = append(names, strings.TrimPrefix(entry[3:], r.prefix))
		}
	}
	if len(names) > 0 {
		return &RefusedError{Message: sayDirty(names)}
	}
	return nil
}

// writing is a commit that is to be made.
type writing struct {
	base    string
	joins   string            // its second parent; empty for none
	index   string            // a file for git's index, which does not exist
	message string            // whole
	files   map[string][]byte // by path inside the registry; nil for one that goes
	others  map[string]entry  // by path inside the repository
	sign    bool
}

// write makes a commit object; no branch names it yet.
func (r *repository) write(ctx context.Context, w writing) (string, error) {
	staged := runner{dir: r.dir, env: []string{"GIT_INDEX_FILE=" + w.index}}
	if _, err := staged.run(ctx, nil, "read-tree", w.base); err != nil {
		return "", err
	}
	var entries bytes.Buffer
	for name, data := range w.files {
		full := path.Join(r.prefix, name)
		if data == nil {
			entries.WriteString(entry{}.line(full, w.base))
			continue
		}
		blob, err := staged.run(ctx, data, "hash-object", "-w", "--stdin")
		if err != nil {
			return "", err
		}
		entries.WriteString(entry{"100644", string(bytes.TrimSpace(blob))}.line(full, w.base))
	}
	for full, e := range w.others {
		entries.WriteString(e.line(full, w.base))
	}
	if _, err := staged.run(ctx, entries.Bytes(), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	tree, err := staged.line(ctx, "write-tree")
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", tree, "-p", w.base}
	if w.joins != "" {
		args = append(args, "-p", w.joins)
	}
	if w.sign || r.says(ctx, "config", "--type=bool", "commit.gpgsign") == "true" {
		args = append(args, "-S")
	}
	id, err := r.run(ctx, []byte(w.message), args...)
	return string(bytes.TrimSpace(id)), err
}

// advance moves the branch from base to the commit, and the work tree with it. Changes that a person has in other files stay.
func (r *repository) advance(ctx context.Context, base, commit string) error {
	if r.bare {
		_, err := r.run(ctx, nil, "update-ref", "-m", "stado", "refs/heads/"+r.branch, commit, base)
		return r.lost(ctx, base, err)
	}
	_, err := r.run(ctx, nil, "merge", "--quiet", "--ff-only", "--no-stat", commit)
	return r.lost(ctx, base, err)
}

// lost tells a branch that moved meanwhile from other failures.
func (r *repository) lost(ctx context.Context, base string, err error) error {
	if err == nil {
		return nil
	}
	if now := r.says(ctx, "rev-parse", "--verify", "refs/heads/"+r.branch); now != "" && now != base {
		return &ConflictError{Location: r.dir, Expected: base, Actual: now}
	}
	return err
}

// push offers the commit to the remote's branch, which takes it only if it has not moved since base.
func (r *repository) push(ctx context.Context, remote, branch, base, commit string) error {
	_, err := r.run(ctx, nil, "push", "--porcelain", remote, commit+":refs/heads/"+branch)
	var failed *gitError
	if !errors.As(err, &failed) {
		return err
	}
	verdict := ""
	for line := range strings.Lines(failed.stdout) {
		if strings.HasPrefix(line, "!") {
			verdict = strings.TrimSpace(line)
		}
	}
	switch {
	case verdict == "":
		return &UnreachableError{Remote: remote, Cause: failed.words}
	case raced(verdict):
		now, _, _ := strings.Cut(r.says(ctx, "ls-remote", remote, "refs/heads/"+branch), "\t")
		return &ConflictError{Location: r.location(ctx, Options{Push: true, Remote: remote}), Expected: base, Actual: now}
	}
	return &RefusedError{Message: sayPushRefused(remote, verdict, failed.words)}
}

// raced recognises git's words for a branch that moved: before the push was sent, or while the server took it.
func raced(verdict string) bool {
	for _, words := range []string{"[rejected]", "failed to update ref", "cannot lock ref", "failed to lock", "incorrect old value", "fetch first", "non-fast-forward"} {
		if strings.Contains(verdict, words) {
			return true
		}
	}
	return false
}
