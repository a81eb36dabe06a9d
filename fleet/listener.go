package fleet

import (
	"net/netip"
	"slices"
)

// Listener is one address that the resolver of a host holds.
type Listener struct {
	Bind     Bind
	Declared string // the bind, as the registry writes it
	// API: the listener is the resolution API, and leads to no service.
	API      bool
	Service  ServiceName
	Consumer ConsumerName
}

// Listeners are what the resolver of one host holds, and what is known of the host's own addresses.
type Listeners struct {
	list      []Listener
	addresses []netip.Addr
}

// Listeners are the listeners of the resolver of a host, as far as their binds can be read. own are further addresses of that machine
// that the caller knows, those of its interfaces.
func (r *Registry) Listeners(name HostName, own ...netip.Addr) Listeners {
	var out Listeners
	entry := r.Hosts[name]
	for _, identity := range entry.Identities(name) {
		if a, err := netip.ParseAddr(identity); err == nil {
			out.addresses = append(out.addresses, a.Unmap())
		}
	}
	for _, a := range own {
		out.addresses = append(out.addresses, a.Unmap().WithZone(""))
	}
	if entry.Resolver == nil {
		return out
	}
	if bind, err := ParseBind(entry.Resolver.APIBind); err == nil {
		out.list = append(out.list, Listener{Bind: bind, Declared: entry.Resolver.APIBind, API: true})
	}
	for _, a := range entry.Resolver.Adapters {
		if bind, err := ParseBind(a.Bind); err == nil {
			out.list = append(out.list, Listener{Bind: bind, Declared: a.Bind, Service: a.Service, Consumer: a.Consumer})
		}
	}
	return out
}

// Reached tells which listener a connection to the endpoint, made on the host itself, would reach.
func (l Listeners) Reached(endpoint Endpoint) (Listener, bool) {
	for _, candidate := range l.list {
		if l.reaches(endpoint, candidate.Bind) {
			return candidate, true
		}
	}
	return Listener{}, false
}

// reaches compares what a connection can arrive at, not how addresses are written: localhost and mapped addresses are already unmapped by
// the parsers, an unspecified endpoint arrives at loopback, and an unspecified bind receives on every address of the host in its family.
func (l Listeners) reaches(endpoint Endpoint, bind Bind) bool {
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
		return at.Is4() == target.Is4() && (target.IsLoopback() || target.IsUnspecified() || slices.Contains(l.addresses, target))
	case target.IsUnspecified():
		return at.IsLoopback()
	}
	return false
}
