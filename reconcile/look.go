package reconcile

import (
	"context"
	"errors"
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
	open    open
	behind  trail
}

// open are the sources, by their names, whose last offer was a part of one: their next one goes on after it, which is right only when what
// comes is judged behind it too.
type open map[string]bool

// result is a read and what it amounts to against what was held when it ended.
type result struct {
	from  Source
	offer source.Offer
	held  store.Held
	out   outcome
	trail trail
	err   error

	first  *result   // what the first source said, when from was read in its place; nil: it is this
	others []refused // those that were asked in its place and did not answer
	fork   *Refusal  // those that answered contradict each other, so the first one's failure stands
	open   open
}

// refused is what a source said that was asked in the first one's place and did not answer.
type refused struct {
	refusal  *Refusal // nil: it could not be read
	sentence string
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
	var said strings.Builder
	for _, o := range r.others {
		said.WriteString("; " + o.sentence)
	}
	if r.fork != nil {
		said.WriteString("; " + r.fork.Sentence)
	}
	return said.String()
}

// stands is what a person should know of although another source answered in the first one's place: why that was refused, or else that one
// of the others has another history.
func (r result) stands() *Refusal {
	if r.first == nil {
		return nil
	}
	if e, ok := errors.AsType[*source.Error](r.first.err); ok && e.Kind == source.KindLimit {
		return &Refusal{Rule: source.RuleLimit, Sentence: e.Error(), Since: time.Now().UTC()}
	}
	if r.first.err == nil {
		return r.first.out.refusal
	}
	for _, o := range r.others {
		if o.refusal != nil && (o.refusal.Rule == RuleFork || o.refusal.Rule == RuleReused) {
			stands := *o.refusal
			stands.Sentence = o.sentence
			return &stands
		}
	}
	return nil
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

// moves reports whether this host would be elsewhere after the result.
func (r result) moves() bool { return r.out.final != nil || r.out.observed != "" }

// look asks the first source. When that does not answer — with a registry that the fence admits, or the one that is held — and has nothing
// before its refused tip either, it asks all others, and what counts is the one that is furthest on; when they contradict each other,
// none. When nobody answers it is the first one's failure, which names what the others said.
func (l *loop) look(ctx context.Context, in inquiry) result {
	in.open = maps.Clone(in.open)
	if in.open == nil {
		in.open = open{}
	}
	first, rest := in.first, in.sources
	if first == nil {
		r := l.lookAt(ctx, in.sources[0], &in)
		r.open = in.open
		if r.answered() || r.goesOn() || r.advances() || len(in.sources) == 1 || ctx.Err() != nil {
			return r
		}
		first, rest = &r, in.sources[1:]
	}
	var answers []result
	var others []refused
	for _, src := range rest {
		r := l.lookAt(ctx, src, &in)
		if r.answered() || r.goesOn() || r.advances() {
			answers = append(answers, r)
		} else {
			others = append(others, refused{r.out.refusal, sayOther(src.String(), r.cause())})
		}
	}
	taken := *first
	best, fork := furthest(ctx, answers)
	switch {
	case fork != nil:
		taken.held = answers[0].held
	case best != nil:
		taken, taken.first = *best, first
	}
	taken.others, taken.fork, taken.open = others, fork, in.open
	return taken
}

// furthest is the result with the highest generation; nil of none. Whatever else would move this host must be on the way to it: otherwise
// two histories follow on what is held, and the refusal names both.
func furthest(ctx context.Context, answers []result) (*result, *Refusal) {
	var top fleet.Generation
	for _, r := range answers {
		top = max(top, r.end().Generation)
	}
	var fork *Refusal
	for _, goesOn := range []bool{true, false} { // of equal ones the one of which more is to come
		for i, best := range answers {
			if best.end().Generation != top || best.goesOn() != goesOn {
				continue
			}
			against, err := best.against(ctx, answers)
			switch {
			case err != nil: // it answered, and does no longer
				return furthest(ctx, slices.Delete(slices.Clone(answers), i, i+1))
			case against == nil:
				return &best, nil
			case fork == nil:
				fork = &Refusal{Rule: RuleFork, Commit: best.end().Commit, Sentence: sayContradiction(*against, best), Since: time.Now().UTC()}
			}
		}
	}
	return nil, fork
}

// against is the first of answers that would move this host to where this result does not lead through.
func (r result) against(ctx context.Context, answers []result) (*result, error) {
	for _, other := range answers {
		if !other.moves() {
			continue
		}
		if leads, err := other.leadsTo(ctx, r); err != nil || !leads {
			return &other, err
		}
	}
	return nil, nil
}

// leadsTo reports whether where this result ends is on the way to where another one does.
func (r result) leadsTo(ctx context.Context, further result) (bool, error) {
	end, goal := r.end(), further.end()
	if end.Commit == goal.Commit {
		return true, nil
	}
	at := func(commit string) int {
		return slices.IndexFunc(further.offer.Steps, func(s source.Step) bool { return s.Commit == commit })
	}
	if i := at(end.Commit); i >= 0 && i < at(goal.Commit) {
		return true, nil
	}
	if further.offer.Tip != goal.Commit {
		return false, nil // the tip, which may be refused, could have it in its history, and what would be taken has not
	}
	offer, err := further.from.Poll(ctx, end) // it may have been merged: of that only the source can tell
	if err == nil && offer.Tip != further.offer.Tip {
		err = errors.New(sayOtherTip(further.offer.Tip, offer.Tip))
	}
	return offer.Descends, err
}

// lookAt reads one source and judges what it offers. It runs beside the loop, because signatures and
// policies of the fleet's own are judged in children.
func (l *loop) lookAt(ctx context.Context, src Source, in *inquiry) result {
	name, behind := src.String(), in.behind
	if behind.of != name {
		behind = trail{}
	}
	offer, err := l.poll(ctx, src, in.restart || in.open[name] && behind.of != name)
	if err != nil {
		return result{from: src, err: err}
	}
	in.open[name] = offer.Partial
	held, _ := l.opts.Store.Held()
	w := walk{judge: l.judge, now: time.Now().UTC(), own: func(previous, next policies.Revision) (fleet.Findings, error) {
		return src.Policies(ctx, previous, next)
	}, vouch: func(since string, commits []string, trust fleet.Trust) (int, *signature.Refusal, error) {
		return src.Vouch(ctx, source.Question{Since: since, Tip: offer.Tip, Commits: commits, Trust: trust})
	}}
	out, err := w.admit(held, l.opts.Store.Snapshot(), offer, behind)
	if err == nil {
		out = promised(held.Promised, out, offer, w.now)
	}
	w.trail.of = name
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
