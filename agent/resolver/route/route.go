// Package route decides where the adapters of one host lead: pure queries over one snapshot, with every refusal that the registry alone
// can tell already made. Nothing here opens a socket or reads a clock.
//
// A [Table] is built once per snapshot and never changed, so a connection finds its route with one atomic load of the current table and
// one map look-up, without a lock and without allocation.
package route

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"stado.internal/stado/fleet"
)

// Key names an adapter of a host: a stable address for one consumer of one service.
type Key struct {
	Service  fleet.ServiceName
	Consumer fleet.ConsumerName
	Bind     string // as declared
}

// Route is where one adapter leads. It is immutable.
type Route struct {
	Key
	Adapter    fleet.Adapter
	Listen     fleet.Bind // Key.Bind, parsed; zero when Fault is set
	Protocol   fleet.Protocol
	Generation fleet.Generation
	// Candidates are the active hosts of the service in declared order.
	Candidates []Candidate
	// Refusal is the sentence for every client when no candidate may be used; empty when one may.
	Refusal string
	// Fault says why there can be no listener at all; empty for a bind that can be read.
	Fault string
}

// Candidate is one host that a route may use.
type Candidate struct {
	Host     fleet.HostName
	Endpoint fleet.Endpoint
	Address  string // what operators and the waiting list call the endpoint: host:port, or unix:///path
	Local    bool   // the service is on the host of the table
	Refusal  string // why this candidate is never used; empty when it may be
}

// Table holds the routes of one host under one snapshot. It is immutable.
type Table struct {
	host       fleet.HostName
	generation fleet.Generation
	refresh    time.Duration
	api        *fleet.Bind
	apiFault   string
	registry   *fleet.Registry
	routes     map[Key]*Route
	ordered    []*Route
}

// NewTable builds the routes of a host. own are the addresses of this machine's interfaces, as far as the caller knows them: they help to
// see that an endpoint is one of this resolver's own listeners. It fails when the registry does not know the host or gives it no
// resolver; a single adapter that cannot work carries its reason instead and does not disturb the others.
func NewTable(snapshot *fleet.Snapshot, host fleet.HostName, own ...netip.Addr) (*Table, error) {
	if snapshot == nil || snapshot.Registry == nil {
		return nil, fmt.Errorf("no registry is held, so there is nothing to route")
	}
	registry := snapshot.Registry
	entry, known := registry.Hosts[host]
	switch {
	case !known:
		return nil, sayUnknownHost(host, snapshot.Generation())
	case entry.Resolver == nil:
		return nil, sayNoResolver(host, snapshot.Generation())
	}
	t := &Table{
		host: host, generation: snapshot.Generation(), refresh: entry.Resolver.Refresh(), registry: registry,
		routes: make(map[Key]*Route, len(entry.Resolver.Adapters)),
	}
	if api, err := fleet.ParseBind(entry.Resolver.APIBind); err != nil {
		t.apiFault = sayBadAPIBind(host, err)
	} else {
		t.api = &api
	}
	loops := newLoops(registry, host, own)
	for _, a := range entry.Resolver.Adapters {
		r := t.route(a, loops)
		if _, twice := t.routes[r.Key]; twice {
			continue
		}
		t.routes[r.Key] = r
		t.ordered = append(t.ordered, r)
	}
	return t, nil
}

func (t *Table) route(a fleet.Adapter, loops *loops) *Route {
	r := &Route{
		Key:     Key{Service: a.Service, Consumer: a.Consumer, Bind: a.Bind},
		Adapter: a, Protocol: t.registry.AdapterProtocol(a), Generation: t.generation,
	}
	var err error
	if r.Listen, err = fleet.ParseBind(a.Bind); err != nil {
		r.Fault = sayBadBind(a, err)
	}
	service, err := t.authorized(a.Service, a.Consumer)
	if err != nil {
		r.Refusal = err.Error()
		return r
	}
	usable := false
	for _, host := range service.ActiveHosts {
		c := t.candidate(a.Service, service, host, loops)
		usable = usable || c.Refusal == ""
		r.Candidates = append(r.Candidates, c)
	}
	switch {
	case usable:
	case len(r.Candidates) == 0:
		r.Refusal = sayNoActiveHost(a.Service)
	default:
		r.Refusal = r.Candidates[0].Refusal
	}
	return r
}

