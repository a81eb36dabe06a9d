package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/sandbox"
)

// Git reads one remote into one store. It is safe for concurrent use; polls take turns.
type Git struct {
	opts Options
	log  *slog.Logger
	ssh  *sshHost // nil for a remote of another kind
	http httpLister
	kept *sandbox.Keeper

	mu       sync.Mutex
	last     *memory                   // the last poll whose answer stays; nil when there is none
	resume   resume                    // where the next offer goes on
	verdicts map[string]verdict        // of the commits of the last offer, by commit
	changes  map[change]fleet.Findings // what policies of the fleet's own said, of at most maxSteps changes
	vouched  *vouched                  // the last answer about signatures; nil when there is none to keep
	retry    int                       // polls until what is not final is judged again; 0: everything is final
	hopeless *hopeless                 // nil when there is none
	base     *base                     // of a commit that the next one can be compared with; nil when there is none
	packs    int                       // of the store, when last written

	maxSteps int // of one offer
	maxPacks int // of the store
}

// memory is an answer and the question that it belongs to.
type memory struct {
	held  string
	offer Offer
}

// resume is the end of a partial offer. It outlives the offer: whether a later part can be remembered has no say in where it begins.
type resume struct {
	held  string // the commit that was held then; the end means nothing to another one
	after string // the last step's commit
}

// verdict is a step as it was judged, and whether judging it again would say the same on any machine.
type verdict struct {
	step  Step
	final bool
}

// hopeless is a tip that cannot be read at all, so that a bomb is not fetched at every refresh.
type hopeless struct {
	tip   string
	err   error
	polls int // until it is tried again: a remote may be repaired without a new commit
}

// hopelessPolls is how many polls one attempt stands for that failed at a tip, or that ended in a verdict which is not final.
const hopelessPolls = 20

// New makes a Git. It touches nothing before the first poll. [Git.Close] ends what it keeps: connections, and a child.
func New(opts Options) *Git {
	opts.Deadlines = opts.Deadlines.filled()
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	kept := opts.Kept
	if kept == nil {
		kept = &sandbox.Keeper{For: opts.Keep, Ended: func(err error) { log.Warn("the process of earlier fetches is replaced: " + err.Error()) }}
	}
	return &Git{
		opts: opts, log: log, ssh: newSSHHost(opts, log), kept: kept,
		verdicts: map[string]verdict{}, changes: map[change]fleet.Findings{}, maxSteps: maxSteps, maxPacks: maxPacks,
	}
}

// String is the remote's address, and its branch when that is not the usual one.
func (g *Git) String() string {
	r := g.opts.Remote
	if r.Branch == "" || r.Branch == DefaultBranch {
		return r.URL
	}
	return r.URL + " (branch " + r.Branch + ")"
}

// Poll asks the remote for its branch and gives what is new since held. The error is an [*Error] or the context's own. What a commit
// itself does wrong is never an error but the findings of its step.
func (g *Git) Poll(ctx context.Context, held Anchor) (Offer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settle(held)
	unlock, err := g.lock()
	if err != nil {
		return Offer{}, err
	}
	defer unlock()
	if err := g.tidy(); err != nil {
		return Offer{}, g.storeError(err)
	}
	tip, err := g.list(ctx)
	if err != nil {
		return Offer{}, err
	}
	g.age()
	missing := g.missing()
	if g.last != nil && g.last.held == held.Commit && g.last.offer.Tip == tip && !g.last.offer.Partial {
		if missing || g.packs > g.maxPacks {
			if err := g.clone(ctx, tip); err != nil {
				g.log.Warn("cannot clone the store anew: " + err.Error())
			}
		}
		again := g.last.offer
		again.Unchanged = true
		return again, nil
	}
	if h := g.hopeless; h != nil && h.tip == tip && h.polls > 0 {
		h.polls--
		return Offer{}, h.err
	}
	offer, err := g.read(ctx, tip, held)
	if kindOf(err) == KindDamaged {
		offer, err = g.rebuild(ctx, tip, held, err)
	}
	if err != nil {
		g.remember(tip, err)
		return Offer{}, err
	}
	return offer, nil
}

// settle lets go of what belongs to another question: once a commit is held, nothing asks for its document again. It is called before
// anything is read, so that an adopted document does not stay in memory for as long as a remote does not answer.
func (g *Git) settle(held Anchor) {
	if held.Restart {
		g.last = nil
	}
	if g.base != nil && g.base.step.Commit != held.Commit {
		g.base = nil
	}
	if held.Restart || g.resume.held != held.Commit {
		g.resume = resume{}
	}
	if g.last == nil || g.last.held == held.Commit {
		return
	}
	for i, s := range g.last.offer.Steps {
		if s.Commit == held.Commit {
			for _, old := range g.last.offer.Steps[:i+1] {
				delete(g.verdicts, old.Commit)
			}
		}
	}
	g.last = nil
}

