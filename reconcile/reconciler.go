// Package reconcile keeps the registry of this host current: it asks the authority on the declared interval, judges what is offered
// against what is held, and hands on only what the store holds durably.
//
// The fence ([Fence]) and the walk over an offer's commits are pure. [Reconciler.Run] adds the clock:
//
//	starting ──first read answers──▶ serving ◀──good poll── backing_off
//	   │                               ▲  └──failed or refused──▶ ▲
//	   ├──no answer, something held────┘                          │
//	   └──read failed, nothing held───────────────────────────────┘
package reconcile

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// Source is where the registry is read from.
type Source interface {
	// Poll asks for what follows the held commit; a zero anchor asks for the tip alone. It returns soon after ctx ends. The reconciler
	// has one Poll at a time.
	Poll(ctx context.Context, held source.Anchor) (source.Offer, error)
	// Policies judges a change by the policies of the fleet's own that the commit of previous holds. The error says that they could not
	// be asked.
	Policies(ctx context.Context, previous, next policies.Revision) (fleet.Findings, error)
	// String is where the source reads, for sentences.
	String() string
	// Vouch counts the first of the question's commits that its trust vouches for, and says why the next one is not when that is fewer
	// than all. The error says that they could not be looked at.
	Vouch(ctx context.Context, q source.Question) (int, *signature.Refusal, error)
}

// From is the order of sources that never changes, for [Options.Sources].
func From(sources ...Source) func(*fleet.Snapshot) []Source {
	return func(*fleet.Snapshot) []Source { return sources }
}

// Options make a [Reconciler]. Store, Sources, Refresh, Adopt and Log are required.
type Options struct {
	Store *store.Store
	// Sources are where the registry is read from while this snapshot is served, or else held (nil: none), at least one, as pointers. When
	// the first does not answer all others are asked, and the one that is furthest on counts. It is called on the goroutine of Run, before
	// every read.
	Sources func(held *fleet.Snapshot) []Source
	// Authority is the host of the authority in sentences, when the held document names none.
	Authority string
	// Refresh is the interval between two reads until a registry declares this host's own.
	Refresh time.Duration
	// Interval is the interval that a registry declares for this host; 0 keeps the last one. nil: Refresh stays.
	Interval func(*fleet.Snapshot) time.Duration
	// Adopt serves a snapshot. It is called on the goroutine of Run, after the snapshot is durable and before the status says so.
	Adopt func(*fleet.Snapshot)
	// Changed is called after every change of the status; it must not block. nil: nobody listens.
	Changed func()
	Log     *slog.Logger
	// Rand draws from [0, 1) for the spread of polls. nil: math/rand/v2.
	Rand func() float64
}

// Phase is what the reconciler is doing.
type Phase string

// The phases; the package comment has the transitions.
const (
	PhaseStarting   Phase = "starting"
	PhaseServing    Phase = "serving"
	PhaseBackingOff Phase = "backing_off"
)

// Store versions of a snapshot that is not known by its commit.
const (
	VersionLastKnownGood = "last-known-good" // served from the store before the authority answered
	VersionHandedOver    = "handed-over"
)

// Status is what the reconciler is doing and why, as of one moment. It is a value and may be kept.
type Status struct {
	Phase         Phase
	Reason        string     // what it waits on, or why it backs off
	Attempt       int        // refreshes in a row that failed
	NextAttemptAt *time.Time // set while it backs off
	LoadedAt      *time.Time // last time the authority confirmed what is served; before it did, when the store last changed

	Served       *fleet.Snapshot // nil: nothing is served
	StoreVersion string          // commit of Served, or one of the Version words; empty when nothing is served
	Held         store.Held      // the anchor; zero when nothing is held

	AuthorityHost     string
	Reachable         *bool            // whether the last finished read reached the authority; nil before there was one
	OfferedGeneration fleet.Generation // of the newest commit seen that compiles; 0 unknown
	OfferedCommit     string           // tip of the authority's branch when last seen
	Detail            string           // about the authority: why it is not reachable, or what it waits for
	Instead           string           // where the registry was read last, when that was in the authority's place; else empty

	Refusals []Refusal // that stand, the store's own blockers among them

	Suspended *store.Suspension // nil: adoption is not suspended
}

// Reconciler is the loop. Its methods are safe for concurrent use.
type Reconciler struct {
	opts  Options
	judge func(previous, next policies.Revision) fleet.Findings
	poke  chan struct{}

	mu     sync.Mutex
	status Status // without what Status adds on reading
}

// New makes a reconciler that waits for [Reconciler.Run].
func New(o Options) *Reconciler {
	if o.Interval == nil {
		o.Interval = func(*fleet.Snapshot) time.Duration { return 0 }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return &Reconciler{
		opts: o, judge: policies.Judge, poke: make(chan struct{}, 1),
		status: Status{Phase: PhaseStarting, Reason: sayReadingStore},
	}
}

// Poke asks for a read now: something says that the authority has news. It never blocks; pokes during a read add up to one more read.
func (r *Reconciler) Poke() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// Status is the state as of now.
func (r *Reconciler) Status() Status {
	held, _ := r.opts.Store.Held()
	blockers, suspended := r.opts.Store.Blockers(), r.opts.Store.Suspension()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Held, s.Suspended = held, suspended
	s.AuthorityHost = r.authorityHost(s.Served)
	s.Refusals = append([]Refusal(nil), s.Refusals...)
	for _, b := range blockers {
		s.Refusals = append(s.Refusals, Refusal{Rule: b.Rule, Sentence: b.Sentence, Since: b.Since})
	}
	return s
}

// set changes the status and says so.
func (r *Reconciler) set(change func(*Status)) {
	r.mu.Lock()
	change(&r.status)
	r.mu.Unlock()
	r.opts.Changed()
}

// Run asks until ctx ends, and returns nil after the read that stands then has returned.
func (r *Reconciler) Run(ctx context.Context) error {
	l := newLoop(r)
	l.start(ctx)
	defer l.tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if l.reading {
				<-l.results
			}
			return nil
		case <-r.poke:
			if l.again = l.reading; l.reading {
				_ = l.reload() // what people have decided is said at once, however long the read stands
			}
			l.read(ctx)
		case <-l.tick.C:
			if l.reading {
				l.unanswered()
			} else {
				l.read(ctx)
			}
		case res := <-l.results:
			if ctx.Err() != nil { // the read was cut short by the end, which says nothing of the authority
				return nil
			}
			switch more := l.settle(res); {
			case more:
				l.ask(ctx) // within the same refresh
			case l.again:
				l.again = false
				l.read(ctx)
			}
		}
	}
}

// sources are those of what is served: what somebody has handed over since is looked at when they do not answer.
func (l *loop) sources() []Source {
	if l.served != nil {
		return l.opts.Sources(l.served)
	}
	return l.opts.Sources(l.opts.Store.Snapshot())
}

// ask begins a read, which Run waits for.
func (l *loop) ask(ctx context.Context) {
	l.lookAtStore()
	l.reading, l.counted, l.started = true, false, time.Now()
	in := inquiry{sources: l.sources(), restart: l.restart, open: l.open, behind: l.behind}
	if i := slices.Index(in.sources, l.follow); i >= 0 && time.Since(l.began) < l.interval { // else the first one may be back
		in.first, in.sources = l.passed, in.sources[i:i+1]
	}
	l.restart = false
	go func() { l.results <- l.look(ctx, in) }()
}
