// Package doctor examines one registry for what is admitted and still most likely a mistake. A finding refuses nothing: hosts serve such
// a registry, and some of its connections end with a sentence. It is pure.
package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"stado.internal/stado/fleet"
)

// Kind names a sort of finding; the words are an interface.
type Kind string

// The kinds.
const (
	// SelfReferencingEndpoint is an endpoint that is a listener of its own host's resolver.
	SelfReferencingEndpoint Kind = "self-referencing-endpoint"
	// HostWithoutPath is a host that routes of other hosts lead to, and that names no SSH destination.
	HostWithoutPath Kind = "host-without-path"
	// UnreachableRoute is an adapter whose service is active on other hosts only, none of which has a path.
	UnreachableRoute Kind = "unreachable-route"
	// ConsumerWithoutAdapter is a declared consumer for which no host has an adapter.
	ConsumerWithoutAdapter Kind = "consumer-without-adapter"
	// UnusedEndpoint is an endpoint of a service that no adapter of the fleet leads to.
	UnusedEndpoint Kind = "unused-endpoint"
	// DriftedSchema is a file of the vendored schema that is not the one of this version. [Examine] never finds it: the schema is not
	// part of the document.
	DriftedSchema Kind = "drifted-schema"
	// RefusedSignature is a newest commit that hosts will not admit by its signature. [Examine] never finds it either.
	RefusedSignature Kind = "refused-signature"
)

// Finding is one thing to look at.
type Finding struct {
	Kind    Kind   `json:"kind"`
	Subject string `json:"subject"` // field path, or file
	Detail  string `json:"detail"`
	Hint    string `json:"hint"` // what to do
	// File, Line and Column say where the registry gives the subject, for whoever knows; [Examine] sees no files.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// Examine lists the findings by kind and subject.
func Examine(r *fleet.Registry) []Finding {
	e := examiner{registry: r, used: map[fleet.ServiceName]map[fleet.ConsumerName]bool{}}
	for _, name := range r.HostNames() {
		e.adapters(name)
	}
	e.hosts()
	e.services()
	slices.SortStableFunc(e.findings, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject)) })
	return e.findings
}

type examiner struct {
	registry *fleet.Registry
	used     map[fleet.ServiceName]map[fleet.ConsumerName]bool // that some adapter is for
	// remote are, by host without a path, the adapters of other hosts that lead there.
	remote   map[fleet.HostName][]adapter
	findings []Finding
}

// adapter is an adapter with its host.
type adapter struct {
	host fleet.HostName
	fleet.Adapter
}

func (e *examiner) find(kind Kind, subject, detail, hint string) {
	e.findings = append(e.findings, Finding{Kind: kind, Subject: subject, Detail: detail, Hint: hint})
}

// reachable reports whether the registry names a path to the host.
func (e *examiner) reachable(name fleet.HostName) bool {
	h := e.registry.Hosts[name]
	return h.SSH != "" || len(h.SSHFallbacks) > 0
}

// adapters looks where the adapters of one host lead, and notes what they use.
func (e *examiner) adapters(name fleet.HostName) {
	resolver := e.registry.Hosts[name].Resolver
	if resolver == nil {
		return
	}
	for i, a := range resolver.Adapters {
		if e.used[a.Service] == nil {
			e.used[a.Service] = map[fleet.ConsumerName]bool{}
		}
		e.used[a.Service][a.Consumer] = true
		active := e.registry.Directory.Services[a.Service].ActiveHosts
		blocked := 0
		for _, to := range active {
			if to == name || e.reachable(to) {
				continue
			}
			blocked++
			if e.remote == nil {
				e.remote = map[fleet.HostName][]adapter{}
			}
			e.remote[to] = append(e.remote[to], adapter{name, a})
		}
		if blocked > 0 && blocked == len(active) {
			subject := fleet.FieldPath("hosts", string(name), "service_resolver", "adapters", strconv.Itoa(i))
			e.find(UnreachableRoute, subject, sayUnreachable(subject, a, active), hintUnreachable(active))
		}
	}
}

func (e *examiner) hosts() {
	for _, name := range slices.Sorted(maps.Keys(e.remote)) {
		e.find(HostWithoutPath, fleet.FieldPath("hosts", string(name)), sayNoPath(name, e.remote[name]), hintNoPath(name))
	}
}

func (e *examiner) services() {
	listeners := map[fleet.HostName]fleet.Listeners{}
	for _, name := range e.registry.ServiceNames() {
		s := e.registry.Directory.Services[name]
		for _, host := range slices.Sorted(maps.Keys(s.Endpoints)) {
			if _, known := listeners[host]; !known {
				listeners[host] = e.registry.Listeners(host)
			}
			e.endpoint(name, host, s.Endpoints[host].URL, listeners[host])
		}
		for _, consumer := range slices.Sorted(maps.Keys(s.Consumers)) {
			if !e.used[name][consumer] {
				subject := fleet.FieldPath("service_directory", "services", string(name), "consumers", string(consumer))
				e.find(ConsumerWithoutAdapter, subject, sayNoAdapter(name, consumer), hintNoAdapter(name, consumer))
			}
		}
	}
}

func (e *examiner) endpoint(service fleet.ServiceName, host fleet.HostName, url string, listeners fleet.Listeners) {
	subject := fleet.FieldPath("service_directory", "services", string(service), "endpoints", string(host))
	if endpoint, err := fleet.ParseEndpoint(url); err == nil {
		if own, loops := listeners.Reached(endpoint); loops {
			e.find(SelfReferencingEndpoint, subject, saySelfReference(subject, url, own), hintSelfReference)
		}
	}
	if e.used[service] == nil {
		e.find(UnusedEndpoint, subject, sayUnused(subject, service), hintUnused(service))
	}
}
