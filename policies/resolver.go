package policies

import (
	"maps"
	"slices"
	"strconv"

	"stado.internal/stado/fleet"
)

// listener is one bind of a host.
type listener struct {
	bind fleet.Bind
	raw  string
	path string
	name string
}

// resolver judges the resolver of a host, and returns the listeners that stand.
func (k *checker) resolver(host fleet.HostName, r *fleet.ServiceResolver) []listener {
	if r.MaxStaleSeconds < r.RefreshSeconds {
		p := hostPath(host, "service_resolver", "max_stale_seconds")
		k.refuse(RuleMaxStale, p, sayMaxStale(r.MaxStaleSeconds, r.RefreshSeconds), hintMaxStale)
	}
	listeners := make([]listener, 0, 1+len(r.Adapters))
	listeners = k.listener(listeners, listener{
		raw: r.APIBind, path: hostPath(host, "service_resolver", "api_bind"), name: "the resolver API (api_bind)",
	}, false, hintExposedAPI)
	adapters := hostPath(host, "service_resolver", "adapters") + "."
	for i, a := range r.Adapters {
		p := adapters + strconv.Itoa(i)
		k.adapter(p, a)
		listeners = k.listener(listeners, listener{
			raw: a.Bind, path: p + ".bind", name: "the adapter of service " + string(a.Service) + " for consumer " + string(a.Consumer),
		}, a.Expose, hintExposed)
	}
	return listeners
}

// listener judges one more bind of a host beside those that stand.
func (k *checker) listener(stand []listener, l listener, expose bool, hint string) []listener {
	bind, err := fleet.ParseBind(l.raw)
	if err != nil {
		k.refuse(RuleBindAddress, l.path, err.Error(), "")
		return stand
	}
	l.bind = bind
	if !expose && !bind.Loopback() {
		k.refuse(RuleBindExposed, l.path, sayExposed(l.raw), hint)
	}
	if i := slices.IndexFunc(stand, func(other listener) bool { return clash(other.bind, bind) }); i >= 0 {
		other := stand[i]
		k.refuse(RuleBindClash, l.path, sayBindClash(l.raw, other.name, other.raw, seeAlso(k.at(other.path))), hintBindClash)
	}
	return append(stand, l)
}

// clash reports whether two listeners cannot stand together: one address, or one port of which one side takes all addresses.
func clash(a, b fleet.Bind) bool {
	if a.Network != b.Network {
		return false
	}
	if a.Address == b.Address {
		return true
	}
	if a.Network != "tcp" || a.Addr.Port() != b.Addr.Port() {
		return false
	}
	return takes(a, b) || takes(b, a)
}

// takes reports whether a listens on all addresses that b could have: 0.0.0.0 on those of IPv4, :: on those of IPv6.
func takes(a, b fleet.Bind) bool {
	all := a.Addr.Addr()
	return all.IsUnspecified() && all.Is4() == b.Addr.Addr().Is4()
}

func (k *checker) adapter(fieldPath string, a fleet.Adapter) {
	s, ok := k.registry.Directory.Services[a.Service]
	if !ok {
		k.refuse(RuleNoService, fieldPath+".service", sayNoService(a.Service), hintNoService(a.Service))
		return
	}
	if _, ok := s.Consumers[a.Consumer]; !ok {
		where := seeAlso(k.at(servicePath(a.Service, "consumers")))
		k.refuse(RuleNoConsumer, fieldPath+".consumer", sayNoConsumer(a.Service, a.Consumer, where), hintNoConsumer(a.Consumer))
	}
	if a.Protocol != fleet.ProtocolHTTP || s.Protocol != fleet.ProtocolTCP {
		return // the service's own protocol is judged with its endpoints
	}
	for _, host := range slices.Sorted(maps.Keys(s.Endpoints)) {
		if e, err := fleet.ParseEndpoint(s.Endpoints[host].URL); err == nil && e.Scheme == "tcp" {
			where := seeAlso(k.at(servicePath(a.Service, "endpoints", string(host), "url")))
			k.refuse(RuleProtocol, fieldPath+".protocol", sayProtocolAdapter(a.Service, e.URL, where), hintProtocolAdapter)
			return
		}
	}
}
