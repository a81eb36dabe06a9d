// Package wait is the ledger of clients that wait: for a channel or dial that has not answered (phase open), or for the first byte of an
// answer to a request that went up (phase answer). It decides what is held, what may be shed, and what the published list says. It does
// no I/O and reads no clock; every method that depends on time takes now.
//
// A wait lives from [Ledger.Begin] until it is ended once, for one [Reason]. A wait is held when it is strictly older than the refresh
// interval, by the rule of [status.Held]; an adapter keeps the instant at which its oldest wait becomes held in one atomic, so that a
// new connection learns with one load that nothing stands in its way.
package wait

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
)

// Reason says why a wait ended.
type Reason uint8

// The reasons.
const (
	Answered    Reason = iota // first service byte came down
	Opened                    // the channel or dial answered: open
	Refused                   // the channel or dial answered: refused
	ClientGone                // nobody is left to answer
	ServiceGone               // the service end closed or failed before an answer
	Shed                      // ended to free descriptors
	Cut                       // the resolver shuts down

	reasons = iota
)

func (r Reason) String() string {
	return [...]string{"answered", "opened", "refused", "client gone", "service gone", "shed", "cut"}[r]
}

// never is the held instant of an adapter without waits.
const never = math.MaxInt64

// Ledger holds the waits of a process. It is safe for concurrent use; make one with [NewLedger].
type Ledger struct {
	epoch time.Time // instants of atomics are nanoseconds since

	mu       sync.Mutex
	interval time.Duration
	adapters map[key]*Adapter
	order    list // every listed wait, oldest first
	count    int  // length of order
	ended    [reasons]uint64
}

type key struct {
	service  fleet.ServiceName
	consumer fleet.ConsumerName
	bind     string
}

// NewLedger makes an empty ledger whose waits are held once older than the interval. epoch is any instant not after the first wait.
func NewLedger(epoch time.Time, interval time.Duration) *Ledger {
	return &Ledger{epoch: epoch, interval: interval, adapters: make(map[key]*Adapter)}
}

// Adapter is the part of the ledger that belongs to one adapter.
type Adapter struct {
	ledger *Ledger
	key    key
	heldAt atomic.Int64 // instant after which the oldest counting wait is held, or never

	// Guarded by ledger.mu.
	counting list // waits that can refuse a caller, oldest first
	users    int  // opened handles plus waits; the ledger forgets the adapter at zero
}

// Entry is what a wait is about.
type Entry struct {
	Client   string // address of the client
	Host     fleet.HostName
	Endpoint string
	Phase    status.Phase
	// Shed ends the relay of the wait in phase answer, with the sentence for its client. It must not call the ledger. May be nil.
	Shed func(sentence string)
}

// Wait is one client that waits. Its fields never change.
type Wait struct {
	Entry
	Since time.Time

	adapter *Adapter
	// Guarded by ledger.mu.
	ended    bool
	unproven time.Time // since when it refuses nobody; zero: it may
	inOrder  links     // in Ledger.order
	inCount  links     // in Adapter.counting, unless unproven
}

// Open finds or makes the adapter of the ledger. The caller gives it back with [Adapter.Close]; waits that outlive the handle keep
// counting for whoever opens the same adapter again.
func (l *Ledger) Open(service fleet.ServiceName, consumer fleet.ConsumerName, bind string) *Adapter {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := key{service, consumer, bind}
	a, ok := l.adapters[k]
	if !ok {
		a = &Adapter{ledger: l, key: k}
		a.heldAt.Store(never)
		l.adapters[k] = a
	}
	a.users++
	return a
}

// Close gives the handle back.
func (a *Adapter) Close() {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.leaveLocked()
}

func (a *Adapter) leaveLocked() {
	if a.users--; a.users == 0 {
		delete(a.ledger.adapters, a.key)
	}
}

// Standing reports whether any wait of the adapter is held. It is one atomic load.
func (a *Adapter) Standing(now time.Time) bool {
	return int64(now.Sub(a.ledger.epoch)) > a.heldAt.Load()
}

