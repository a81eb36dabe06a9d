package policies

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

const edgesLabel = "edges"

// minEdgeInterval keeps a fleet's measurements from being a load of their own.
const minEdgeInterval = time.Minute

// edges judges the times of every edge, and the gateway's.
func (k *checker) edges() {
	for _, name := range slices.Sorted(maps.Keys(k.registry.Edges)) {
		s := k.registry.Edges[name].Selection
		at := func(field string) string { return schema.FieldPath(edgesLabel, string(name), "selection", field) }
		k.duration(at("timeout"), s.Timeout)
		k.duration(at("max_age"), s.MaxAge)
		k.duration(at("tolerance"), s.Tolerance)
		if d, ok := k.duration(at("interval"), s.Interval); ok && d < minEdgeInterval {
			k.refuse(RuleEdgeInterval, at("interval"), sayEdgeInterval(name, s.Interval), hintEdgeInterval)
		}
	}
	if g := k.registry.Gateway; g != nil {
		k.duration(schema.FieldPath("gateway", "header_timeout"), g.HeaderTimeout)
		if _, err := fleet.ParseBind(g.Listen); err != nil {
			k.refuse(RuleBindAddress, schema.FieldPath("gateway", "listen"), err.Error(), "")
		}
	}
}

// forwarder judges what a host says of the forwarder that it runs.
func (k *checker) forwarder(host fleet.HostName, e *fleet.EdgeHost) {
	if _, declared := k.registry.Edges[e.Name]; !declared {
		k.refuse(RuleNoEdge, hostPath(host, "edge", "name"), sayNoEdge(host, e.Name), hintNoEdge(e.Name))
	}
	name, _, err := net.SplitHostPort(e.Origin)
	if err != nil {
		return // the schema has read it
	}
	origin, literal := address(name)
	for i, a := range e.Addresses {
		if own, ok := address(a); ok && literal && own == origin {
			k.refuse(RuleEdgeOrigin, hostPath(host, "edge", "addresses", strconv.Itoa(i)), sayEdgeOrigin(a), hintEdgeOrigin)
		}
	}
}

// address reads an IP literal; ::ffff:192.0.2.1 is 192.0.2.1.
func address(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	return a.Unmap(), err == nil
}
