package source

import (
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Bounds of a walk, so that its memory is bounded: a chain entry is 20 bytes, a graph entry some 150.
const (
	maxChain = 1_000_000 // first-parent commits between the tip and the held commit
	maxGraph = 200_000   // commits looked at when the held one is not on that chain
)

// maxSteps is how many commits one offer holds.
const maxSteps = 200

// walkRequest asks how a tip relates to the held commit.
type walkRequest struct {
	Store string `json:"store"`
	Tip   string `json:"tip"`
	Held  string `json:"held"`            // never empty
	After string `json:"after,omitempty"` // a commit after held up to which an earlier offer went; empty: none
	Max   int    `json:"max"`             // of commits in the reply
}

// walkReply is the relation and the commits to look at, oldest first.
type walkReply struct {
	Descends  bool     `json:"descends"`
	MergeBase string   `json:"merge_base,omitempty"`
	Commits   []string `json:"commits,omitempty"`
	More      bool     `json:"more,omitempty"` // the branch goes on after the last of Commits
	// Policies says that the held commit, when it is an ancestor, has policies of the fleet's own.
	Policies bool `json:"policies,omitempty"`
}

func walk(ctx context.Context, r walkRequest) (walkReply, error) {
	st := openStore(r.Store)
	defer func() { _ = st.Close() }() // read only
	w := walker{st: st, ctx: ctx}
	reply, err := w.relate(plumbing.NewHash(r.Tip), plumbing.NewHash(r.Held))
	if err != nil {
		return walkReply{}, storeFailure(ctx, err, PhaseRead)
	}
	if reply.Descends {
		if reply.Policies, err = w.policies(plumbing.NewHash(r.Held)); err != nil {
			return walkReply{}, storeFailure(ctx, err, PhaseRead)
		}
	}
	for i, c := range reply.Commits {
		if c == r.After {
			reply.Commits = reply.Commits[i+1:]
			break
		}
	}
	if len(reply.Commits) > r.Max {
		reply.Commits, reply.More = reply.Commits[:r.Max], true
	}
	return reply, nil
}

type walker struct {
	st  *filesystem.Storage
	ctx context.Context
}

func (w walker) parents(h plumbing.Hash) ([]plumbing.Hash, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	c, err := readCommit(w.st, h)
	if err != nil {
		return nil, fmt.Errorf("cannot read commit %s: %w", h, err)
	}
	return c.ParentHashes, nil
}

func (w walker) policies(h plumbing.Hash) (bool, error) {
	c, err := readCommit(w.st, h)
	if err != nil {
		return false, fmt.Errorf("cannot read commit %s: %w", h, err)
	}
	_, found, err := policiesTree(w.st, c.TreeHash)
	return found, err
}

// relate answers whether tip descends from held, and which first-parent commits lie between them. The usual case, held on the chain,
// reads only the chain.
//
//	held ── a ── b ── tip        commits: a, b, tip
//	held ─────── m(tip)          held is m's second parent: the chain passes it by, and m is the only
//	x ── y ─────/                commit on it that descends from held. commits: m
func (w walker) relate(tip, held plumbing.Hash) (walkReply, error) {
	chain, found, err := w.chain(tip, held)
	if err != nil {
		return walkReply{}, err
	}
	if found {
		return walkReply{Descends: true, MergeBase: held.String(), Commits: oldestFirst(chain)}, nil
	}
	g, err := w.ancestors(tip)
	if err != nil {
		return walkReply{}, err
	}
	if _, ok := g.children[held]; ok {
		descendants := g.descendants(held)
		n := 0
		for n < len(chain) && descendants[chain[n]] {
			n++
		}
		return walkReply{Descends: true, MergeBase: held.String(), Commits: oldestFirst(chain[:n])}, nil
	}
	base, err := w.nearest(held, g)
	if err != nil {
		return walkReply{}, err
	}
	return walkReply{MergeBase: base, Commits: []string{tip.String()}}, nil
}

// chain lists the first-parent commits from tip down to, and without, held.
func (w walker) chain(tip, held plumbing.Hash) (chain []plumbing.Hash, found bool, err error) {
	for h := tip; h != held; {
		if len(chain) == maxChain {
			return nil, false, failure(KindHistory, PhaseRead, "", sayHistory(maxChain))
		}
		chain = append(chain, h)
		parents, err := w.parents(h)
		if err != nil {
			return nil, false, err
		}
		if len(parents) == 0 {
			return chain, false, nil
		}
		h = parents[0]
	}
	return chain, true, nil
}

// graph is a commit and all its ancestors, with edges from parent to child.
type graph struct {
	children map[plumbing.Hash][]plumbing.Hash
}

func (w walker) ancestors(tip plumbing.Hash) (graph, error) {
	g := graph{children: map[plumbing.Hash][]plumbing.Hash{tip: nil}}
	for queue := []plumbing.Hash{tip}; len(queue) > 0; {
		h := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		parents, err := w.parents(h)
		if err != nil {
			return graph{}, err
		}
		for _, p := range parents {
			if _, known := g.children[p]; !known {
				if len(g.children) == maxGraph {
					return graph{}, failure(KindHistory, PhaseRead, "", sayHistory(maxGraph))
				}
				queue = append(queue, p)
			}
			g.children[p] = append(g.children[p], h)
		}
	}
	return g, nil
}

func (g graph) descendants(from plumbing.Hash) map[plumbing.Hash]bool {
	out := map[plumbing.Hash]bool{from: true}
	for queue := []plumbing.Hash{from}; len(queue) > 0; {
		h := queue[0]
		queue = queue[1:]
		for _, c := range g.children[h] {
			if !out[c] {
				out[c] = true
				queue = append(queue, c)
			}
		}
	}
	return out
}

// nearest finds, breadth first from held, the first commit that g holds too. A held commit that the store does not have (its history
// was replaced and the store cloned anew) has no merge base.
func (w walker) nearest(held plumbing.Hash, g graph) (string, error) {
	if ok, err := has(w.st, held); err != nil || !ok {
		return "", err
	}
	seen := map[plumbing.Hash]bool{held: true}
	for queue := []plumbing.Hash{held}; len(queue) > 0; {
		h := queue[0]
		queue = queue[1:]
		if _, ok := g.children[h]; ok {
			return h.String(), nil
		}
		parents, err := w.parents(h)
		if err != nil {
			return "", err
		}
		for _, p := range parents {
			if !seen[p] && len(seen) < maxGraph {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return "", nil
}

func oldestFirst(chain []plumbing.Hash) []string {
	out := make([]string, len(chain))
	for i, h := range chain {
		out[len(chain)-1-i] = h.String()
	}
	return out
}
