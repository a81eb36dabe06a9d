package source

import (
	"context"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/signature"
)

// Question asks which commits a trust vouches for.
type Question struct {
	Since   string      `json:"since"`   // the commit that is held; empty when it is not known, and the tip is the only commit
	Tip     string      `json:"tip"`     // of the branch, which descends from it
	Commits []string    `json:"commits"` // of the first-parent chain between them, one after the other; at least one
	Trust   fleet.Trust `json:"trust"`
}

// within are the places of the question's first and last commit in the chain from Since to Tip.
func (q Question) within(chain []string) (first, last int, _ error) {
	first, last = slices.Index(chain, q.Commits[0]), slices.Index(chain, q.Commits[len(q.Commits)-1])
	if first < 0 || last-first != len(q.Commits)-1 {
		return 0, 0, fmt.Errorf("commit %s does not lie between %s and %s on the branch", q.Commits[0], q.Since, q.Tip)
	}
	return first, last, nil
}

// vouchRequest is a question about a store.
type vouchRequest struct {
	Store string `json:"store"`
	Question
}

type vouchReply struct {
	Count   int                `json:"count"` // of the question's commits, from the first on, that are vouched for
	Refusal *signature.Refusal `json:"refusal,omitempty"`
}

// vouch runs in the child: it reads what strangers wrote, yet it evaluates nothing of it.
func vouch(ctx context.Context, r vouchRequest) (vouchReply, error) {
	st := openStore(r.Store)
	defer func() { _ = st.Close() }() // read only
	chain := []string{r.Tip}
	if r.Since != "" {
		relation, err := walker{st: st, ctx: ctx}.relate(plumbing.NewHash(r.Tip), plumbing.NewHash(r.Since))
		if err != nil {
			return vouchReply{}, storeFailure(ctx, err, PhaseRead)
		}
		chain = relation.Commits
	}
	first, last, err := r.within(chain)
	if err != nil {
		return vouchReply{}, failure(KindInternal, PhaseRead, "", err.Error())
	}
	n, refusal, err := signature.Vouch(ctx, storeHistory{st}, r.Trust, r.Since, chain, last+1, time.Now())
	if err != nil {
		return vouchReply{}, storeFailure(ctx, err, PhaseRead)
	}
	return vouchReply{Count: max(0, n-first), Refusal: refusal}, nil
}

// vouched is the answer to the last question.
type vouched struct {
	question Question
	reply    vouchReply
}

// Vouch counts the first of the question's commits that its trust vouches for, and says why the next one is not when that is fewer than
// all. The error, an [*Error] or the context's own, says that they could not be looked at.
func (g *Git) Vouch(ctx context.Context, q Question) (int, *signature.Refusal, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.vouched != nil && reflect.DeepEqual(g.vouched.question, q) {
		return g.vouched.reply.Count, g.vouched.reply.Refusal, nil
	}
	unlock, err := g.lock()
	if err != nil {
		return 0, nil, err
	}
	defer unlock()
	var reply vouchReply
	if err := g.run(ctx, taskVouch, vouchRequest{Store: g.opts.Store, Question: q}, &reply, 0); err != nil {
		if kindOf(err) == KindDamaged {
			g.last = nil // so that the next poll reads the store, and finds it damaged too
		}
		return 0, nil, err
	}
	if reply.Count < 0 || reply.Count > len(q.Commits) {
		return 0, nil, &Error{Phase: PhaseRead, Remote: g.opts.Remote.URL, Kind: KindInternal, Cause: "the child counts more commits than it was asked about"}
	}
	g.vouched = &vouched{q, reply}
	if reply.Refusal != nil && reply.Refusal.Kind == signature.Expired {
		g.vouched = nil // a commit of the future comes of age
	}
	return reply.Count, reply.Refusal, nil
}

// storeHistory is a store as [signature.Vouch] reads it.
type storeHistory struct{ st *filesystem.Storage }

