package route

import (
	"net/netip"
	"slices"

	"stado.internal/stado/fleet"
)

// listener is one address that the resolver of a host holds.
type listener struct {
	bind     fleet.Bind
	declared string // as the registry writes it
	service  fleet.ServiceName
	consumer fleet.ConsumerName
	api      bool
}

// loops knows the listeners of the resolver of every host, and finds an endpoint among them.
type loops struct {
	registry *fleet.Registry
	self     fleet.HostName
	own      []netip.Addr // this machine's interface addresses
	hosts    map[fleet.HostName]*hostListeners
}

type hostListeners struct {
	listeners []listener
	addresses []netip.Addr // what is known of the host's own addresses
}

func newLoops(registry *fleet.Registry, self fleet.HostName, own []netip.Addr) *loops {
	return &loops{registry: registry, self: self, own: own, hosts: make(map[fleet.HostName]*hostListeners)}
}

// find tells which listener of the host's resolver a connection to the endpoint, made on that host, would reach.
func (l *loops) find(host fleet.HostName, endpoint fleet.Endpoint) (listener, bool) {
	h := l.of(host)
	for _, candidate := range h.listeners {
		if h.reaches(endpoint, candidate.bind) {
			return candidate, true
		}
	}
	return listener{}, false
}

func (l *loops) of(name fleet.HostName) *hostListeners {
	if h, ok := l.hosts[name]; ok {
		return h
	}
	h := &hostListeners{}
	l.hosts[name] = h
	entry := l.registry.Hosts[name]
	for _, identity := range entry.Identities(name) {
		if a, err := netip.ParseAddr(identity); err == nil {
			h.addresses = append(h.addresses, a.Unmap())
		}
	}
	if name == l.self {
		for _, a := range l.own {
			h.addresses = append(h.addresses, a.Unmap().WithZone(""))
		}
	}
	if entry.Resolver == nil {
		return h
	}
	if bind, err := fleet.ParseBind(entry.Resolver.APIBind); err == nil {
		h.listeners = append(h.listeners, listener{bind: bind, declared: entry.Resolver.APIBind, api: true})
	}
	for _, a := range entry.Resolver.Adapters {
		if bind, err := fleet.ParseBind(a.Bind); err == nil {
			h.listeners = append(h.listeners, listener{bind: bind, declared: a.Bind, service: a.Service, consumer: a.Consumer})
		}
	}
	return h
}

// reaches compares what a connection can arrive at, not how addresses are written: localhost and mapped addresses are already unmapped by
// the parsers, an unspecified endpoint arrives at loopback, and an unspecified bind receives on every address of the host in its family.
func (h *hostListeners) reaches(endpoint fleet.Endpoint, bind fleet.Bind) bool {
	if endpoint.Network != bind.Network {
		return false
	}
	if endpoint.Network == "unix" {
		return endpoint.Address == bind.Address
	}
	to, err := netip.ParseAddrPort(endpoint.Address)
	if err != nil || to.Port() != bind.Addr.Port() {
		return false
	}
	target, at := to.Addr().Unmap(), bind.Addr.Addr().Unmap()
	switch {
	case target == at:
		return true
	case at.IsUnspecified():
		return at.Is4() == target.Is4() && (target.IsLoopback() || target.IsUnspecified() || h.owns(target))
	case target.IsUnspecified():
		return at.IsLoopback()
	}
	return false
}

func (h *hostListeners) owns(a netip.Addr) bool {
	return slices.Contains(h.addresses, a)
}