// age counts a poll, and forgets now and then what is not final: it is judged again, from the held commit on.
func (g *Git) age() {
	if g.retry == 0 {
		return
	}
	if g.retry--; g.retry == 0 {
		maps.DeleteFunc(g.verdicts, func(_ string, v verdict) bool { return !v.final })
		g.last, g.resume = nil, resume{}
	}
}

// remember keeps an error that the same tip brings again.
func (g *Git) remember(tip string, err error) {
	var limit *sandbox.LimitError
	if errors.As(err, &limit) && limit.Transient() {
		return
	}
	switch kindOf(err) {
	case KindLimit, KindIncomplete, KindHistory:
		g.hopeless = &hopeless{tip: tip, err: err, polls: hopelessPolls}
	default: // may pass
	}
}

// rebuild replaces a damaged store and reads again, once. A new store that cannot be read either is the remote's doing.
func (g *Git) rebuild(ctx context.Context, tip string, held Anchor, damage error) (Offer, error) {
	g.log.Warn("the store " + g.opts.Store + " is damaged and is cloned anew: " + damage.Error())
	if err := g.aside(); err != nil {
		return Offer{}, g.storeError(err)
	}
	offer, err := g.read(ctx, tip, held)
	if kindOf(err) != KindDamaged {
		return offer, err
	}
	var e *Error
	errors.As(err, &e)
	return Offer{}, &Error{Phase: e.Phase, Remote: e.Remote, Kind: KindIncomplete, Cause: "a fresh clone cannot be read: " + e.Cause, Err: err}
}

// read brings tip into the store, relates it to what is held and judges the commits between.
func (g *Git) read(ctx context.Context, tip string, held Anchor) (Offer, error) {
	fetched, err := g.fetch(ctx, tip, held)
	if err != nil {
		return Offer{}, err
	}
	tip = fetched.Tip
	var offer Offer
	var commits []string
	if n := fetched.Next; n != nil && g.after(held) == "" {
		offer, commits = Offer{Tip: tip, Descends: true, MergeBase: held.Commit, Policies: n.Policies}, []string{tip}
		n.About.cleanDescription()
		if b, ok := g.base.after(tip, n); ok {
			g.verdicts[tip], g.base = verdict{step: b.step, final: true}, b
		}
	} else if offer, commits, err = g.relate(ctx, tip, held); err != nil {
		return Offer{}, err
	}
	known := make(map[string]verdict, len(commits))
	defer func() { g.verdicts = known }() // also of a poll that ends early, so that the next one gets further
	size, settled := 0, true
	for i, commit := range commits {
		v, lasting, err := g.step(ctx, commit)
		if err != nil {
			return Offer{}, err
		}
		if lasting {
			known[commit] = v
		}
		settled = settled && lasting
		if !v.final && g.retry == 0 {
			g.retry = hopelessPolls
		}
		if size += len(v.step.Document); size > maxOfferBytes && i > 0 {
			offer.Partial = true
			break
		}
		offer.Steps = append(offer.Steps, v.step)
	}
	if n := len(offer.Steps); offer.Partial && n > 0 {
		g.resume = resume{held: held.Commit, after: offer.Steps[n-1].Commit}
	}
	g.last = nil
	if settled { // else something is to be judged again at the next poll
		g.last = &memory{held: held.Commit, offer: offer}
	}
	return offer, nil
}

// relate asks for the commits to look at. What needs no store is answered without one.
func (g *Git) relate(ctx context.Context, tip string, held Anchor) (Offer, []string, error) {
	offer := Offer{Tip: tip}
	switch held.Commit {
	case "":
		offer.Descends = held.Generation == 0
		return offer, []string{tip}, nil
	case tip:
		offer.Descends, offer.MergeBase = true, tip
		return offer, nil, nil
	}
	request := walkRequest{Store: g.opts.Store, Tip: tip, Held: held.Commit, After: g.after(held), Max: g.maxSteps}
	var reply walkReply
	if err := g.run(ctx, taskWalk, request, &reply, 0); err != nil {
		return Offer{}, nil, err
	}
	offer.Descends, offer.MergeBase, offer.Partial, offer.Policies = reply.Descends, reply.MergeBase, reply.More, reply.Policies
	return offer, reply.Commits, nil
}

// after is the last commit of a partial offer of which nothing was adopted.
func (g *Git) after(held Anchor) string {
	if g.resume.held != held.Commit {
		return ""
	}
	return g.resume.after
}

