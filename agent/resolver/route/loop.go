package route

import (
	"net/netip"

	"stado.internal/stado/fleet"
)

// loops finds the endpoints that are listeners of a resolver. It keeps the listeners of every host that it was asked about.
type loops struct {
	registry *fleet.Registry
	self     fleet.HostName
	own      []netip.Addr // this machine's interface addresses
	hosts    map[fleet.HostName]fleet.Listeners
}

func newLoops(registry *fleet.Registry, self fleet.HostName, own []netip.Addr) *loops {
	return &loops{registry: registry, self: self, own: own, hosts: make(map[fleet.HostName]fleet.Listeners)}
}

// find tells which listener of the host's resolver a connection to the endpoint, made on that host, would reach.
func (l *loops) find(host fleet.HostName, endpoint fleet.Endpoint) (fleet.Listener, bool) {
	h, known := l.hosts[host]
	if !known {
		var own []netip.Addr
		if host == l.self {
			own = l.own
		}
		h = l.registry.Listeners(host, own...)
		l.hosts[host] = h
	}
	return h.Reached(endpoint)
}
