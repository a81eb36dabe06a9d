package reconcile

import (
	"slices"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/source"
)

// promised is an outcome after the promises of this host: what was promised to one mover is taken from nobody else. Only the document that
// is to be held is asked about, not those on the way to it.
func promised(p *authority.Promise, out outcome, offer source.Offer, now time.Time) outcome {
	s := out.final
	if s == nil {
		return out
	}
	r := p.Keeps(s.Generation(), authority.Owner{Mover: authority.HostOf(s.Registry.Directory.Authority), Nonce: nonceOf(offer, s.Commit)})
	if r == nil {
		return out
	}
	return outcome{kept: true, blocked: out.blocked, refusal: &Refusal{Rule: RulePromised, Commit: s.Commit, Sentence: fleet.OneLine(r.Sentence, maxSentence), Since: now}}
}

// nonceOf is the claim under which a commit of an offer was made; empty for none.
func nonceOf(offer source.Offer, commit string) string {
	i := slices.IndexFunc(offer.Steps, func(step source.Step) bool { return step.Commit == commit })
	if i < 0 {
		return ""
	}
	return offer.Steps[i].Trailers[source.TrailerNonce]
}

// lookAtStore takes over what another process has written to the store, and ends a promise that nobody used: in a fleet without a quorum
// a mover that died would keep ordinary changes away for ever. A store that cannot be read shows when it is needed.
func (l *loop) lookAtStore() {
	_ = l.reload()
	held, _ := l.opts.Store.Held()
	p := held.Promised
	switch {
	case p == nil:
		l.promise = authority.Promise{}
		return
	case *p != l.promise:
		l.promise, l.promised = *p, time.Now()
	}
	s := l.opts.Store.Snapshot()
	if s == nil {
		return
	}
	if lapsed := p.Lapse(held.Generation, time.Since(l.promised), l.interval, s.Registry.Policies.Quorum); lapsed != nil {
		if err := l.opts.Store.Promise(lapsed); err != nil {
			l.opts.Log.Warn(err.Error())
			return
		}
		l.opts.Log.Info(sayLapsed(p, authority.LapseAfter(l.interval)))
	}
}