// step judges one commit in a child of its own, so that the verdict depends on nothing but the commit. A verdict in which the
// state of the machine had a part is not lasting: the next poll asks again. One that may have been close to a limit lasts for
// [hopelessPolls] polls.
func (g *Git) step(ctx context.Context, commit string) (_ verdict, lasting bool, _ error) {
	if v, ok := g.verdicts[commit]; ok {
		return v, true, nil
	}
	request := compileRequest{Store: g.opts.Store, Commit: commit, evaluation: evaluation{Results: g.opts.Store + suffixResults, Sparse: true}}
	var reply compileReply
	err := g.run(ctx, taskCompile, request, &reply, 0)
	lasting, final := true, true
	if finding, ok := verdictOf(err); ok {
		lasting, final = lastingOf(err)
		err = g.run(ctx, taskDescribe, request, &reply, 0)
		reply.Findings = fleet.Findings{finding}
	}
	if err != nil {
		return verdict{}, false, err
	}
	if err := reply.verify(); err != nil {
		return verdict{}, false, &Error{Phase: PhaseEvaluation, Remote: g.opts.Remote.URL, Kind: KindInternal, Cause: err.Error(), Err: err}
	}
	reply.clean()
	s := stepOf(commit, &reply)
	if reply.Separate && len(s.Findings) == 0 && !s.Policies && final && lasting {
		if s.Registry, err = fleet.Decode(s.Document); err == nil {
			if parts, ok := fleet.TakeApart(s.Document, s.Registry); ok {
				s.Parts = parts
				g.base = &base{step: s, bytes: reply.Bytes, clean: policies.NewAfter()}
			}
		}
	}
	return verdict{step: s, final: final}, lasting, nil
}

func stepOf(commit string, r *compileReply) Step {
	return Step{
		Commit: commit, Parent: r.Parent, Time: r.Time, Author: r.Author, Subject: r.Subject, Trailers: r.Trailers,
		Document: r.Document, Digest: r.Digest, Generation: r.Generation, Findings: r.Findings, Positions: r.Positions, Policies: r.Policies,
	}
}

// lastingOf says how long the end of an evaluation that is a verdict stands.
func lastingOf(err error) (lasting, final bool) {
	if limit, ok := errors.AsType[*sandbox.LimitError](err); ok {
		return !limit.Transient(), limit.Repeats()
	}
	return true, false
}

// verify checks that a document arrived as it was sent.
func (j judgement) verify() error {
	if j.Document == nil {
		return nil
	}
	if sum := sha256.Sum256(j.Document); hex.EncodeToString(sum[:]) != j.Digest {
		return fmt.Errorf("the evaluation's document does not have the digest %s that it claims", j.Digest)
	}
	return nil
}

// verdictOf says what the end of an evaluation means for the commit; false when it means nothing for it.
func verdictOf(err error) (fleet.Finding, bool) {
	var limit *sandbox.LimitError
	var crash *sandbox.CrashError
	switch {
	case errors.As(err, &limit):
		return limitFinding(limit), true
	case errors.As(err, &crash):
		return crashFinding(crash), true
	}
	return fleet.Finding{}, false
}

// fetch fills the store; a store that is not there is first made beside its place.
func (g *Git) fetch(ctx context.Context, tip string, held Anchor) (fetchReply, error) {
	if g.missing() {
		tip, err := g.cloneTip(ctx, tip)
		return fetchReply{Tip: tip}, err
	}
	if cloned, ok := g.renew(ctx, tip); ok {
		return fetchReply{Tip: cloned}, nil
	}
	if err := g.fault(FaultFetch); err != nil {
		return fetchReply{}, g.storeError(err)
	}
	return g.fetchInto(ctx, g.opts.Store, tip, held)
}

func (g *Git) fetchInto(ctx context.Context, dir, tip string, held Anchor) (fetchReply, error) {
	d := g.opts.Deadlines
	request := fetchRequest{
		Remote: g.opts.Remote, Deadlines: d, Store: dir, Tip: tip,
		Held: held.Commit, Separate: g.base != nil && g.base.step.Commit == held.Commit,
	}
	var preparing sync.WaitGroup
	if request.Separate {
		preparing.Go(g.base.prepare)
	}
	defer preparing.Wait()
	var reply fetchReply
	if err := g.network(ctx, taskFetch, request, &reply, d.listing()+d.Pack+childSlack); err != nil {
		return fetchReply{}, err
	}
	g.packs = reply.Packs
	return reply, nil
}

// childSlack is what a child may take beyond its network's deadlines before it is killed.
const childSlack = 20 * time.Second

// run does one task; wall 0 means the runner's own limit.
func (g *Git) run(ctx context.Context, task string, request, reply any, wall time.Duration, files ...*os.File) error {
	runner := g.opts.Runner
	runner.Files = files
	if wall > 0 {
		runner.Limits.Wall = wall
	}
	var last sandbox.Progress
	report := func(p sandbox.Progress) {
		if p.Phase != last.Phase {
			g.log.Debug("a phase of the read begins", "phase", p.Phase)
		}
		last = p
	}
	var err error
	if task == taskFetch || task == taskList {
		err = g.kept.Run(ctx, runner, task, request, reply, report)
	} else { // whatever decides has a process that has read nothing else
		err = runner.Run(ctx, task, request, reply, report)
	}
	return asError(err, g.opts.Remote.URL, last)
}
