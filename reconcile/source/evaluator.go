package source

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/results"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// Verdict is what one set of registry files says by itself.
type Verdict struct {
	Commit    string // full object id; empty for a work tree
	Document  []byte // canonical JSON; nil when the files do not compile
	Digest    string
	Findings  fleet.Findings
	Positions map[string]schema.Position
	Policies  bool   // there are policies of the fleet's own
	Parent    string // full object id of the first parent; empty for a root commit, and for what is no commit
	// AllowEmptyFleet: the commit says in a trailer that the last host is removed on purpose.
	AllowEmptyFleet bool
	TakesNumber     bool   // the commit raises the generation where changes leave it alone, as [TakesNumber] says
	GenerationFile  string // git's name of the content of generation.cue; empty when there is none
	Nonce           string // of the claim under which the commit was made, as its trailer says; empty for none
	// Gap is how the commit follows on what it is judged against, when the caller says so.
	Gap policies.Gap
	// Drift is what [schema.VendorDrift] lists, when the registry was read whole.
	Drift []string
	// Counts says how much was evaluated.
	Counts schema.Counts
}

// A commit that removes the last host on purpose says so with the trailer `Stado-Allow: empty-fleet`.
//
// A document that was made under a claim carries the claim's nonce, so that whoever promised it knows it again.
const (
	TrailerNonce    = "Stado-Nonce"
	TrailerAllow    = "Stado-Allow"
	TrailerKind     = "Stado-Kind"
	AllowEmptyFleet = "empty-fleet"
	KindStamp       = "stamp"
)

// TakesNumber reports whether a commit of a kind, as its trailer says it, raises the generation where changes leave it alone: a stamp,
// or the join of two histories.
func TakesNumber(kind string) bool { return kind == KindStamp || kind == "heal" }

// Evaluator judges registries of this machine for the command line, with the same child, gates and judges as the agent. It is a value,
// safe for concurrent use.
type Evaluator struct {
	Runner sandbox.Runner
	// Kept, when set, has the child for what decides nothing; its owner closes it. nil: each task has a child of its own.
	Kept *sandbox.Keeper
	// Results is a folder where results are kept between evaluations, such as [Repository.ResultsFolder]; empty for none.
	Results string
	// Sparse leaves the positions inside hosts and services out of verdicts; those of findings are all there.
	Sparse bool
}

func (e Evaluator) how() evaluation { return evaluation{Results: e.Results, Sparse: e.Sparse} }

// WorkTree judges the CUE files below a directory as they lie there, known to git or not. What the files do wrong is in the verdict;
// the error, an [*Error] or the context's own, says that they could not be read.
func (e Evaluator) WorkTree(ctx context.Context, dir string) (Verdict, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Verdict{}, &Error{Phase: PhaseRead, Remote: dir, Kind: KindNotFound, Cause: err.Error(), Err: err}
	}
	return e.run(ctx, taskWorkTree, localRequest{Dir: abs, evaluation: e.how()}, abs)
}

// Commit judges the registry at a revision (HEAD, origin/main, a tag, an object id or its start) of a local repository. dir is the
// repository, bare or not, or a directory of its work tree: then the registry is what the revision holds below that directory. Errors
// are as for [Evaluator.WorkTree].
func (e Evaluator) Commit(ctx context.Context, dir, rev string) (Verdict, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Verdict{}, &Error{Phase: PhaseRead, Remote: dir, Kind: KindNotFound, Cause: err.Error(), Err: err}
	}
	id, err := commitID(ctx, abs, rev)
	if err != nil {
		return Verdict{}, err
	}
	return e.run(ctx, taskRevision, localRequest{Dir: abs, Revision: id, evaluation: e.how()}, abs)
}

// run has the child do a task; where is the directory that errors name.
func (e Evaluator) run(ctx context.Context, task string, request any, where string) (Verdict, error) {
	var last sandbox.Progress
	var reply localReply
	err := e.Runner.Run(ctx, task, request, &reply, func(p sandbox.Progress) { last = p })
	if finding, ok := verdictOf(err); ok {
		return Verdict{Findings: schema.Limit(fleet.Findings{finding})}, nil
	}
	if err == nil {
		err = reply.verify()
	}
	if err != nil {
		return Verdict{}, asError(err, where, last)
	}
	return Verdict{
		Commit: reply.Commit, Document: reply.Document, Digest: reply.Digest, Findings: schema.Limit(reply.Findings), Positions: reply.Positions,
		Policies: reply.Policies, Counts: reply.Counts,
		Parent: reply.Parent, AllowEmptyFleet: reply.AllowEmptyFleet, Nonce: reply.Nonce, Drift: reply.Drift,
		TakesNumber: reply.TakesNumber, GenerationFile: reply.GenerationFile,
	}, nil
}

