// Package resolver keeps the stable addresses of one host in service: it turns every adopted snapshot into a route table and a set of
// listeners, touches only the listeners that changed, and answers the resolution API.
package resolver

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"stado.internal/stado/agent/resolver/adapter"
	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
)

// Options is what a [Resolver] needs from its process. Log is required.
type Options struct {
	Log *slog.Logger
	// Waiting publishes [Resolver.Waits]; its Run must outlive the resolver's, so that the list on disk ends empty. nil publishes nothing.
	Waiting *status.Publisher[[]status.Wait]
	// Changed says that what [Resolver.Fill] writes has changed. It must not block or call the resolver. nil: nobody wants to know.
	Changed func()
	// DialHost reaches a service's endpoint as seen on another host. nil: clients of services on other hosts are refused.
	DialHost adapter.DialHost
	// Health tells the API which generation is served and whether it is stale. nil: that of the last snapshot, never stale.
	Health func() (generation fleet.Generation, stale bool)
	// Drain is how long relays may go on after the end of Run's context; 0 cuts them at once.
	Drain time.Duration
	// Listen binds the listeners; nil means plain sockets.
	Listen adapter.Listen
}

// Resolver is the resolver of one host. Its methods may be called from any goroutine.
type Resolver struct {
	opt     Options
	relays  *adapter.Relays
	current route.Current
	ready   chan struct{}
	rearm   chan struct{} // something is unbound, or the interval changed

	mu       sync.Mutex
	problem  string // why there is no table
	slots    []*slot
	api      *apiSlot
	applied  bool
	running  bool
	closing  bool
	tasks    sync.WaitGroup // serving adapters and APIs; grows under mu until closing
	isReady  bool
	interval time.Duration
}

// New makes a resolver without a listener. [Resolver.Apply] gives it work, before or during Run.
func New(o Options) *Resolver {
	if o.Changed == nil {
		o.Changed = func() {}
	}
	var touch func(...func())
	if o.Waiting != nil {
		touch = o.Waiting.Touch
	}
	r := &Resolver{opt: o, ready: make(chan struct{}), rearm: make(chan struct{}, 1)}
	r.relays = adapter.NewRelays(adapter.RelaysOptions{Log: o.Log, Touch: touch, DialHost: o.DialHost})
	if r.opt.Health == nil {
		r.opt.Health = func() (fleet.Generation, bool) {
			if t := r.current.Load(); t != nil {
				return t.Generation(), false
			}
			return 0, false
		}
	}
	return r
}

// Waits is the waiting list, oldest first; never nil.
func (r *Resolver) Waits() []status.Wait { return r.relays.Waits() }

// Ready is closed once a snapshot was applied and its listeners accept.
func (r *Resolver) Ready() <-chan struct{} { return r.ready }

// Run serves until ctx ends. Then it stops accepting, lets relays finish for the drain time, cuts what is left and returns nil, with
// every goroutine ended. It may be called once.
func (r *Resolver) Run(ctx context.Context) error {
	house, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var keepers errgroup.Group
	keepers.Go(func() error { return r.relays.Run(house) })
	keepers.Go(func() error { return r.retry(ctx) })
	r.begin()
	<-ctx.Done()
	r.shut()
	keepers.Go(func() error { return r.cutAfterDrain(house) })
	r.tasks.Wait()
	stop()
	err := keepers.Wait()
	if r.opt.Waiting != nil {
		r.opt.Waiting.Touch()
	}
	r.opt.Changed()
	return err
}

// begin starts to serve what was bound before Run.
func (r *Resolver) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = true
	for _, s := range r.slots {
		r.serveLocked(s)
	}
	if r.api != nil {
		r.serveAPILocked(r.api)
	}
	r.announceReadyLocked()
}

func (r *Resolver) announceReadyLocked() {
	if r.running && r.applied && !r.isReady {
		r.isReady = true
		close(r.ready)
	}
}

// shut closes every listener; nothing is opened any more.
func (r *Resolver) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closing = true
	// The slots stay, without their listeners: the last document names every address that is no longer held.
	for _, s := range r.slots {
		r.closeSlotLocked(s)
		s.adapter = nil
	}
	if r.api != nil {
		bind := r.api.bind
		r.closeAPILocked()
		r.api = &apiSlot{bind: bind}
	}
}

// cutAfterDrain ends the relays that are left when the drain time is over; house ends when none is.
func (r *Resolver) cutAfterDrain(house context.Context) error {
	drained := time.NewTimer(r.opt.Drain)
	defer drained.Stop()
	select {
	case <-house.Done():
	case <-drained.C:
		r.relays.Cut()
	}
	return nil
}

// relisten is how long an address whose accept failed stays closed, where the failure says nothing of its length.
const relisten = time.Second

// retry opens what could not be opened, every refresh interval of the host.
func (r *Resolver) retry(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		if wait, found := r.unbound(); found {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.rearm:
		case <-timer.C:
			r.rebind()
		}
	}
}

// unbound tells whether anything waits to be bound, and for how long to wait.
func (r *Resolver) unbound() (wait time.Duration, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = r.interval
	for _, s := range r.slots {
		if s.adapter == nil && s.bindable() {
			found = true
			if s.soon {
				wait = min(wait, relisten)
			}
		}
	}
	if r.api != nil && r.api.server == nil && r.api.bind != nil {
		found = true
	}
	return wait, found
}

func (r *Resolver) nudge() {
	select {
	case r.rearm <- struct{}{}:
	default:
	}
}