func (t *Table) candidate(name fleet.ServiceName, service *fleet.Service, host fleet.HostName, loops *loops) Candidate {
	c := Candidate{Host: host, Local: host == t.host}
	declared, ok := service.Endpoints[host]
	if !ok {
		c.Refusal = sayNoEndpoint(name, host)
		return c
	}
	endpoint, err := fleet.ParseEndpoint(declared.URL)
	if err != nil {
		c.Address, c.Refusal = declared.URL, sayBadEndpoint(name, host, err)
		return c
	}
	c.Endpoint, c.Address = endpoint, endpoint.Address
	if endpoint.Network == "unix" {
		c.Address = "unix://" + endpoint.Address
	}
	if own, ok := loops.find(host, endpoint); ok {
		c.Refusal = saySelfLoop(name, endpoint, own, host)
	}
	return c
}

// authorized finds a service and checks that the registry lets the consumer call it.
func (t *Table) authorized(name fleet.ServiceName, consumer fleet.ConsumerName) (*fleet.Service, error) {
	service, ok := t.registry.Directory.Services[name]
	if !ok {
		return nil, fmt.Errorf("unknown logical service %q", name)
	}
	if _, ok := service.Consumers[consumer]; !ok {
		return nil, fmt.Errorf("consumer %q is not authorized for service %q", consumer, name)
	}
	return &service, nil
}

// Host is the host whose adapters the table holds.
func (t *Table) Host() fleet.HostName { return t.host }

// Generation is the generation of the snapshot.
func (t *Table) Generation() fleet.Generation { return t.generation }

// Refresh is the interval past which a wait of this host is held.
func (t *Table) Refresh() time.Duration { return t.refresh }

// API is the bind of the resolution API; when it cannot be read, the reason is in fault.
func (t *Table) API() (bind *fleet.Bind, fault string) { return t.api, t.apiFault }

// Routes lists the routes in declared order. The caller must not change them.
func (t *Table) Routes() []*Route { return t.ordered }

// Lookup finds the route of an adapter.
func (t *Table) Lookup(k Key) (*Route, bool) {
	r, ok := t.routes[k]
	return r, ok
}

// Resolution is the answer of the resolution API.
type Resolution struct {
	Generation   fleet.Generation
	Gateway      string // URL of the consumer's adapter on this host; empty when it has none
	Capabilities []string
}

// Refused is the error of a service that the registry declares and no host can serve.
type Refused struct {
	Service fleet.ServiceName
	Refusal string // for operators: it names hosts and addresses
}

func (e *Refused) Error() string { return e.Refusal }

// Public is the sentence for a consumer, who learns nothing of hosts.
func (e *Refused) Public() string { return sayRefusedToConsumer(e.Service) }

// Resolve answers a consumer of a service. Physical hosts are never part of the answer; an error may be a [Refused], which names them.
func (t *Table) Resolve(name fleet.ServiceName, consumer fleet.ConsumerName) (Resolution, error) {
	service, err := t.authorized(name, consumer)
	if err != nil {
		return Resolution{}, err
	}
	out := Resolution{Generation: t.generation, Capabilities: slices.Clone(service.Consumers[consumer].Capabilities)}
	for _, r := range t.ordered {
		if r.Service != name || r.Consumer != consumer || r.Fault != "" {
			continue
		}
		if r.Refusal != "" {
			return Resolution{}, &Refused{Service: name, Refusal: r.Refusal}
		}
		out.Gateway = r.gateway()
		break
	}
	return out, nil
}

// gateway is the address for the consumer's client. Bytes pass unchanged, so a client of an https endpoint speaks TLS to the adapter.
func (r *Route) gateway() string {
	switch {
	case r.Listen.Network == "unix":
		return "unix://" + r.Listen.Address
	case r.Protocol == fleet.ProtocolTCP:
		return "tcp://" + r.Listen.Address
	case r.Candidates[0].Endpoint.Scheme == "https":
		return "https://" + r.Listen.Address
	}
	return "http://" + r.Listen.Address
}

// Current is the table in force, for one writer and any number of readers. The zero value holds none.
type Current struct{ table atomic.Pointer[Table] }

// Store puts a table in force; nil takes the last one away.
func (c *Current) Store(t *Table) { c.table.Store(t) }

// Load is the table in force, or nil.
func (c *Current) Load() *Table { return c.table.Load() }

// Lookup finds the route of an adapter in the table in force: one atomic load, no lock, no allocation. It is nil when the adapter is no
// longer declared.
func (c *Current) Lookup(k Key) *Route {
	t := c.table.Load()
	if t == nil {
		return nil
	}
	return t.routes[k]
}
