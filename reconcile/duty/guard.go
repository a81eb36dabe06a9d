package duty

import (
	"context"
	"errors"
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
	shown  *fleet.Snapshot // of Ahead and Forked: the newest of it that this program can read, which is its end in all but rare cases
	doubt  reason          // of Unknown
	source reconcile.Source
	parts  int // in how many the source was read
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
	found := map[fleet.HostName]Doubt{} // of every word that was looked at; the zero one where it is believed
	for _, host := range slices.Sorted(maps.Keys(answers)) {
		a := answers[host]
		p := authority.Peer{Host: host, Held: a.Held}
		switch h, known := histories[a.Held.Commit]; {
		case a.Held.Commit == held.Commit:
			p.Relation, found[host] = authority.Equal, Doubt{}
		case !mayMatter(authority.HeadOf(served), a.Held):
			p.Relation, found[host] = authority.Behind, Doubt{}
		case known:
			r, err := w.relationTo(ctx, served, held, a.Held.Commit, h)
			if err != nil {
				return nil, err
			}
			p, found[host] = r.peer(a), r.doubted(authority.HeadOf(served), a, h.from).of(a)
		}
		peers = append(peers, p)
	}
	w.doubt(served, found)
	review := authority.ReviewPeers(authority.HeadOf(served), peers)
	if err := w.conclude(served, review, peers); err != nil {
		return nil, err
	}
	if review.Duty == authority.DutyAdopt || review.Duty == authority.DutyStepDown && !review.Forked {
		return w.related[review.Head.Commit].source, nil
	}
	return nil, nil
}

// peer is an answer with what is shown in the place of what is said.
func (r relation) peer(a authority.Answer) authority.Peer {
	p := authority.Peer{Host: a.Host, Held: a.Held, Relation: r.is, Base: r.base}
	if r.shown != nil {
		p.Held = authority.HeadOf(r.shown)
		p.Held.Commit = a.Held.Commit
	}
	return p
}

// doubted is what is not believed of an answer; from is whom the history was read from.
func (r relation) doubted(held authority.Head, a authority.Answer, from fleet.HostName) reason {
	switch {
	case r.is == authority.Behind && (a.Held.Generation > held.Generation || a.Held.Epoch > held.Epoch):
		return reason{unshown, sayBehind}
	case r.doubt.kind == unread && a.Host != from:
		return reason{} // it is another host that does not show it
	case r.shown == nil || r.shown.Commit != a.Held.Commit:
		return r.doubt
	}
	if shown := authority.HeadOf(r.shown); shown.Generation != a.Held.Generation || shown.Epoch != a.Held.Epoch {
		return reason{unshown, sayOtherNumbers(shown)}
	}
	return reason{}
}

// relationTo is the relation of a commit that other hosts hold. One that is not known is looked at again at every read.
func (w *Watch) relationTo(ctx context.Context, served *fleet.Snapshot, held source.Anchor, commit string, h history) (relation, error) {
	r := w.related[commit]
	switch {
	case r.is != authority.Unknown:
		return r, nil
	case h.file == "":
		return relation{doubt: reason{unread, sayUnread(h.why)}}, nil
	case h.spoilt:
		return r, nil
	}
	if r.source == nil {
		src, err := w.opts.Bundle(h.file)
		if err != nil {
			return relation{}, err
		}
		r.source = src
	}
	next, err := relate(ctx, r.source, served, held, commit)
	switch {
	case ctx.Err() != nil:
		return relation{}, ctx.Err()
	case err != nil:
		next.is, next.doubt = authority.Unknown, reason{unread, sayUnread(err.Error())}
	}
	if next.doubt.kind == unread {
		if !w.spoil(commit, h) {
			return r, nil // a round has put it away meanwhile
		}
		next.source = nil
	} else if next.parts > 1 { // the source would go on where the proof has ended
		if next.source, err = w.opts.Bundle(h.file); err != nil {
			return relation{}, err
		}
	}
	w.related[commit] = next
	return next, nil
}

// relate reads a source that is to end in a commit, and has it prove what it shows.
func relate(ctx context.Context, src reconcile.Source, served *fleet.Snapshot, held source.Anchor, commit string) (relation, error) {
	r := relation{source: src}
	anchor := held
	anchor.Restart = true // an earlier look may have gone on from there
	offer, err := src.Poll(ctx, anchor)
	switch {
	case err != nil:
		return r, err
	case offer.Tip != commit: // the host has gone on since it was asked, or has made the rest up
		r.doubt = reason{unread, sayEndsElsewhere(offer.Tip)}
		return r, nil
	case !offer.Descends && offer.MergeBase == commit:
		r.is = authority.Behind
		return r, nil
	}
	p := proof{source: src, trust: served.Registry.Trust, since: held.Commit}
	if !offer.Descends {
		if p.since = offer.MergeBase; p.since != "" && (p.asks() || !readable(offer)) { // all of it, in place of its tip alone
			base := offer.MergeBase
			if offer, err = src.Poll(ctx, source.Anchor{Commit: base}); err != nil {
				return r, err
			}
			offer.Descends, offer.MergeBase = false, base
		}
	}
	if r.parts, r.doubt, err = p.run(ctx, offer); err != nil || r.doubt.kind != "" {
		return r, err
	}
	if r.shown = p.newest; r.shown == nil {
		r.doubt = reason{unshown, sayNoRegistry(commit)}
		return r, nil
	}
	if r.is = authority.Ahead; !offer.Descends {
		r.is, r.base = authority.Forked, offer.MergeBase
	}
	return r, nil
}

// readable reports whether the last step of an offer is a registry that this program can read.
func readable(offer source.Offer) bool {
	n := len(offer.Steps)
	return n > 0 && registryOf(offer.Steps[n-1]) != nil
}

// spoil has a history read again, from whoever shows it. False when it is not the one any more that is looked at.
func (w *Watch) spoil(commit string, h history) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.histories[commit] != h {
		return false
	}
	h.spoilt = true
	w.histories = maps.Clone(w.histories)
	w.histories[commit] = h
	return true
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
	w.doubts = map[fleet.HostName]Doubt{} // whoever is the authority asks
	if w.repository == "" {               // it has never been the authority, as far as this process knows
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
