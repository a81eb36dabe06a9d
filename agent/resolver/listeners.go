package resolver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"

	"stado.internal/stado/agent/resolver/adapter"
	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/fleet"
)

// slot is one listener that the registry wants. Two snapshots want the same listener when service, consumer, bind and mode are equal;
// everything else about an adapter is read from the route table for each connection.
type slot struct {
	key     route.Key
	mode    string
	bind    fleet.Bind
	fault   string // the registry's own: there is nothing to bind
	adapter *adapter.Adapter
	problem string // why adapter is nil
	failed  bool   // it ran out of descriptors with nothing to shed
	soon    bool   // it ended for a reason that may pass at any moment
}

func (s *slot) wants(r *route.Route) bool {
	return s.key == r.Key && s.mode == r.Adapter.Mode && s.fault == r.Fault
}

func (s *slot) bindable() bool { return s.fault == "" }

func (r *Resolver) closeSlotLocked(s *slot) {
	if s.adapter == nil {
		return
	}
	_ = s.adapter.Close() // the descriptor is gone either way
	if !r.running {
		s.adapter.Wait() // nobody serves it, so nobody else would
	}
}

// Apply puts a snapshot in force for a host: new connections follow its routes at once, listeners that it no longer wants close, new ones
// open, and the others are left alone together with their relays. What cannot be bound is reported by [Resolver.Fill] and tried again.
// A snapshot that gives the host no resolver closes every listener; the relays in flight finish.
func (r *Resolver) Apply(snapshot *fleet.Snapshot, host fleet.HostName) {
	own, ownErr := interfaceAddresses()
	table, err := route.NewTable(snapshot, host, own...)
	if ownErr == nil {
		r.relays.SetOwn(own)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return
	}
	r.current.Store(table)
	r.applied, r.problem = true, ""
	if err != nil {
		r.problem = err.Error()
		r.opt.Log.Error(r.problem)
	} else {
		r.interval = table.Refresh()
		r.relays.SetInterval(r.interval)
	}
	r.dropLocked(table)
	r.wantLocked(table)
	r.openLocked()
	r.announceReadyLocked()
	r.nudge()
	r.opt.Changed()
}

// dropLocked closes what the table does not want, before anything is opened: an address may move from one adapter to another.
func (r *Resolver) dropLocked(table *route.Table) {
	r.slots = slices.DeleteFunc(r.slots, func(s *slot) bool {
		if table != nil && slices.ContainsFunc(table.Routes(), s.wants) {
			return false
		}
		r.closeSlotLocked(s)
		return true
	})
	if r.api != nil && !r.api.wanted(table) {
		r.closeAPILocked()
	}
}

// wantLocked brings the slots into the order of the table and adds those that are new.
func (r *Resolver) wantLocked(table *route.Table) {
	if table == nil {
		return
	}
	slots := make([]*slot, 0, len(table.Routes()))
	for _, way := range table.Routes() {
		i := slices.IndexFunc(r.slots, func(s *slot) bool { return s.wants(way) })
		if i >= 0 {
			slots = append(slots, r.slots[i])
			continue
		}
		slots = append(slots, &slot{key: way.Key, mode: way.Adapter.Mode, bind: way.Listen, fault: way.Fault, problem: way.Fault})
	}
	r.slots = slots
	if r.api == nil {
		r.api = newAPISlot(table)
	}
}

// rebind tries again what is not bound.
func (r *Resolver) rebind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return
	}
	r.openLocked()
	r.opt.Changed()
}

func (r *Resolver) openLocked() {
	if r.api != nil && r.api.server == nil && r.api.bind != nil {
		r.openAPILocked(r.api)
	}
	for _, s := range r.slots {
		if s.adapter == nil && s.bindable() {
			r.openSlotLocked(s)
		}
	}
}

func (r *Resolver) openSlotLocked(s *slot) {
	listener, err := r.bind(s)
	s.soon = false
	if err != nil {
		sentence := sayNotBound(s.key, s.bind, err)
		if s.problem != sentence {
			r.opt.Log.Error(sentence)
		}
		s.problem = sentence
		return
	}
	key := s.key
	s.problem, s.failed = "", false
	s.adapter = adapter.New(adapter.Options{
		Key: key, Relays: r.relays, Listener: listener, Changed: r.opt.Changed,
		Lookup: func() *route.Route { return r.current.Lookup(key) },
	})
	r.serveLocked(s)
}

func (r *Resolver) bind(s *slot) (net.Listener, error) {
	mode, err := adapter.ParseMode(s.mode)
	if err != nil {
		return nil, err
	}
	return adapter.Bind(context.Background(), s.bind, mode, r.opt.Listen)
}

// serveLocked starts the goroutine of a bound adapter; it ends with the adapter's last relay.
func (r *Resolver) serveLocked(s *slot) {
	a := s.adapter
	if !r.running || a == nil {
		return
	}
	r.tasks.Go(func() {
		if err := a.Serve(); err != nil {
			r.ended(s, a, err)
		}
		a.Wait()
	})
}

// ended takes an adapter whose accept failed out of service until the next try.
func (r *Resolver) ended(s *slot, a *adapter.Adapter, cause error) {
	r.opt.Log.Error(cause.Error())
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.adapter != a {
		return
	}
	s.adapter, s.problem = nil, cause.Error()
	s.failed = errors.Is(cause, adapter.ErrExhausted)
	s.soon = !s.failed
	r.nudge()
	r.opt.Changed()
}

// interfaceAddresses are this machine's addresses. Without them fewer peers are known as local, and nothing else is lost.
func interfaceAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, nil
}
