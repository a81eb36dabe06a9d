// Package plan says what a change of the registry means: a semantic difference of two compiled documents, per host. It is pure, and it
// compares what CUE evaluated, so a change that comes out of a template or a default shows at every host that it reaches.
package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"stado.internal/stado/fleet"
)

// Change says what happens to a named thing.
type Change string

// The changes. Hosts and services are added, removed or changed; adapters are bound, unbound or changed; a host starts or stops to serve.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
	Bound   Change = "bound"
	Unbound Change = "unbound"
	Starts  Change = "starts"
	Stops   Change = "stops"
)

// Field is one value that differs. Before and After are canonical JSON; the one of a field that is not there is nil.
type Field struct {
	Field  string          `json:"field"` // field path, relative to the thing it belongs to
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Plan is what changes from one document to another. Every list is sorted; one that is empty means that nothing of its kind changes.
type Plan struct {
	Generation Numbers   `json:"generation"`
	Limits     []Limit   `json:"limits"`    // of the change limits that hold, those that the change uses up at least a part of
	Authority  []Field   `json:"authority"` // fields of service_directory.authority
	Settings   []Field   `json:"settings"`  // fields that belong to no host and no service
	Services   []Service `json:"services"`
	Hosts      []Host    `json:"hosts"`
}

// Numbers are the generations of the two documents.
type Numbers struct {
	Before fleet.Generation `json:"before"`
	After  fleet.Generation `json:"after"`
}

// Limit is how much of a change limit, as it stood before the change, the change uses up.
type Limit struct {
	Kind       LimitKind `json:"kind"`
	Count      int       `json:"count"` // of the things that there were
	Of         int       `json:"of"`
	MaxPercent int       `json:"max_percent"`
	Exceeded   bool      `json:"exceeded"` // the change is refused
}

// LimitKind names a change limit.
type LimitKind string

// The change limits.
const (
	RemovedHosts    LimitKind = "removed_hosts"
	ChangedServices LimitKind = "changed_services"
)

// Service is a service whose entry in the directory differs.
type Service struct {
	Name   fleet.ServiceName `json:"name"`
	Change Change            `json:"change"`
	Fields []Field           `json:"fields"`
}

// Host is a host for which something differs.
type Host struct {
	Name     fleet.HostName `json:"name"`
	Change   Change         `json:"change"`
	Adapters []Adapter      `json:"adapters"`
	Routes   []Route        `json:"routes"`
	Serves   []Serving      `json:"serves"`
	Settings []Field        `json:"settings"` // its other fields
}

// Key names an adapter of a host. The bind is the one after the change, or the last one of an adapter that is unbound.
type Key struct {
	Service  fleet.ServiceName  `json:"service"`
	Consumer fleet.ConsumerName `json:"consumer"`
	Bind     string             `json:"bind"`
}

// Adapter is a listener that is bound, unbound or declared otherwise.
type Adapter struct {
	Key
	Change Change  `json:"change"`
	Fields []Field `json:"fields,omitempty"` // of a changed adapter
	// LeadsTo is where a bound adapter will lead, or an unbound one led.
	LeadsTo []Candidate `json:"leads_to,omitempty"`
}

// Route is where an adapter that stays leads from now on, and on which terms.
type Route struct {
	Key
	LeadsTo *Leads  `json:"leads_to,omitempty"` // nil when the candidates stay
	Fields  []Field `json:"fields,omitempty"`   // protocol, capabilities
}

// Leads are the candidates of a route, before and after.
type Leads struct {
	Before []Candidate `json:"before"`
	After  []Candidate `json:"after"`
}

// Candidate is an active host of a service and the address there.
type Candidate struct {
	Host fleet.HostName `json:"host"`
	URL  string         `json:"url"`
}

// Serving is a service that the host starts or stops to serve, or serves elsewhere.
type Serving struct {
	Service fleet.ServiceName `json:"service"`
	Change  Change            `json:"change"`
	Before  string            `json:"before,omitempty"` // address
	After   string            `json:"after,omitempty"`
}

// Between compares two compiled documents.
func Between(before, after []byte) (Plan, error) {
	b, err := read(before)
	if err != nil {
		return Plan{}, err
	}
	a, err := read(after)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{
		Generation: Numbers{b.registry.Directory.Generation, a.registry.Directory.Generation},
		Limits:     limits(b.registry, a.registry),
		Authority:  fields(b.authority, a.authority),
		Settings:   fields(b.settings, a.settings),
		Services:   []Service{},
		Hosts:      []Host{},
	}
	for _, name := range union(b.services, a.services) {
		if f := fields(b.services[name], a.services[name]); len(f) > 0 {
			p.Services = append(p.Services, Service{Name: fleet.ServiceName(name), Change: presence(b.services, a.services, name), Fields: f})
		}
	}
	serves := servings(b.registry, a.registry)
	for _, name := range union(b.hosts, a.hosts) {
		h := host(fleet.HostName(name), b, a)
		h.Serves = append(h.Serves, serves[h.Name]...)
		h.Change = presence(b.hosts, a.hosts, name)
		if h.Change != Changed || len(h.Adapters)+len(h.Routes)+len(h.Serves)+len(h.Settings) > 0 {
			p.Hosts = append(p.Hosts, h)
		}
	}
	return p, nil
}

// limits measures what the judges of a change measure. That a fleet is emptied is for another rule.
func limits(before, after *fleet.Registry) []Limit {
	out := []Limit{}
	if len(after.Hosts) == 0 {
		return out
	}
	l := before.Policies.Limits()
	for kind, p := range map[LimitKind]fleet.Portion{
		RemovedHosts:    l.Removed(len(fleet.RemovedHosts(before, after)), len(before.Hosts)),
		ChangedServices: l.Changed(len(fleet.ChangedServices(before, after)), len(before.Directory.Services)),
	} {
		if p.Limited && p.Count > 0 {
			out = append(out, Limit{Kind: kind, Count: p.Count, Of: p.Of, MaxPercent: p.MaxPercent, Exceeded: p.Exceeds()})
		}
	}
	slices.SortFunc(out, func(a, b Limit) int { return -cmp.Compare(a.Kind, b.Kind) }) // hosts first
	return out
}

// Empty reports whether the two documents are the same registry.
func (p Plan) Empty() bool {
	return p.Generation.Before == p.Generation.After && len(p.Authority)+len(p.Settings)+len(p.Services)+len(p.Hosts) == 0
}

// For is the part of the plan that concerns one host: its own section, and the authority that it follows.
func (p Plan) For(name fleet.HostName) Plan {
	p.Limits, p.Settings, p.Services = []Limit{}, []Field{}, []Service{}
	p.Hosts = slices.DeleteFunc(slices.Clone(p.Hosts), func(h Host) bool { return h.Name != name })
	return p
}

type object = map[string]any

// document is a registry, as a model and in the parts that are compared field by field, whatever fields they have.
type document struct {
	registry            *fleet.Registry
	authority, settings object
	services, hosts     map[string]object
}

func read(raw []byte) (document, error) {
	registry, err := fleet.Decode(raw)
	if err != nil {
		return document{}, err
	}
	var root object
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		return document{}, fmt.Errorf("cannot read the compiled registry document: %w", err)
	}
	directory := take(root, "service_directory")
	out := document{registry: registry, authority: take(directory, "authority"), services: entries(directory, "services"), hosts: entries(root, "hosts")}
	delete(directory, "generation")
	out.settings = root
	if len(directory) > 0 {
		root["service_directory"] = directory
	}
	return out, nil
}

