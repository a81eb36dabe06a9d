package duty

import (
	"cmp"
	"context"
	"slices"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
)

// Doubt is what a host says that it holds, and that is not believed: the role is given up, or called disputed, only for what a host shows
// and the trust of the held registry vouches for.
type Doubt struct {
	Host     fleet.HostName
	Sentence string // who said what, and why it is not believed
	Since    time.Time

	kind doubtKind
}

// doubtKind is why something is not believed: a change of it is said again, other words for it are not.
type doubtKind string

const (
	unread   doubtKind = "unread"   // the history, or what is to judge it
	unshown  doubtKind = "unshown"  // the history does not hold what is said
	unsigned doubtKind = "unsigned" // the trust does not vouch for it
)

// reason is a doubt of a commit, whoever says that he holds it; the zero value is none.
type reason struct {
	kind doubtKind
	why  string
}

// of is the reason as a doubt of one host, the zero one for none.
func (r reason) of(a authority.Answer) Doubt {
	if r.kind == "" {
		return Doubt{}
	}
	return Doubt{Host: a.Host, kind: r.kind, Sentence: sayDoubt(a, r.why), Since: time.Now().UTC()}
}

// Doubts are those that stand, by host.
func (w *Watch) Doubts() []Doubt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(func(yield func(Doubt) bool) {
		for _, d := range w.doubts {
			if !yield(d) {
				return
			}
		}
	}, func(a, b Doubt) int { return cmp.Compare(a.Host, b.Host) })
}

// doubt keeps what a review has found of every word that it looked at, and says what is new in it. What a host has said stands until it says
// something else.
func (w *Watch) doubt(served *fleet.Snapshot, found map[fleet.HostName]Doubt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := false
	for host := range w.doubts {
		if _, registered := served.Registry.Hosts[host]; !registered {
			delete(w.doubts, host)
			changed = true
		}
	}
	for host, d := range found {
		old, stood := w.doubts[host]
		switch {
		case d.Host == "":
			delete(w.doubts, host)
			changed = changed || stood
			continue
		case stood:
			d.Since = old.Since
		}
		if old.kind != d.kind {
			w.opts.Log.Warn(d.Sentence)
		}
		changed = changed || old.Sentence != d.Sentence
		w.doubts[host] = d
	}
	if changed {
		w.opts.Changed()
	}
}

// proof reads what lies between since, which both histories have, and the tip of a source, commit by commit as hosts take it: each is held
// against the trust of the registry before it, the first one against that of the registry that is held here.
type proof struct {
	source reconcile.Source
	trust  *fleet.Trust    // in force for the next commit
	since  string          // that commit's predecessor
	newest *fleet.Snapshot // of the commits so far the newest that this program can read
}

// run follows an offer of the source to its tip. parts are how many offers that took: after more than one the source goes on at the end.
func (p *proof) run(ctx context.Context, offer source.Offer) (parts int, _ reason, _ error) {
	anchor := source.Anchor{Commit: p.since}
	for parts = 1; ; parts++ {
		if doubt, err := p.part(ctx, offer); err != nil || doubt.kind != "" || !offer.Partial {
			return parts, doubt, err
		}
		if !p.asks() {
			anchor = source.Anchor{} // nothing between here and the tip matters
		}
		next, err := p.source.Poll(ctx, anchor)
		if err != nil {
			return parts, reason{}, err
		}
		if len(next.Steps) == 0 {
			return parts, reason{unread, sayEndsElsewhere(p.since)}, nil
		}
		offer = next
	}
}

// asks reports whether signatures are asked for.
func (p *proof) asks() bool { return p.trust != nil && p.trust.Mode != fleet.TrustNone }

func (p *proof) part(ctx context.Context, offer source.Offer) (reason, error) {
	guard := signature.Guard{Since: p.since, Ask: func(since string, commits []string, trust fleet.Trust) (int, *signature.Refusal, error) {
		return p.source.Vouch(ctx, source.Question{Since: since, Tip: offer.Tip, Commits: commits, Trust: trust})
	}}
	for _, s := range offer.Steps {
		guard.Commits = append(guard.Commits, s.Commit)
	}
	for i, s := range offer.Steps {
		refusal, err := guard.Pass(i, p.trust)
		if err != nil {
			return reason{}, err
		}
		if refusal != nil {
			f := refusal.Finding()
			return reason{unsigned, f.Rule + ": " + f.Message}, nil
		}
		if r := registryOf(s); r != nil {
			p.newest, p.trust = &fleet.Snapshot{Commit: s.Commit, Digest: s.Digest, Registry: r}, r.Trust
		}
		p.since = s.Commit
	}
	return reason{}, nil
}

// registryOf is the registry of a step, nil when this program cannot read it.
func registryOf(s source.Step) *fleet.Registry {
	if s.Registry != nil || len(s.Document) == 0 {
		return s.Registry
	}
	r, err := fleet.Decode(s.Document)
	if err != nil {
		return nil
	}
	return r
}
