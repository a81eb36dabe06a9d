package reconcile

import (
	"time"

	"stado.internal/stado/fleet"
)

// takeHanded looks at this host's copy on a refresh whose authority does not answer. A newer registry that somebody has handed over is
// served, and the authority that it names is asked at once. A copy that cannot be read is named in the cause, beside the authority's own
// refusal. It reports whether the refresh has ended well by this.
func (l *loop) takeHanded(cause *string, changes ...change) bool {
	if err := l.reload(); err != nil {
		*cause += "; " + err.Error()
	}
	s := l.durable()
	if s == nil || l.served == nil || s.Provenance != fleet.ProvenanceHandedOver || s.Generation() <= l.served.Generation() {
		return false
	}
	l.opts.Log.Warn(sayHanded(*cause, s.Generation()))
	l.adopt(s, "")
	l.standing, l.behind = nil, trail{}
	l.attempt, l.cause, l.loaded, l.again = 0, "", time.Now().UTC(), true
	l.set(func(s *Status) {
		l.describe(s)
		s.Phase, s.Reason, s.Attempt, s.NextAttemptAt = PhaseServing, "", 0, nil
		apply(s, changes)
	})
	return true
}