// localRequest asks for the verdict on a directory or, with Revision, on a commit of the repository there.
type localRequest struct {
	Dir      string `json:"dir"`
	Revision string `json:"revision,omitempty"`
	evaluation
}

type localReply struct {
	judgement
	Commit          string   `json:"commit,omitempty"`
	Parent          string   `json:"parent,omitempty"`
	AllowEmptyFleet bool     `json:"allow_empty_fleet,omitempty"`
	TakesNumber     bool     `json:"takes_number,omitempty"`
	Nonce           string   `json:"nonce,omitempty"`
	Drift           []string `json:"drift,omitempty"`
}

func workTree(_ context.Context, r localRequest, p func(sandbox.Progress)) (localReply, error) {
	files, findings, err := readDir(r.Dir, p)
	if err != nil {
		return localReply{}, localFailure(err, r.Dir)
	}
	return r.judged(withNames(files), r.open(), findings, p)
}

func (e evaluation) judged(set fileSet, cache *results.Cache, findings fleet.Findings, p func(sandbox.Progress)) (localReply, error) {
	if len(findings) > 0 {
		return localReply{judgement: judgement{Findings: schema.Limit(findings)}}, nil
	}
	j, err := e.judge(set, cache, p)
	return localReply{judgement: j, Drift: schema.VendorDrift(set.files)}, err
}

func revision(_ context.Context, r localRequest, p func(sandbox.Progress)) (localReply, error) {
	st, prefix, err := openLocal(r.Dir)
	if err != nil {
		return localReply{}, err
	}
	hash, err := resolved(r.Dir, r.Revision)
	if err != nil {
		return localReply{}, err
	}
	commit, err := readCommit(st, hash)
	if err != nil {
		return localReply{}, localFailure(err, r.Dir)
	}
	root, err := subtree(commit, prefix)
	if err != nil {
		return localReply{}, localFailure(err, r.Dir)
	}
	cache := r.open()
	set, findings, err := treeSet(st, root, cache, p)
	if err != nil {
		return localReply{}, localFailure(err, r.Dir)
	}
	reply, err := r.judged(set, cache, findings, p)
	if err != nil {
		return localReply{}, localFailure(err, r.Dir)
	}
	about := description(commit)
	reply.Commit, reply.Parent = hash.String(), about.Parent
	reply.AllowEmptyFleet, reply.Nonce = about.Trailers[TrailerAllow] == AllowEmptyFleet, about.Trailers[TrailerNonce]
	reply.TakesNumber = TakesNumber(about.Trailers[TrailerKind])
	return reply, nil
}

// openLocal opens the repository that dir is or lies in, and says where in its tree dir is. The objects are read through a storage
// with a small cache instead of the library's.
func openLocal(dir string) (*filesystem.Storage, string, error) {
	repo, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) { // not a repository's own directory, bare or not: perhaps one inside
		repo, err = git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	}
	if err != nil {
		if errors.Is(err, git.ErrRepositoryNotExists) {
			return nil, "", failure(KindNotFound, PhaseRead, dir, "there is no git repository")
		}
		if strings.Contains(err.Error(), "objectformat") {
			return nil, "", failure(KindFormat, PhaseRead, dir, sayFormat)
		}
		return nil, "", failure(KindDamaged, PhaseRead, dir, err.Error())
	}
	opened, ok := repo.Storer.(*filesystem.Storage)
	if !ok {
		return nil, "", failure(KindInternal, PhaseRead, dir, "the repository is of an unknown kind")
	}
	st := openObjects(opened.Filesystem())
	prefix := ""
	if tree, err := repo.Worktree(); err == nil {
		prefix = below(tree.Filesystem.Root(), dir)
	}
	return st, prefix, nil
}

// below is dir relative to root, through symbolic links; empty when it is the root, or not below it.
func below(root, dir string) string {
	realRoot, err1 := filepath.EvalSymlinks(root)
	realDir, err2 := filepath.EvalSymlinks(dir)
	if err1 != nil || err2 != nil {
		return ""
	}
	rel, err := filepath.Rel(realRoot, realDir)
	if err != nil || rel == "." || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

func subtree(c *object.Commit, prefix string) (plumbing.Hash, error) {
	if prefix == "" {
		return c.TreeHash, nil
	}
	tree, err := c.Tree()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	sub, err := tree.Tree(prefix)
	if err != nil {
		return plumbing.ZeroHash, failure(KindRevision, PhaseRead, "", "commit "+c.Hash.String()+" has no directory "+prefix)
	}
	return sub.Hash, nil
}

// localFailure classes an error of reading a directory or repository that is not ours to repair.
func localFailure(err error, dir string) error {
	if t, ok := taskFailure(err); ok {
		return t
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure(KindNotFound, PhaseRead, dir, err.Error())
	case errors.Is(err, fs.ErrPermission):
		return failure(KindPermission, PhaseRead, dir, err.Error())
	}
	return failure(KindDamaged, PhaseRead, dir, err.Error())
}