// take removes an object from its parent; what is not there is an empty one.
func take(parent object, label string) object {
	out, ok := parent[label].(object)
	if !ok {
		return object{}
	}
	delete(parent, label)
	return out
}

func entries(parent object, label string) map[string]object {
	out := map[string]object{}
	for name, v := range take(parent, label) {
		out[name], _ = v.(object) // the schema has made sure
	}
	return out
}

func presence[V any](before, after map[string]V, name string) Change {
	if _, was := before[name]; !was {
		return Added
	}
	if _, is := after[name]; !is {
		return Removed
	}
	return Changed
}

func union[K cmp.Ordered, V any](a, b map[K]V) []K {
	all := make(map[K]V, len(a))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// fields lists what differs between two objects: objects in both are compared field by field, all other values as a whole.
func fields(before, after object) []Field {
	out := []Field{}
	differ(&out, nil, before, after)
	return out
}

func differ(out *[]Field, path []string, before, after object) {
	for _, label := range union(before, after) {
		b, was := before[label]
		a, is := after[label]
		at := append(slices.Clone(path), label)
		inB, bothB := b.(object)
		inA, bothA := a.(object)
		switch {
		case bothB && bothA:
			differ(out, at, inB, inA)
		case was != is || !reflect.DeepEqual(b, a):
			*out = append(*out, Field{Field: fleet.FieldPath(at...), Before: raw(b, was), After: raw(a, is)})
		}
	}
}

func raw(v any, there bool) json.RawMessage {
	if !there {
		return nil
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // made of what JSON was decoded to
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}
