package reconcile

import (
	"context"
	"strings"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
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

// result is a read and what it amounts to against what was held when it ended.
type result struct {
	offer source.Offer
	held  store.Held
	out   outcome
	trail trail
	err   error
	// others says what sources after the first said, when none answered.
	others []string
}

func newLoop(r *Reconciler) *loop {
	return &loop{Reconciler: r, results: make(chan result, 1), interval: r.opts.Refresh}
}

// start begins the first read at once. Its refresh is exactly one interval long: until then nothing is served that the authority may
// be about to replace.
func (l *loop) start(ctx context.Context) {
	l.declared(l.opts.Store.Snapshot())
	l.first, l.tick, l.next = true, time.NewTimer(l.interval), time.Now().Add(l.interval)
	l.set(func(s *Status) { s.Reason = sayReadingAuthority(l.authorityHost()) })
	l.sayBlockers()
	l.ask(ctx)
}

// read asks the authority unless a read stands, and sets the next refresh.
func (l *loop) read(ctx context.Context) {
	if l.reading {
		return
	}
	l.second = false
	l.arm(time.Now())
	l.ask(ctx)
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

// look asks the sources in their order until one answers: with a registry that the fence admits, or the one that is held. When none
// does, it is the first one's failure, which names what the others said.
func (l *loop) look(ctx context.Context, sources []Source, restart bool, behind trail) result {
	first := l.lookAt(ctx, sources[0], restart, behind)
	for _, src := range sources[1:] {
		if first.answered() || ctx.Err() != nil {
			break
		}
		next := l.lookAt(ctx, src, restart, behind)
		if next.answered() {
			return next
		}
		first.others = append(first.others, sayOther(src.String(), next.cause()))
	}
	return first
}

// lookAt reads one source and judges what it offers. It runs beside the loop, because signatures and
// policies of the fleet's own are judged in children.
func (l *loop) lookAt(ctx context.Context, src Source, restart bool, behind trail) result {
	offer, err := l.poll(ctx, src, restart)
	if err != nil {
		return result{err: err}
	}
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
	return result{offer: offer, held: held, out: out, trail: w.trail, err: err}
}

// answered reports whether the source answered in the sense of the design.
func (r result) answered() bool { return r.err == nil && r.out.refusal == nil }

// cause is why it did not.
func (r result) cause() string {
	if r.err != nil {
		return r.err.Error()
	}
	return r.out.refusal.Sentence
}

// beside is what the other sources said.
func (r result) beside() string {
	if len(r.others) == 0 {
		return ""
	}
	return "; " + strings.Join(r.others, "; ")
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
	cause := sayNoAnswer(l.authorityHost(), l.interval)
	l.first = false
	l.arm(time.Now())
	l.catchUp(l.durable())
	if l.takeHanded(&cause, unreachable(cause)) || l.recover(cause, unreachable(cause)) {
		return
	}
	l.fail(failure{cause: cause}, unreachable(cause), func(s *Status) {
		if l.served == nil { // the first read stands, so the state still names it
			s.Phase, s.Reason = PhaseStarting, sayReadingAuthority(l.authorityHost())
		}
	})
	l.counted = true
}
