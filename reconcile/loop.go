package reconcile

import (
	"context"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/store"
)

// jitter spreads refreshes over the last fifth of the interval: hosts do not ask in step, and no adoption is later than one interval. The
// refresh after the first read is spread over the whole of it, because the hosts of a fleet may have started at the same instant.
const (
	jitter      = 0.2
	jitterFirst = 1.0
)

// loop is the state of one [Reconciler.Run]; only its goroutine touches it.
type loop struct {
	*Reconciler
	tick     *time.Timer // the next declared refresh
	next     time.Time   // when it is due
	interval time.Duration

	results chan result
	started time.Time       // of the newest read
	first   bool            // it is the first, whose refresh is not spread
	second  bool            // the first has ended, and the next refresh has not begun
	reading bool            // it stands
	counted bool            // a refresh passed while it stood, and was counted as failed
	again   bool            // ask once more when it ends
	partly  bool            // this refresh has admitted something already
	ends    map[string]bool // last commits of the parts of this refresh
	restart bool            // what the last read brought could not be held
	beside  string          // what sources after the first said to the last read
	follow  Source          // what this refresh reads on, in the place of the first source; nil: nothing
	passed  *result         // with it: what the first source said
	open    open
	began   time.Time // of this refresh
	instead string    // the source that was read in the place of the first one, by the last read; empty: none

	served    *fleet.Snapshot
	version   string
	loaded    time.Time // last confirmed
	attempt   int
	cause     string            // last failure in the log
	standing  *Refusal          // of the tip
	pending   time.Time         // since when the tip waits for its generation
	behind    trail             // of the last part of an offer that goes on
	blockers  map[string]bool   // sentences of the store's blockers in the log
	suspended *store.Suspension // as the log has it
	reset     time.Time         // of the accepted reset that the log has
	promise   authority.Promise
	promised  time.Time // when promise was first seen
}

func newLoop(r *Reconciler) *loop {
	return &loop{Reconciler: r, results: make(chan result, 1), interval: r.opts.Refresh}
}

// start begins the first read at once. Its refresh is exactly one interval long: until then nothing is served that the authority may
// be about to replace.
func (l *loop) start(ctx context.Context) {
	l.declared(l.opts.Store.Snapshot())
	l.began = time.Now()
	l.first, l.tick, l.next = true, time.NewTimer(l.interval), time.Now().Add(l.interval)
	l.set(func(s *Status) { s.Reason = sayReadingAuthority(l.authorityHost(l.served)) })
	l.sayBlockers()
	l.ask(ctx)
}

// read asks the authority unless a read stands, and sets the next refresh.
func (l *loop) read(ctx context.Context) {
	if l.reading {
		return
	}
	l.second, l.began = false, time.Now()
	l.arm(l.began)
	l.ask(ctx)
}

// outdated reports whether something else is held or promised by now than what was judged against, so that it has to be judged anew.
func (l *loop) outdated(judged store.Held) bool { return outdated(l.opts.Store, judged) }

func outdated(st *store.Store, judged store.Held) bool {
	held, _ := st.Held()
	if held.Promised != judged.Promised && (held.Promised == nil || judged.Promised == nil || *held.Promised != *judged.Promised) {
		return true
	}
	return held.Commit != judged.Commit || held.Generation != judged.Generation || held.Digest != judged.Digest
}

// arm sets the next refresh, counted from the start of a read so that the length of a read does not add to the interval.
func (l *loop) arm(from time.Time) {
	spread := jitter
	if l.second {
		spread = jitterFirst
	}
	l.next = from.Add(time.Duration((1 - spread*l.opts.Rand()) * float64(l.interval)))
	l.tick.Reset(time.Until(l.next))
}

// declared takes the interval that a snapshot declares and reports whether it changed.
func (l *loop) declared(s *fleet.Snapshot) bool {
	if s == nil {
		return false
	}
	d := l.opts.Interval(s)
	if d <= 0 || d == l.interval {
		return false
	}
	l.interval = d
	return true
}

// unanswered is a refresh that passes while the read of an earlier one still stands. The read goes on: what it brings is judged against
// whatever is held by then, and a second one beside it would only add to the load of an authority that is slow.
func (l *loop) unanswered() {
	cause := sayNoAnswer(l.authorityHost(l.served), l.interval)
	l.first = false
	l.arm(time.Now())
	l.catchUp(l.durable())
	if l.takeHanded(&cause, unreachable(cause)) || l.recover(cause, unreachable(cause)) {
		return
	}
	l.fail(failure{cause: cause}, unreachable(cause), func(s *Status) {
		if l.served == nil { // the first read stands, so the state still names it
			s.Phase, s.Reason = PhaseStarting, sayReadingAuthority(l.authorityHost(l.served))
		}
	})
	l.counted = true
}
