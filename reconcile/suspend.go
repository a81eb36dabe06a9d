package reconcile

import (
	"time"
)

// RuleSuspended marks a registry that would be adopted, were adoption not suspended on this host.
const RuleSuspended = "STADO-SUSPEND-001"

// reload takes over what another process has written, and says what people have decided: that adoption is suspended, that it goes on, that
// a reset was accepted.
func (l *loop) reload() error {
	_, err := l.opts.Store.Reload()
	l.lookAtReset()
	l.lookAtSuspension()
	return err
}

func (l *loop) lookAtSuspension() {
	now := l.opts.Store.Suspension()
	was := l.suspended
	if l.suspended = now; now == nil && was == nil || now != nil && was != nil && now.Reason == was.Reason && now.Since.Equal(was.Since) {
		return
	}
	if now != nil {
		l.opts.Log.Warn(saySuspended(*now))
	} else {
		l.opts.Log.Info(sayResumed(*was))
	}
	l.opts.Changed()
}

// keptBack is an answer that is not adopted because adoption is suspended: the authority answers, and what is held is served on. It says
// so for as long as that is not what the authority has. The offer is read anew, from the held commit on, when adoption goes on.
func (l *loop) keptBack(out outcome, cause error, seen change) {
	l.restart, l.pending = true, time.Time{}
	since := time.Now().UTC()
	if s := l.opts.Store.Suspension(); s != nil {
		since = s.Since
	}
	l.standing = &Refusal{Rule: RuleSuspended, Commit: out.final.Commit, Sentence: cause.Error(), Since: since}
	s := l.opts.Store.Snapshot()
	if s == nil {
		l.fail(failure{cause: cause.Error(), again: l.counted, standing: true}, seen)
		return
	}
	held, _ := l.opts.Store.Held()
	if l.served == nil {
		l.adopt(s, "")
		l.loaded = held.UpdatedAt // the authority has something else by now
	} else {
		l.catchUp(l.durable())
	}
	l.attempt, l.cause = 0, ""
	l.set(func(s *Status) {
		l.describe(s)
		s.Phase, s.Reason, s.Attempt, s.NextAttemptAt = PhaseServing, "", 0, nil
		seen(s)
	})
}
