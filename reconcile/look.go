package reconcile

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// inquiry is what one look at the sources begins with.
type inquiry struct {
	sources []Source
	first   *result // what the first source said, when sources is the one that is read on in its place
	restart bool    // every offer begins at the held commit
	lost    lost
	behind  trail
}

// lost are the sources, by their names, of which a part was read that counted for nothing, so that their next offer begins anew.
type lost map[string]bool

// result is a read and what it amounts to against what was held when it ended.
type result struct {
	from  Source
	offer source.Offer
	held  store.Held
	out   outcome
	trail trail
	err   error

	first  *result  // what the first source said, when from was read in its place; nil: it is this
	others []string // what those said that were asked in its place and did not answer
	fork   *Refusal // those that answered contradict each other, so the first one's failure stands
	lost   lost
}

// answered reports whether the source answered in the sense of the design.
func (r result) answered() bool { return r.err == nil && r.out.refusal == nil }

// goesOn reports whether there is more to read before anything can be said of the source's tip.
func (r result) goesOn() bool { return r.err == nil && r.offer.Partial && !r.out.blocked }

// advances reports whether something of an offer was admitted, whatever is said of its tip.
func (r result) advances() bool { return r.err == nil && r.out.final != nil }

// cause is why it did not answer.
func (r result) cause() string {
	if r.err != nil {
		return r.err.Error()
	}
	return r.out.refusal.Sentence
}

// beside is what the other sources said.
func (r result) beside() string {
	said := r.others
	if r.fork != nil {
		said = append(slices.Clone(said), r.fork.Sentence)
	}
	if len(said) == 0 {
		return ""
	}
	return "; " + strings.Join(said, "; ")
}

// end is where this host would be after the result.
func (r result) end() source.Anchor {
	a := source.Anchor{Commit: r.held.Commit, Generation: r.held.Generation, Digest: r.held.Digest}
	switch {
	case r.out.final != nil:
		a = source.Anchor{Commit: r.out.final.Commit, Generation: r.out.final.Generation(), Digest: r.out.final.Digest}
	case r.out.observed != "":
		a.Commit = r.out.observed
	}
	return a
}

// look asks the first source. When that does not answer — with a registry that the fence admits, or the one that is held — it asks all
// others, and what counts is the one that is furthest on; when they contradict each other, none. When nobody answers it is the first
// one's failure, which names what the others said.
func (l *loop) look(ctx context.Context, in inquiry) result {
	in.lost = maps.Clone(in.lost)
	if in.lost == nil {
		in.lost = lost{}
	}
	first, rest := in.first, in.sources
	var answers []result
	if first == nil {
		r := l.lookAt(ctx, in.sources[0], &in)
		r.lost = in.lost
		if r.answered() || r.goesOn() || len(in.sources) == 1 || ctx.Err() != nil {
			return r
		}
		if r.advances() {
			answers = append(answers, r)
		}
		first, rest = &r, in.sources[1:]
	}
	var others []string
	for _, src := range rest {
		r := l.lookAt(ctx, src, &in)
		if r.answered() || r.goesOn() || r.advances() {
			answers = append(answers, r)
		} else {
			others = append(others, sayOther(src.String(), r.cause()))
		}
	}
	best, fork := furthest(ctx, answers)
	taken := *first
	if best != nil && fork == nil {
		taken = *best
		if best.from != first.from {
			taken.first = first
		}
	}
	for _, r := range answers {
		if r.offer.Partial && r.from != taken.from {
			in.lost[r.from.String()] = true
		}
	}
	taken.others, taken.fork, taken.lost = others, fork, in.lost
	return taken
}

// furthest is the result with the highest generation, the earliest of several; nil of none. Whatever else would be admitted must be on the
// way to it: otherwise two registries follow on what is held, and the refusal names both.
func furthest(ctx context.Context, answers []result) (*result, *Refusal) {
	if len(answers) == 0 {
		return nil, nil
	}
	at := 0
	for i, r := range answers {
		best := answers[at]
		if a, b := r.end().Generation, best.end().Generation; a > b || a == b && r.goesOn() && !best.goesOn() {
			at = i
		}
	}
	best := answers[at]
	for i, r := range answers {
		if i == at || !r.advances() {
			continue
		}
		leads, err := r.leadsTo(ctx, best)
		if err != nil { // it answered, and does no longer
			return furthest(ctx, slices.Delete(slices.Clone(answers), at, at+1))
		}
		if !leads {
			return nil, &Refusal{Rule: RuleFork, Commit: best.end().Commit, Sentence: sayContradiction(r, best), Since: time.Now().UTC()}
		}
	}
	return &best, nil
}

// leadsTo reports whether where this result ends is on the way to where another one does.
func (r result) leadsTo(ctx context.Context, further result) (bool, error) {
	end, goal := r.end(), further.end()
	if end.Digest == goal.Digest && end.Generation == goal.Generation ||
		slices.ContainsFunc(further.offer.Steps, func(s source.Step) bool { return s.Commit == end.Commit }) {
		return true, nil
	}
	if end.Generation == goal.Generation {
		return false, nil
	}
	offer, err := further.from.Poll(ctx, end) // not on the first-parent chain: its source can tell whether it is an ancestor
	return offer.Descends, err
}

// lookAt reads one source and judges what it offers. It runs beside the loop, because signatures and
// policies of the fleet's own are judged in children.
func (l *loop) lookAt(ctx context.Context, src Source, in *inquiry) result {
	offer, err := l.poll(ctx, src, in.restart || in.lost[src.String()])
	if err != nil {
		return result{from: src, err: err}
	}
	delete(in.lost, src.String())
	held, _ := l.opts.Store.Held()
	w := walk{judge: l.judge, now: time.Now().UTC(), own: func(previous, next policies.Revision) (fleet.Findings, error) {
		return src.Policies(ctx, previous, next)
	}, vouch: func(since string, commits []string, trust fleet.Trust) (int, *signature.Refusal, error) {
		return src.Vouch(ctx, source.Question{Since: since, Tip: offer.Tip, Commits: commits, Trust: trust})
	}}
	out, err := w.admit(held, l.opts.Store.Snapshot(), offer, in.behind)
	if err == nil {
		out = promised(held.Promised, out, offer, w.now)
	}
	return result{from: src, offer: offer, held: held, out: out, trail: w.trail, err: err}
}

// poll reads a source. When the authority has what this host holds, and this host's copy of it is damaged, it reads the tip once more,
// whole.
func (l *loop) poll(ctx context.Context, src Source, restart bool) (source.Offer, error) {
	held, _ := l.opts.Store.Held()
	anchor := source.Anchor{Commit: held.Commit, Generation: held.Generation, Digest: held.Digest, Restart: restart}
	offer, err := src.Poll(ctx, anchor)
	if err != nil || held.Commit == "" || offer.Tip != held.Commit {
		return offer, err
	}
	if s := l.opts.Store.Snapshot(); s == nil || s.Digest != held.Digest {
		whole, err := src.Poll(ctx, source.Anchor{})
		if err != nil {
			return source.Offer{}, err
		}
		if whole.Tip == offer.Tip {
			offer.Steps = whole.Steps
		}
	}
	return offer, nil
}
