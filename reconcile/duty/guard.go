package duty

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
)

// guarded is this host's own repository, behind the question whether this host is the authority.
type guarded struct {
	reconcile.Source
	watch  *Watch
	served *fleet.Snapshot
	from   reconcile.Source // made the last offer
}

// Guard is own, this host's repository, as a host that served names as the authority reads it: while another host holds a newer registry of
// the same history, that one is read in its place. For a registry that names another authority it is own itself.
func (w *Watch) Guard(own reconcile.Source, served *fleet.Snapshot) reconcile.Source {
	if served == nil || !w.named(served) {
		return own
	}
	return &guarded{Source: own, watch: w, served: served, from: own}
}

// Poll begins a round of questions, and reads what the last one calls for.
func (g *guarded) Poll(ctx context.Context, held source.Anchor) (source.Offer, error) {
	g.from = g.Source
	if held.Commit == "" || held.Commit != g.served.Commit { // nothing can be said of other histories, or only of what is not served yet
		return g.Source.Poll(ctx, held)
	}
	select {
	case g.watch.asks <- g.served:
	default: // a round is due already
	}
	if err := g.watch.wait(ctx, g.served); err != nil {
		return source.Offer{}, err
	}
	next, err := g.watch.review(ctx, g.served, held)
	if err != nil {
		return source.Offer{}, err
	}
	if next != nil {
		g.from = next
	}
	return g.from.Poll(ctx, held)
}

// Policies asks the source of the last offer.
func (g *guarded) Policies(ctx context.Context, previous, next policies.Revision) (fleet.Findings, error) {
	return g.from.Policies(ctx, previous, next)
}

// Vouch asks the source of the last offer.
func (g *guarded) Vouch(ctx context.Context, q source.Question) (int, *signature.Refusal, error) {
	return g.from.Vouch(ctx, q)
}

// wait waits for the first round: not for long, since nothing of this host is bound meanwhile, and one host that is down must not delay it.
func (w *Watch) wait(ctx context.Context, served *fleet.Snapshot) error {
	patience := time.NewTimer(min(w.opts.Interval(served)/2, maxFirst))
	defer patience.Stop()
	select {
	case <-w.first:
	case <-patience.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// relation is how another registry stands to the held one.
type relation struct {
	is     authority.Relation
	base   string
	source reconcile.Source // of a newer one
}

// review finds the duty from what the last round found, and keeps it. It gives what is to be read in place of this host's repository, nil
// for nothing.
func (w *Watch) review(ctx context.Context, served *fleet.Snapshot, held source.Anchor) (reconcile.Source, error) {
	w.mu.Lock()
	answers, histories := w.answers, w.histories
	w.mu.Unlock()
	if w.relatedTo != held.Commit {
		w.related, w.relatedTo = map[string]relation{}, held.Commit
	}
	var peers []authority.Peer
	for _, host := range slices.Sorted(maps.Keys(answers)) {
		a := answers[host]
		commit := a.Held.Commit
		r, known := w.related[commit]
		switch file := histories[commit]; {
		case commit == held.Commit:
			r.is = authority.Equal
		case !mayMatter(authority.HeadOf(served), a.Held):
			r.is = authority.Behind
		case !known && file != "":
			var err error
			if r, err = w.relate(ctx, file, commit, held); err != nil {
				return nil, err
			}
			if r.is != authority.Unknown {
				w.related[commit] = r
			}
		}
		peers = append(peers, authority.Peer{Host: host, Held: a.Held, Relation: r.is, Base: r.base})
	}
	review := authority.ReviewPeers(authority.HeadOf(served), peers)
	if err := w.conclude(served, review, peers); err != nil {
		return nil, err
	}
	if review.Duty == authority.DutyAdopt || review.Duty == authority.DutyStepDown && !review.Forked {
		return w.related[review.Head.Commit].source, nil
	}
	return nil, nil
}

// relate reads a bundle that ends in a commit. One that cannot be read leaves the relation unknown: another host may have it too.
func (w *Watch) relate(ctx context.Context, file, commit string, held source.Anchor) (relation, error) {
	src, err := w.opts.Bundle(file)
	if err != nil {
		return relation{}, err
	}
	offer, err := src.Poll(ctx, held)
	switch {
	case ctx.Err() != nil:
		return relation{}, ctx.Err()
	case err != nil:
		w.opts.Log.Warn(fmt.Sprintf("the registry that another host holds at commit %s cannot be read: %v", commit, err))
		return relation{}, nil
	case offer.Tip != commit: // the host has gone on since it was asked
		return relation{}, nil
	}
	r := relation{is: authority.Forked, base: offer.MergeBase}
	switch {
	case offer.Descends:
		r.is, r.source = authority.Ahead, src
	case offer.MergeBase == commit:
		r.is = authority.Behind
	}
	return r, nil
}

// conclude keeps what a review came to, before anything follows from it.
func (w *Watch) conclude(served *fleet.Snapshot, r authority.Review, peers []authority.Peer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.repository = served.Registry.Directory.Authority.Repository
	if disk, err := Load(w.opts.Home.Path); err == nil && disk == nil {
		w.record = nil // a command that has joined the histories took it away
	}
	if r.Duty == authority.DutyServe || r.Duty == authority.DutyAdopt {
		if w.record == nil || !over(*w.record, authority.HeadOf(served), peers) {
			return nil
		}
		return w.keep(nil)
	}
	return w.keep(&Record{
		Duty: r.Duty, Host: w.opts.Self(served), Repository: w.repository, Sentence: r.Sentence, Forked: r.Forked || r.Duty == authority.DutyDispute,
		From: r.From, Other: r.Head,
	})
}

// over reports whether a record has lost its ground, when no host holds what speaks against this one: this host has been given the role
// since, or whoever held the other registry has been heard. That nobody says so is no such ground.
func over(r Record, held authority.Head, peers []authority.Peer) bool {
	if r.Host != "" && held.Epoch > r.Other.Epoch {
		return true
	}
	for _, p := range peers {
		if (p.Host == r.From || r.From == "") && p.Relation != authority.Unknown {
			return true
		}
	}
	return false
}

// Adopted is told of every registry that this host begins to serve.
func (w *Watch) Adopted(s *fleet.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.named(s) {
		w.repository = s.Registry.Directory.Authority.Repository
		return
	}
	if w.repository == "" { // it has never been the authority, as far as this process knows
		return
	}
	r := authority.SteppedDown(authority.HeadOf(s))
	err := w.keep(&Record{Duty: r.Duty, Host: w.opts.Self(s), Repository: w.repository, Sentence: r.Sentence, Other: r.Head})
	if err != nil {
		w.opts.Log.Error(err.Error())
	}
}

// keep makes a record durable and then known. The caller holds the lock.
func (w *Watch) keep(next *Record) error {
	old := w.record
	switch {
	case next == nil && old == nil:
		return nil
	case next != nil && next.same(old) && (next.Other == old.Other || !next.Forked && old.Other.Commit != ""):
		return nil // it stands as it was first found
	case next.same(old):
		next.Since = old.Since
	case next != nil:
		next.Since = time.Now().UTC()
	}
	if err := Write(w.opts.Home, next); err != nil {
		return errors.Join(errors.New("cannot keep what the other hosts say of this host's role"), err)
	}
	w.record = next
	if next != nil && !next.same(old) {
		w.opts.Log.Warn(next.Sentence)
	} else if next == nil {
		w.opts.Log.Info(sayServesAgain)
	}
	w.opts.Changed()
	return nil
}

const sayServesAgain = "this host is the registry authority again: no other host holds a registry that says otherwise"