// Held lists the held waits of the adapter that stand on the endpoint of the host, oldest first.
func (a *Adapter) Held(host fleet.HostName, endpoint string, now time.Time) []status.Wait {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	var waits []status.Wait
	for w := a.counting.first; w != nil; w = w.inCount.next {
		if w.Host == host && w.Endpoint == endpoint {
			waits = append(waits, w.Published())
		}
	}
	return status.Held(waits, now, a.ledger.interval)
}

// Begin enters a wait and tells how many the ledger now lists.
func (a *Adapter) Begin(e Entry, now time.Time) (w *Wait, listed int) {
	w = &Wait{Entry: e, Since: now, adapter: a}
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	a.users++
	l.order.insert(w, (*Wait).order)
	l.count++
	a.counting.insert(w, (*Wait).count)
	a.refreshLocked()
	return w, l.count
}

// End takes the wait off the ledger and tells how many it still lists. Only the first call ends it: ended is false for every later one.
func (w *Wait) End(why Reason) (ended bool, listed int) {
	l := w.adapter.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.endLocked(why), l.count
}

func (w *Wait) endLocked(why Reason) bool {
	if w.ended {
		return false
	}
	l := w.adapter.ledger
	w.ended = true
	l.ended[why]++
	l.order.remove(w, (*Wait).order)
	l.count--
	if w.unproven.IsZero() {
		w.uncountLocked()
	}
	w.adapter.leaveLocked()
	return true
}

// Exempt lets the wait refuse nobody from now on, although it stays in the list and its relay goes on: its client may have vanished and
// only a reset can tell. It reports whether the list changed.
func (w *Wait) Exempt(now time.Time) bool {
	l := w.adapter.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.ended || !w.unproven.IsZero() {
		return false
	}
	w.unproven = now
	w.uncountLocked()
	return true
}

// uncountLocked takes the wait out of what new connections see.
func (w *Wait) uncountLocked() {
	w.adapter.counting.remove(w, (*Wait).count)
	w.adapter.refreshLocked()
}

// IsHeld reports whether the wait is older than the interval.
func (w *Wait) IsHeld(now time.Time) bool {
	l := w.adapter.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(w.Since) > l.interval
}

func (a *Adapter) refreshLocked() {
	at := int64(never)
	if first := a.counting.first; first != nil {
		at = int64(first.Since.Sub(a.ledger.epoch) + a.ledger.interval)
	}
	a.heldAt.Store(at)
}

// SetInterval changes the age past which waits are held, for those that stand as well.
func (l *Ledger) SetInterval(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interval = d
	for _, a := range l.adapters {
		a.refreshLocked()
	}
}

// Interval is the age past which waits are held.
func (l *Ledger) Interval() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.interval
}

// Shed ends every wait in phase answer that is older than the interval, of the whole process, since descriptors are the process's, and
// returns them for the caller to end their relays; unproven ones hold descriptors as well and go with them. opening counts the held waits
// that stand on channels still opening; those stay.
func (l *Ledger) Shed(now time.Time) (shed []*Wait, opening int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var next *Wait
	for w := l.order.first; w != nil && now.Sub(w.Since) > l.interval; w = next {
		next = w.inOrder.next
		if w.Phase == status.PhaseOpen {
			opening++
			continue
		}
		w.endLocked(Shed)
		shed = append(shed, w)
	}
	return shed, opening
}

// Ended counts the waits that ended for a reason since the ledger was made.
func (l *Ledger) Ended(why Reason) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[why]
}

// Snapshot is the published list, oldest first; it is never nil.
func (l *Ledger) Snapshot() []status.Wait {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]status.Wait, 0, l.count)
	for w := l.order.first; w != nil; w = w.inOrder.next {
		out = append(out, w.Published())
	}
	return out
}

// Published is the wait as an element of the published list. The caller holds the ledger, or got the wait from [Ledger.Shed].
func (w *Wait) Published() status.Wait {
	k := w.adapter.key
	out := status.Wait{
		Service: k.service, Consumer: k.consumer, Bind: k.bind, Client: w.Client, ActiveHost: w.Host, Endpoint: w.Endpoint,
		Since: w.Since.UTC(), Phase: w.Phase,
	}
	if !w.unproven.IsZero() {
		since := w.unproven.UTC()
		out.UnprovenSince = &since
	}
	return out
}
