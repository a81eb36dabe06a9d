package adapter

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/agent/resolver/wait"
)

// Options is what an [Adapter] needs. All are required but Changed.
type Options struct {
	Key    route.Key
	Relays *Relays
	// Lookup finds the route in force, nil when the adapter is no longer declared. It runs for every connection.
	Lookup func() *route.Route
	// Listener is where clients come in; the adapter closes it.
	Listener net.Listener
	// Changed says that [Adapter.Fault] of some endpoint changed.
	Changed func()
}

// Adapter is one stable address in service. Its methods may be called from any goroutine.
type Adapter struct {
	key      route.Key
	relays   *Relays
	lookup   func() *route.Route
	listener net.Listener
	changed  func()
	waits    *wait.Adapter

	closed chan struct{}
	once   sync.Once
	conns  sync.WaitGroup

	faulty atomic.Bool // any fault stands; spares the lock while none does
	mu     sync.Mutex
	faults map[string]string // by endpoint: why it could not be reached last
}

// New puts a listener into service; [Adapter.Serve] accepts on it.
func New(o Options) *Adapter {
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Adapter{
		key: o.Key, relays: o.Relays, lookup: o.Lookup, listener: o.Listener, changed: o.Changed,
		waits: o.Relays.ledger.Open(o.Key.Service, o.Key.Consumer, o.Key.Bind), closed: make(chan struct{}), faults: make(map[string]string),
	}
}

// pause is how long an adapter accepts nothing after descriptors ran out: long enough for the waiting list to be published with what
// was freed, and for the error not to come back at the speed of a loop.
const pause = 50 * time.Millisecond

// Serve accepts until [Adapter.Close], and then returns nil, or until accepting fails for good; the error is the sentence. Either way the
// listener is closed. Connections go on: [Adapter.Wait] joins them.
func (a *Adapter) Serve() error {
	defer func() { _ = a.Close() }() // an accept error is the one to report
	for {
		relief := a.relays.pressure.epoch.Load()
		conn, err := a.listener.Accept()
		switch {
		case err == nil:
			a.conns.Go(func() { a.handle(conn) })
			continue
		case a.isClosed():
			return nil
		case !exhausted(err):
			return sayAcceptFailed(a.key.Bind, plain(err))
		}
		if waitedFor(a.listener) {
			if err := a.relays.relieve(a.key, relief, err); err != nil {
				return err
			}
		}
		select {
		case <-a.closed:
			return nil
		case <-time.After(pause):
		}
	}
}

// Close stops accepting. Relays in flight are not touched.
func (a *Adapter) Close() error {
	var err error
	a.once.Do(func() {
		close(a.closed)
		err = a.listener.Close()
	})
	return err
}

// Wait returns when Serve has returned and the last connection has ended.
func (a *Adapter) Wait() {
	<-a.closed
	a.conns.Wait()
	a.waits.Close()
}

func (a *Adapter) isClosed() bool {
	select {
	case <-a.closed:
		return true
	default:
		return false
	}
}

// handle serves one connection to its end.
func (a *Adapter) handle(conn net.Conn) {
	a.relays.copying.stats.connections.Add(1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &relay{adapter: a, relays: a.relays, client: newStream(conn), cancel: cancel, began: a.relays.now()}
	if !a.relays.join(r) {
		r.client.abort()
		return
	}
	defer a.relays.leave(r)
	if peer, _, ok := endpoints(conn); ok && !peer.Addr().IsLoopback() {
		r.client.keepAlive()
	}
	standing := a.waits.Standing(r.began)
	way := a.lookup()
	if way == nil {
		r.deny("", sayWithdrawn(a.key))
		return
	}
	r.protocol = way.Protocol
	if way.Refusal != "" {
		r.deny("", way.Refusal)
		return
	}
	if !r.connect(ctx, way, standing) {
		return
	}
	r.run()
}

// Fault is why an endpoint of the adapter could not be reached when it was last tried; empty when it could.
func (a *Adapter) Fault(endpoint string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.faults[endpoint]
}

// Held is the sentence for a new connection to a candidate whose requests stand, empty when none is held.
func (a *Adapter) Held(c *route.Candidate, now time.Time) string {
	if !a.waits.Standing(now) {
		return ""
	}
	held := a.waits.Held(c.Host, c.Address, now)
	if len(held) == 0 {
		return ""
	}
	return sayHeld(held, a.relays.ledger.Interval(), now)
}

// note remembers the outcome of a dial; an empty fault is a success.
func (a *Adapter) note(endpoint, fault string) {
	if fault == "" && !a.faulty.Load() {
		return
	}
	a.mu.Lock()
	changed := a.faults[endpoint] != fault
	if fault == "" {
		delete(a.faults, endpoint)
	} else {
		a.faults[endpoint] = fault
	}
	a.faulty.Store(len(a.faults) > 0)
	a.mu.Unlock()
	if changed {
		a.changed()
	}
}
