package reconcile

import (
	"errors"
	"slices"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// pendingPatience is how long a change may wait for its generation before a person should look: a stamping job takes minutes.
const pendingPatience = 10 * time.Minute

// change is one step of a new status; a later one wins.
type change = func(*Status)

func unreachable(cause string) change {
	return func(s *Status) { s.Reachable, s.Detail = new(false), cause }
}

// unread is what a read that failed says of the authority: nothing, when it failed on this host.
func unread(err error) change {
	e, ok := errors.AsType[*source.Error](err)
	if !ok {
		return unreachable(err.Error())
	}
	switch e.Kind {
	case source.KindNoSpace, source.KindPermission, source.KindDamaged, source.KindBusy, source.KindNoGit, source.KindInternal:
		return func(s *Status) { s.Reachable, s.Detail = nil, err.Error() }
	case source.KindLimit:
		return func(s *Status) { s.Reachable, s.Detail = new(true), "" }
	default:
		return unreachable(err.Error())
	}
}

// seen is what a read says of the authority. That it could not be read for a reason on this host is one to look at when another source was
// read in its place.
func (r result) seen() change {
	asked := r
	if r.first != nil {
		asked = *r.first
	}
	return func(s *Status) {
		s.Reachable, s.Detail = new(true), ""
		if asked.err != nil {
			unread(asked.err)(s)
		} else {
			s.OfferedCommit, s.OfferedGeneration = asked.offer.Tip, newestGeneration(asked.offer, asked.held)
		}
		if r.first != nil {
			if s.Reachable == nil {
				s.Reachable = new(false)
			}
			s.Detail = sayInstead(asked.cause(), r.from.String())
		}
	}
}

// reads notes which source is read in the place of the authority, and logs when that changes.
func (l *loop) reads(res result) {
	before := l.instead
	l.instead = ""
	switch {
	case res.first != nil:
		if l.instead = res.from.String(); l.instead != before {
			l.opts.Log.Warn(sayInstead(res.first.cause(), l.instead))
		}
	case before != "" && res.answered() && res.fork == nil:
		l.opts.Log.Info(sayAnswersAgain)
	}
}

// settle takes the result of a read. It reports whether more is to be read at once: the rest of the offer, or all of it when something
// else is held by now.
func (l *loop) settle(res result) (more bool) {
	l.reading, l.beside, l.open = false, res.beside(), res.open
	l.follow, l.passed = nil, nil
	defer l.sayBlockers()
	if (res.err == nil || res.fork != nil) && l.outdated(res.held) {
		l.behind = trail{}
		return true
	}
	if res.goesOn() && res.fork == nil && l.progress(res.offer) && (res.out.kept || l.hold(res.out, res.held) == nil) {
		l.partly, l.behind = true, res.trail // nothing is served or reported before the last part has been seen
		if res.first != nil {
			l.follow, l.passed = res.from, res.first
		}
		return true
	}
	defer func() { l.partly, l.ends = false, nil }()
	if l.first {
		l.first, l.second = false, true
		l.arm(l.started)
	}
	l.reads(res)
	switch {
	case res.fork != nil:
		l.behind = trail{}
		l.refused(res.fork, res.cause()+l.beside, res.seen())
	case res.err == nil:
		l.behind = trail{}
		l.offered(res)
	default:
		l.failed(res.err)
	}
	return false
}

// progress reports whether a partial offer ends where none did before it in this refresh. One that does not is no reason to ask again
// before the next refresh.
func (l *loop) progress(offer source.Offer) bool {
	if len(offer.Steps) == 0 {
		return false
	}
	end := offer.Steps[len(offer.Steps)-1].Commit
	if l.ends[end] {
		return false
	}
	if l.ends == nil {
		l.ends = map[string]bool{}
	}
	l.ends[end] = true
	return true
}

// durable is what the store holds, and nil after a write that failed: that may have left a snapshot which a power cut takes back.
func (l *loop) durable() *fleet.Snapshot {
	if slices.ContainsFunc(l.opts.Store.Blockers(), func(b store.Blocker) bool { return b.Rule == store.RuleWrite }) {
		return nil
	}
	return l.opts.Store.Snapshot()
}

// catchUp serves what the store holds when that is newer than what is served, at the end of a refresh that brings nothing itself: an
// earlier part of its offer, or a read that was cut short, may have been admitted. What a start finds in the store is for [loop.recover].
func (l *loop) catchUp(s *fleet.Snapshot) {
	switch {
	case s == nil, l.served == nil && !l.partly, s.Provenance == fleet.ProvenanceHandedOver: // the last is for [loop.takeHanded]
	case l.served != nil && s.Digest == l.served.Digest && s.Commit == l.served.Commit:
	case l.served != nil && s.Generation() < l.served.Generation(): // the file of what is served was damaged since
	default:
		l.adopt(s, "")
	}
}

// failed is a read without an offer: the authority did not answer, or what it has cannot be evaluated.
func (l *loop) failed(err error) {
	l.catchUp(l.durable())
	cause := err.Error() + l.beside
	if l.takeHanded(&cause, unread(err)) {
		return
	}
	if e, ok := errors.AsType[*source.Error](err); ok && e.Kind == source.KindLimit {
		l.refused(&Refusal{Rule: source.RuleLimit, Sentence: cause, Since: time.Now().UTC()}, cause, unread(err))
		return
	}
	if !l.recover(cause, unread(err)) {
		l.fail(failure{cause: cause, again: l.counted}, unread(err))
	}
}

// offered holds what was admitted of an offer and serves it.
func (l *loop) offered(res result) {
	offer, held, out := res.offer, res.held, res.out
	durable := l.durable() // not what a write that fails below leaves
	seen := res.seen()
	switch err := l.hold(out, held); {
	case errors.Is(err, store.ErrOutdated):
		l.again = true // it was judged against what is not held any more
	case errors.Is(err, store.ErrSuspended):
		l.keptBack(out, err, seen)
	case err != nil:
		l.standing, l.restart = out.refusal, true
		l.catchUp(durable)
		if !l.recover(err.Error(), seen) {
			l.fail(failure{cause: err.Error(), again: l.counted, standing: true}, seen)
		}
	case out.refusal != nil:
		l.partly = l.partly || out.final != nil
		l.refused(out.refusal, out.refusal.Sentence+l.beside, seen)
	case offer.Partial:
		cause := sayNoProgress(offer.Tip)
		l.catchUp(l.durable())
		if !l.recover(cause, seen) {
			l.fail(failure{cause: cause, again: l.counted}, seen)
		}
	case l.opts.Store.Snapshot() == nil:
		l.fail(failure{cause: sayNoDocument(offer.Tip), again: l.counted}, seen)
	default:
		l.confirmed(res, seen)
	}
}

// hold makes the outcome durable. A confirmed document is written again when the store is damaged.
func (l *loop) hold(out outcome, held store.Held) error {
	if l.outdated(held) { // a write before this one has told the store of another one's
		return store.ErrOutdated
	}
	switch s := l.opts.Store.Snapshot(); {
	case out.final != nil:
		return l.opts.Store.Put(out.final, out.admitted...)
	case out.observed != "":
		return l.opts.Store.ObserveCommit(out.observed)
	case out.refusal == nil && l.opts.Store.Damaged() && s != nil && s.Digest == held.Digest:
		return l.opts.Store.Put(s)
	}
	return nil
}

// recover serves what the store holds when the first read did not answer. It reports false when it has nothing to do: something is
// served already, or nothing is held.
func (l *loop) recover(cause string, changes ...change) bool {
	s := l.opts.Store.Snapshot()
	if l.served != nil || s == nil {
		return false
	}
	l.opts.Log.Warn(sayRecovery(cause, s.Generation()))
	held, _ := l.opts.Store.Held()
	l.adopt(s, VersionLastKnownGood)
	l.loaded = held.UpdatedAt
	l.set(func(s *Status) {
		l.describe(s)
		s.Phase, s.Reason, s.Attempt, s.NextAttemptAt = PhaseServing, "", 0, nil
		apply(s, changes)
	})
	return true
}

// stand lets a refusal stand, since when it did before.
func (l *loop) stand(refusal, before *Refusal) {
	if before != nil && before.Rule == refusal.Rule && before.Commit == refusal.Commit {
		refusal.Since = before.Since
	}
	l.standing = refusal
}

// refused is an offer that the judges or the fence refuse. The authority is reachable, yet it does not answer in the sense of the
// design: the refresh failed and the refusal stands until a good poll.
func (l *loop) refused(refusal *Refusal, cause string, changes ...change) {
	l.stand(refusal, l.standing)
	l.pending = time.Time{}
	l.catchUp(l.durable())
	if l.takeHanded(&cause, changes...) {
		return
	}
	if !l.recover(cause, changes...) {
		l.fail(failure{cause: cause, again: l.counted, standing: true}, changes...)
	}
}

// failure is a refresh that failed.
type failure struct {
	cause    string
	again    bool // it was counted already, when its interval passed
	standing bool // the cause is a state of things: said once, not on every attempt
}

func (l *loop) fail(f failure, changes ...change) {
	if !f.again {
		l.attempt++
	}
	if f.cause != l.cause || !f.again && !f.standing {
		l.opts.Log.Warn(sayRefreshFailed(l.attempt, l.interval, f.cause))
	}
	l.cause = f.cause
	next := l.next
	l.set(func(s *Status) {
		l.describe(s)
		s.Phase, s.Reason, s.Attempt, s.NextAttemptAt = PhaseBackingOff, f.cause, l.attempt, &next
		apply(s, changes)
	})
}

// confirmed is an answer: what the store holds is what the authority has, or a change of it that waits for its generation. What the
// authority itself was refused for still stands when another source answered.
func (l *loop) confirmed(res result, changes ...change) {
	now, before := time.Now().UTC(), l.standing
	l.wait(res.out.pending, res.offer.Tip, now)
	if stands := res.stands(); stands != nil && l.standing == nil {
		l.stand(stands, before)
	}
	l.adopt(l.opts.Store.Snapshot(), "")
	if l.attempt > 0 {
		l.opts.Log.Info(sayRecovered(l.attempt))
	}
	l.attempt, l.cause = 0, ""
	if res.first == nil {
		l.loaded = now
	}
	l.set(func(s *Status) {
		l.describe(s)
		s.Phase, s.Reason, s.Attempt, s.NextAttemptAt = PhaseServing, "", 0, nil
		apply(s, changes)
		if res.out.pending && res.first == nil {
			s.Detail = sayPending
		}
	})
}

// wait keeps how long the tip has waited for its generation, and turns a long wait into a refusal. Nothing else stands after an answer.
func (l *loop) wait(pending bool, tip string, now time.Time) {
	was := l.standing
	l.standing = nil
	switch {
	case !pending:
		l.pending = time.Time{}
	case l.pending.IsZero():
		l.pending = now
	case now.Sub(l.pending) >= pendingPatience:
		l.standing = &Refusal{Rule: RulePending, Commit: tip, Sentence: sayPendingLong(tip), Since: l.pending}
		if was == nil || was.Rule != RulePending {
			l.opts.Log.Warn(l.standing.Sentence)
		}
	}
}

// adopt serves a snapshot that the store holds, unless it is served already. version overrides how it is named in the status.
func (l *loop) adopt(s *fleet.Snapshot, version string) {
	l.version = version
	if version == "" {
		l.version = s.Commit
	}
	if s.Provenance == fleet.ProvenanceHandedOver {
		l.version = VersionHandedOver
	}
	if s == l.served {
		return
	}
	l.opts.Adopt(s)
	if l.served == nil || l.served.Digest != s.Digest {
		l.opts.Log.Info(sayAdopted(s))
	}
	l.served, l.loaded = s, time.Now().UTC()
	if l.declared(s) {
		l.arm(l.started)
	}
}

// describe fills in what is served and what stands.
func (l *loop) describe(s *Status) {
	s.Served, s.StoreVersion, s.LoadedAt, s.Refusals, s.Instead = l.served, l.version, nil, nil, l.instead
	if loaded := l.loaded; l.served != nil {
		s.LoadedAt = &loaded
	}
	if l.standing != nil {
		s.Refusals = []Refusal{*l.standing}
	}
}

func apply(s *Status, changes []change) {
	for _, c := range changes {
		c(s)
	}
}

// sayBlockers logs each of the store's blockers when it first stands. A failed write is in the log already, as the failure of a refresh.
func (l *loop) sayBlockers() {
	now := map[string]bool{}
	for _, b := range l.opts.Store.Blockers() {
		now[b.Sentence] = true
		if b.Rule != store.RuleWrite && !l.blockers[b.Sentence] {
			l.opts.Log.Error(b.Sentence, "rule", b.Rule)
		}
	}
	l.blockers = now
}

// newestGeneration is that of the newest commit that compiles.
func newestGeneration(offer source.Offer, held store.Held) fleet.Generation {
	for i := len(offer.Steps) - 1; i >= 0; i-- {
		if g := offer.Steps[i].Generation; g > 0 {
			return g
		}
	}
	if offer.Descends {
		return held.Generation
	}
	return 0
}