// Commit implements [signature.History]. The bytes have the id: a store does not look when it reads, and the signature is over them.
func (h storeHistory) Commit(_ context.Context, id string) ([]byte, error) {
	hash := plumbing.NewHash(id)
	if _, err := readCommit(h.st, hash); err != nil {
		return nil, fmt.Errorf("cannot read commit %s: %w", id, err)
	}
	o, err := h.st.EncodedObject(plumbing.CommitObject, hash)
	if err != nil {
		return nil, fmt.Errorf("cannot read commit %s: %w", id, err)
	}
	r, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("cannot read commit %s: %w", id, err)
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxCommit+1))
	_ = r.Close() // read only
	if err != nil {
		return nil, fmt.Errorf("cannot read commit %s: %w", id, err)
	}
	if plumbing.ComputeHash(plumbing.CommitObject, raw) != hash {
		return nil, fmt.Errorf("commit %s has other bytes than its id says", id)
	}
	return raw, nil
}

// Changes implements [signature.History].
func (h storeHistory) Changes(ctx context.Context, from, to string, see func(string) bool) error {
	a, err := readCommit(h.st, plumbing.NewHash(from))
	if err != nil {
		return fmt.Errorf("cannot read commit %s: %w", from, err)
	}
	b, err := readCommit(h.st, plumbing.NewHash(to))
	if err != nil {
		return fmt.Errorf("cannot read commit %s: %w", to, err)
	}
	d := treeDiff{st: h.st, ctx: ctx, see: see}
	_, err = d.trees("", a.TreeHash, b.TreeHash, 1)
	return err
}

// treeDiff shows the paths in which two trees differ.
type treeDiff struct {
	st  *filesystem.Storage
	ctx context.Context
	see func(path string) bool // reports whether it wants more
}

// trees compares two directories; the zero hash is none. A directory that is too large or too deep to be read is shown itself: nobody
// judges what is in it.
func (d treeDiff) trees(dir string, a, b plumbing.Hash, depth int) (more bool, _ error) {
	if a == b {
		return true, nil
	}
	if err := d.ctx.Err(); err != nil {
		return false, err
	}
	before, okBefore, err := d.entries(a)
	if err != nil {
		return false, err
	}
	after, okAfter, err := d.entries(b)
	if err != nil {
		return false, err
	}
	if !okBefore || !okAfter || depth > maxDepth {
		return d.see(dir + "/"), nil
	}
	names := slices.Collect(maps.Keys(before))
	for name := range after {
		if _, both := before[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	prefix := dir
	if dir != "" {
		prefix += "/"
	}
	for _, name := range names {
		if more, err := d.entry(prefix+name, before[name], after[name], depth); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// entry compares what one path stands for; the zero entry is nothing.
func (d treeDiff) entry(name string, a, b object.TreeEntry, depth int) (more bool, _ error) {
	if a.Mode == b.Mode && a.Hash == b.Hash {
		return true, nil
	}
	var trees [2]plumbing.Hash
	file := false
	for i, side := range []object.TreeEntry{a, b} {
		switch side.Mode {
		case filemode.Dir:
			trees[i] = side.Hash
		case filemode.Empty:
		default:
			file = true
		}
	}
	if file && !d.see(name) {
		return false, nil
	}
	return d.trees(name, trees[0], trees[1], depth+1)
}

// entries are those of a directory by name; false when it is too large.
func (d treeDiff) entries(hash plumbing.Hash) (map[string]object.TreeEntry, bool, error) {
	if hash.IsZero() {
		return nil, true, nil
	}
	size, err := objectSize(d.st, hash)
	if err != nil || size > maxTree {
		return nil, false, err
	}
	tree, err := object.GetTree(d.st, hash)
	if err != nil {
		return nil, false, err
	}
	out := make(map[string]object.TreeEntry, len(tree.Entries))
	for _, e := range tree.Entries {
		if _, twice := out[e.Name]; twice {
			e.Mode, e.Hash = filemode.Regular, hash // unlike anything that another directory holds
		}
		out[e.Name] = e
	}
	return out, true, nil
}
