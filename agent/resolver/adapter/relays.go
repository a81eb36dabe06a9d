// Package adapter is one stable address of a host: it accepts clients, refuses them with a sentence when nobody would answer, and relays
// the others to their service until either end is done. No clock ever cuts a relay.
//
// An [Adapter] is one listener. What the relays of a process share stands in [Relays]: the ledger of waits, the copy buffers and pipes,
// the look-up of peers, the reserve of descriptors, and the housekeeping that watches clients which half-closed or whose service does
// not read. The phases of a connection:
//
//	opening ──► quiet ──► asked ──► answered ──► over
//	   │          │         │                     ▲
//	   └──────────┴─────────┴─────────────────────┘
//
// opening and asked stand in the waiting list, as phases open and answer.
package adapter

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"stado.internal/stado/agent/resolver/wait"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
)

const (
	// sweep is how often clients that cannot be heard of otherwise are looked up, and unneeded pipes closed.
	sweep = 250 * time.Millisecond
	// lingersMax bounds the refused clients whose unread request is still drained; above it they are closed at once.
	lingersMax = 256
)

// DialHost reaches an endpoint of a service as seen on its own host.
type DialHost func(ctx context.Context, host fleet.HostName, endpoint fleet.Endpoint) (net.Conn, error)

// RelaysOptions is what [NewRelays] needs. Log is required.
type RelaysOptions struct {
	Log *slog.Logger
	// Touch says that the waiting list changed, and runs the functions after a list at least as new was published. nil runs them at once.
	Touch func(then ...func())
	// DialHost reaches services on other hosts; nil refuses their clients.
	DialHost DialHost
	// Interval is the age past which a wait is held, until [Relays.SetInterval] says otherwise.
	Interval time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Relays is what the relays of one process share. It is safe for concurrent use.
type Relays struct {
	log      *slog.Logger
	touch    func(then ...func())
	dialHost DialHost
	now      func() time.Time

	ledger   *wait.Ledger
	copying  *copying
	peers    *peers
	pressure pressure
	lingers  chan struct{}
	wake     chan struct{}

	mu      sync.Mutex
	members map[*relay]struct{}
	cut     bool // no relay may begin any more

	watchMu sync.Mutex
	watched []*relay
}

// NewRelays makes the shared part. [Relays.Run] must run as long as any adapter does.
func NewRelays(o RelaysOptions) *Relays {
	r := &Relays{
		log: o.Log, touch: o.Touch, dialHost: o.DialHost, now: o.Now,
		lingers: make(chan struct{}, lingersMax), wake: make(chan struct{}, 1), members: make(map[*relay]struct{}),
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.touch == nil {
		r.touch = func(then ...func()) {
			for _, f := range then {
				f()
			}
		}
	}
	r.ledger = wait.NewLedger(r.now(), o.Interval)
	r.copying = newCopying(r.stir)
	var err error
	if r.peers, err = openPeers(); err != nil {
		r.log.Warn(sayNoDiagnosis(err))
	}
	r.pressure.hold()
	return r
}

// Waits is the waiting list, oldest first; never nil.
func (r *Relays) Waits() []status.Wait { return r.ledger.Snapshot() }

// Ended counts the waits that ended for a reason.
func (r *Relays) Ended(why wait.Reason) uint64 { return r.ledger.Ended(why) }

// SetInterval changes the age past which waits are held.
func (r *Relays) SetInterval(d time.Duration) { r.ledger.SetInterval(d) }

// SetOwn names the addresses of this machine's interfaces, beside loopback: clients from there run here and can be looked up.
func (r *Relays) SetOwn(own []netip.Addr) { r.peers.own.Store(&own) }

// Stats counts what was relayed so far.
func (r *Relays) Stats() Stats {
	c := &r.copying.stats
	r.copying.pipes.mu.Lock()
	open := r.copying.pipes.open
	r.copying.pipes.mu.Unlock()
	return Stats{
		Connections: c.connections.Load(), Refused: c.refused.Load(), Relays: c.relays.Load(), Bytes: c.bytes.Load(),
		Spliced: c.spliced.Load(), Splices: c.splices.Load(), Pipes: open,
	}
}

// Run keeps house until ctx ends; then it gives back every descriptor of its own. It sleeps while there is nothing to watch.
func (r *Relays) Run(ctx context.Context) error {
	defer func() {
		r.copying.pipes.close()
		r.peers.close()
		r.pressure.release()
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		for busy := true; busy; {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(sweep):
			}
			watching := r.sweep(r.now())
			piped := r.copying.pipes.trim()
			short := !r.pressure.hold()
			busy = watching || piped || short
		}
	}
}

// stir starts the housekeeping, if it sleeps.
func (r *Relays) stir() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Cut ends every relay that is left, and every one that would still begin.
func (r *Relays) Cut() {
	r.mu.Lock()
	r.cut = true
	left := make([]*relay, 0, len(r.members))
	for m := range r.members {
		left = append(left, m)
	}
	r.mu.Unlock()
	for _, m := range left {
		m.end(wait.Cut, nil)
	}
}

// join enters a relay; false means that none may begin any more.
func (r *Relays) join(m *relay) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return false
	}
	r.members[m] = struct{}{}
	r.copying.stats.relays.Add(1)
	return true
}

func (r *Relays) leave(m *relay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, m)
	r.copying.stats.relays.Add(-1)
}

// watch puts a relay under the sweep. A relay that is under it already stays.
func (r *Relays) watch(m *relay) {
	if m.watched.Swap(true) {
		return
	}
	r.watchMu.Lock()
	r.watched = append(r.watched, m)
	r.watchMu.Unlock()
	r.stir()
}

// sweep looks at every watched relay and reports whether any is left to watch.
func (r *Relays) sweep(now time.Time) (left bool) {
	r.watchMu.Lock()
	looking := r.watched
	r.watched = nil
	r.watchMu.Unlock()
	for _, m := range looking {
		// Before the look, so that what happens after it is watched anew.
		m.watched.Store(false)
		if m.check(now) {
			r.watch(m)
		}
	}
	r.watchMu.Lock()
	defer r.watchMu.Unlock()
	return len(r.watched) > 0
}

// announce publishes the waiting list and then says a line about it: whoever reads the line finds the list that it speaks of.
func (r *Relays) announce(format string, args ...any) {
	if !r.log.Enabled(context.Background(), slog.LevelInfo) {
		r.touch()
		return
	}
	r.touch(func() { r.log.Info(fmt.Sprintf(format, args...)) })
}
