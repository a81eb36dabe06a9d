package source

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// PhasePolicies is the evaluation of the fleet's own policies.
const PhasePolicies = "policies"

// policiesRequest asks for the verdict on a change by the policies that a commit holds, of the registry below Prefix in its tree.
type policiesRequest struct {
	Store    string          `json:"store,omitempty"` // a store of ours, or
	Dir      string          `json:"dir,omitempty"`   // a local repository, or a directory of its work tree
	Commit   string          `json:"commit"`
	Previous json.RawMessage `json:"previous"` // canonical, so that it crosses the pipe byte for byte
	Next     json.RawMessage `json:"next"`
}

type policiesReply struct {
	Findings fleet.Findings `json:"findings,omitempty"`
}

// judgePolicies runs in the child only.
func judgePolicies(ctx context.Context, r policiesRequest, p func(sandbox.Progress)) (policiesReply, error) {
	if r.Dir != "" {
		st, prefix, err := openLocal(r.Dir)
		if err != nil {
			return policiesReply{}, err
		}
		reply, err := applyPolicies(st, prefix, r, p)
		if err != nil {
			return policiesReply{}, localFailure(err, r.Dir)
		}
		return reply, nil
	}
	st := openStore(r.Store)
	defer func() { _ = st.Close() }() // read only
	reply, err := applyPolicies(st, "", r, p)
	if err != nil {
		return policiesReply{}, storeFailure(ctx, err, PhaseRead)
	}
	return reply, nil
}

func applyPolicies(st *filesystem.Storage, prefix string, r policiesRequest, p func(sandbox.Progress)) (policiesReply, error) {
	c, err := readCommit(st, plumbing.NewHash(r.Commit))
	if err != nil {
		return policiesReply{}, err
	}
	root, err := subtree(c, prefix)
	if err != nil {
		return policiesReply{}, err
	}
	dir, found, err := policiesTree(st, root)
	if err != nil || !found {
		return policiesReply{}, err
	}
	set, findings, err := treeSet(st, dir, nil, p)
	if err != nil || len(findings) > 0 {
		findings.Sort()
		return policiesReply{Findings: findings}, err
	}
	files := set.files
	for i := range files {
		files[i].Path = schema.PoliciesDir + "/" + files[i].Path
	}
	return policiesReply{Findings: policies.JudgeOwn(files, r.Previous, r.Next, beginPolicies(p))}, nil
}

// policiesTree is the directory of the policies in the tree of a registry.
func policiesTree(st *filesystem.Storage, root plumbing.Hash) (_ plumbing.Hash, found bool, _ error) {
	tree, err := object.GetTree(st, root)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	sub, err := tree.Tree(schema.PoliciesDir)
	if errors.Is(err, object.ErrDirectoryNotFound) {
		return plumbing.ZeroHash, false, nil
	}
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	return sub.Hash, true, nil
}

func beginPolicies(p func(sandbox.Progress)) func(string) {
	return func(file string) { p(sandbox.Progress{Phase: PhasePolicies, File: file}) }
}

// Policies judges a change by the policies of the fleet's own that the commit of previous holds. That they met a limit is a finding; an
// error, an [*Error] or the context's own, says that they could not be asked.
func (g *Git) Policies(ctx context.Context, previous, next policies.Revision) (fleet.Findings, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := change{previous.Commit, previous.Digest, next.Commit, next.Digest}
	if known, ok := g.changes[key]; ok {
		return known, nil
	}
	unlock, err := g.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	request := policiesRequest{Store: g.opts.Store, Commit: previous.Commit, Previous: previous.Document, Next: next.Document}
	var reply policiesReply
	err = g.run(ctx, taskPolicies, request, &reply, 0)
	if finding, ok := verdictOf(err); ok {
		reply.Findings, err = fleet.Findings{finding}, transient(err)
		if err != nil {
			return reply.Findings, nil
		}
	}
	if err != nil {
		if kindOf(err) == KindDamaged {
			g.last = nil // so that the next poll reads the store, and finds it damaged too
		}
		return nil, err
	}
	if len(g.changes) >= g.maxSteps {
		clear(g.changes)
	}
	g.changes[key] = reply.Findings
	return reply.Findings, nil
}

// change is a pair of revisions that policies were asked about.
type change struct{ commit, digest, nextCommit, nextDigest string }

// transient is a verdict in which the state of the machine had a part, so that it is not kept.
func transient(err error) error {
	if limit, ok := errors.AsType[*sandbox.LimitError](err); ok && limit.Transient() {
		return limit
	}
	return nil
}

// Judge judges the change from one verdict to another as an agent does: by the rules for changes, and by the fleet's own policies of
// previous, a commit of the repository that dir is or lies in. Verdicts without a document are not compared. What allows an empty fleet
// is the commit's to say.
func (e Evaluator) Judge(ctx context.Context, dir string, previous, next Verdict) (fleet.Findings, error) {
	before, err := previous.revision()
	if err != nil {
		return nil, err
	}
	after, err := next.revision()
	if err != nil {
		return nil, err
	}
	findings := policies.Judge(before, after)
	if !before.OwnPolicies || before.Document == nil || after.Document == nil {
		return findings, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, &Error{Phase: PhaseRead, Remote: dir, Kind: KindNotFound, Cause: err.Error(), Err: err}
	}
	var last sandbox.Progress
	var reply policiesReply
	request := policiesRequest{Dir: abs, Commit: before.Commit, Previous: before.Document, Next: after.Document}
	err = e.Runner.Run(ctx, taskPolicies, request, &reply, func(p sandbox.Progress) { last = p })
	if finding, ok := verdictOf(err); ok {
		reply.Findings, err = fleet.Findings{finding}, nil
	}
	if err != nil {
		return nil, asError(err, abs, last)
	}
	findings = append(findings, reply.Findings...)
	findings.Sort()
	return findings, nil
}

// revision is a verdict in the form that is judged.
func (v Verdict) revision() (policies.Revision, error) {
	if v.Document == nil {
		return policies.Revision{}, nil
	}
	registry, err := fleet.Decode(v.Document)
	if err != nil {
		return policies.Revision{}, err
	}
	return policies.Revision{
		Registry: registry, Document: v.Document, Digest: v.Digest, Positions: v.Positions, Commit: v.Commit, OwnPolicies: v.Policies,
		AllowEmptyFleet: v.AllowEmptyFleet, TakesNumber: v.TakesNumber, GenerationFile: v.GenerationFile, Gap: v.Gap,
	}, nil
}
