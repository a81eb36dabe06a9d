// Package policies judges registries: one revision for itself (do its parts fit together?) and one revision after another (may it
// follow?). It holds the only table of retired fields and explains every rule.
//
// All judgements are pure: they read compiled registries and return findings.
package policies

import (
	"maps"
	"slices"
	"strconv"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// Check judges one revision: that every file gives what it owns, and, when the registry compiles, what hosts, services, consumers and binds say of each other, and what the schema cannot read in an
// address. An endpoint that is a listener of its host's own resolver is no finding here; the resolver refuses that route.
func Check(c schema.Compiled) fleet.Findings {
	table, err := Retired()
	if err != nil {
		panic(err) // the embedded table; every test would fail
	}
	return check(c, table)
}

func check(c schema.Compiled, retired []RetiredField) fleet.Findings {
	k := checker{registry: c.Registry, at: c.At}
	k.scope(c.Unowned)
	if c.Registry == nil {
		return schema.Limit(k.findings)
	}
	k.authority()
	k.trust()
	k.presence()
	k.edges()
	for _, name := range k.registry.ServiceNames() {
		k.service(name, k.registry.Directory.Services[name])
	}
	for _, name := range k.registry.HostNames() {
		k.host(name, k.registry.Hosts[name])
	}
	k.identities()
	k.deprecated(retired, c.Document)
	return schema.Limit(k.findings)
}

type checker struct {
	registry *fleet.Registry
	at       func(fieldPath string) schema.Position // of a field, or of the nearest enclosing one that is known
	findings fleet.Findings
}

func (k *checker) refuse(rule, fieldPath, message, hint string) {
	k.findings = append(k.findings, refuse(rule, k.at(fieldPath), fieldPath, message, hint))
}

func (k *checker) authority() {
	host := k.registry.Directory.Authority.Host
	if host == "" {
		return
	}
	p := schema.FieldPath("service_directory", "authority", "host")
	h, ok := k.registry.Hosts[host]
	switch {
	case !ok:
		k.refuse(RuleAuthority, p, sayAuthority(host), hintUnknownHost(host))
	case h.SSH == "":
		k.refuse(RuleAuthoritySSH, p, sayAuthoritySSH(host), hintAuthoritySSH(host))
	}
}

func servicePath(name fleet.ServiceName, labels ...string) string {
	return schema.FieldPath(append([]string{"service_directory", "services", string(name)}, labels...)...)
}

func hostPath(name fleet.HostName, labels ...string) string {
	return schema.FieldPath(append([]string{"hosts", string(name)}, labels...)...)
}

func (k *checker) service(name fleet.ServiceName, s fleet.Service) {
	for _, host := range slices.Sorted(maps.Keys(s.Endpoints)) {
		k.endpoint(name, s, host)
	}
	for i, host := range s.ActiveHosts {
		p := servicePath(name, "active_hosts", strconv.Itoa(i))
		_, declared := k.registry.Hosts[host]
		_, served := s.Endpoints[host]
		switch {
		case slices.Contains(s.ActiveHosts[:i], host):
			k.refuse(RuleActiveTwice, p, sayActiveTwice(name, host), hintActive)
		case !served:
			k.refuse(RuleNoEndpoint, p, sayNoEndpoint(name, host), hintNoEndpoint(host))
		case !declared:
			k.refuse(RuleUnknownHost, p, sayUnknownHost(host), hintUnknownHost(host))
		}
	}
}

func (k *checker) endpoint(name fleet.ServiceName, s fleet.Service, host fleet.HostName) {
	if _, declared := k.registry.Hosts[host]; !declared {
		k.refuse(RuleUnknownHost, servicePath(name, "endpoints", string(host)), sayUnknownHost(host), hintUnknownHost(host))
	}
	p := servicePath(name, "endpoints", string(host), "url")
	e, err := fleet.ParseEndpoint(s.Endpoints[host].URL)
	switch {
	case err != nil:
		k.refuse(RuleEndpoint, p, err.Error(), "")
	case e.Scheme == "tcp" && s.Protocol != fleet.ProtocolTCP:
		k.refuse(RuleProtocol, p, sayProtocolService(name, e.URL), hintProtocolService)
	}
}

func (k *checker) host(name fleet.HostName, h fleet.Host) {
	if h.SSH != "" {
		k.destination(hostPath(name, "ssh"), h.SSH)
	}
	for i, f := range h.SSHFallbacks {
		k.destination(hostPath(name, "ssh_fallbacks", strconv.Itoa(i), "destination"), f.Destination)
	}
	var listeners []listener
	if h.Resolver != nil {
		listeners = k.resolver(name, h.Resolver)
	}
	k.views(name, h, listeners)
	if h.Edge != nil {
		k.forwarder(name, h.Edge)
	}
	if h.Relay != nil {
		k.relay(name, h.Relay)
	}
}

func (k *checker) destination(fieldPath string, d fleet.Destination) {
	if _, err := d.Parse(); err != nil {
		k.refuse(RuleDestination, fieldPath, err.Error(), "")
	}
}

// identities refuses a name or address that stands for two hosts, at the host that comes second.
func (k *checker) identities() {
	owner := map[string]fleet.HostName{}
	for _, name := range k.registry.HostNames() {
		h := k.registry.Hosts[name]
		for _, id := range h.Identities(name) {
			first, taken := owner[id]
			if !taken {
				owner[id] = name
				continue
			}
			where := seeAlso(k.at(identityPath(first, k.registry.Hosts[first], id)))
			k.refuse(RuleIdentity, identityPath(name, h, id), sayIdentity(id, name, first, where), hintIdentity)
		}
	}
}

// identityPath is the field that gives a host one of its identities.
func identityPath(name fleet.HostName, h fleet.Host, id string) string {
	for i, n := range h.Hostnames {
		if fleet.NormalizeIdentity(n) == id {
			return hostPath(name, "hostnames", strconv.Itoa(i))
		}
	}
	if fleet.NormalizeIdentity(string(name)) == id {
		return hostPath(name)
	}
	return hostPath(name, "ssh")
}
