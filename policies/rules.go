package policies

import (
	"cmp"
	"slices"

	"stado.internal/stado/schema"
)

// Rule is one thing that a judge refuses, under an id that never changes its meaning.
type Rule = schema.Rule

// The rules of this package. [Rules] explains them.
const (
	RuleReused       = "STADO-GEN-001"
	RuleRollback     = "STADO-GEN-002"
	RuleLeap         = "STADO-GEN-003"
	RuleEmptyFleet   = "STADO-FLEET-001"
	RuleIdentity     = "STADO-IDENT-001"
	RuleUnknownHost  = "STADO-REF-001"
	RuleNoEndpoint   = "STADO-REF-002"
	RuleNoService    = "STADO-REF-003"
	RuleNoConsumer   = "STADO-REF-004"
	RuleAuthority    = "STADO-REF-005"
	RuleAuthoritySSH = "STADO-REF-006"
	RuleActiveTwice  = "STADO-REF-007"
	RuleBindClash    = schema.RuleBindClash
	RuleBindExposed  = "STADO-BIND-002"
	RuleBindAddress  = "STADO-BIND-003"
	RuleDestination  = "STADO-ADDR-001"
	RuleEndpoint     = "STADO-ADDR-002"
	RuleProtocol     = "STADO-ADDR-003"
	RuleMaxStale     = "STADO-TIME-001"
)

// Rules are all rules, those of the schema included, in the order of their ids; the list is the caller's own.
func Rules() []Rule {
	rules := append(slices.Concat(schema.Rules(), changeRules(), ownRules(), scopeRules()), []Rule{
		{ID: RuleReused, Title: "generation reused", Explanation: "A changed registry has a higher generation. Two pull requests that both write the next number merge without a conflict; hosts refuse the second content under that number."},
		{ID: RuleRollback, Title: "generation rolled back", Explanation: "The generation never falls: a host that held the higher number would have to forget what it has admitted."},
		{ID: RuleLeap, Title: "generation leap", Explanation: "One change raises the generation by at most 1,000,000, so that a bad commit cannot use up the number space."},
		{ID: RuleEmptyFleet, Title: "empty fleet", Explanation: "A change that removes the last host is a mistake until somebody says it is meant."},
		{ID: RuleIdentity, Title: "identity of two hosts", Explanation: "A host is found by its name, its host names and the host part of its SSH destination; none of them belongs to two hosts."},
		{ID: RuleUnknownHost, Title: "unknown host", Explanation: "A service, a cluster or a slot names hosts that the registry declares."},
		{ID: RuleNoEndpoint, Title: "active host without endpoint", Explanation: "A host that serves now has an endpoint, the address of the service as seen on it."},
		{ID: RuleNoService, Title: "unknown service", Explanation: "An adapter leads to a service that the registry declares."},
		{ID: RuleNoConsumer, Title: "undeclared consumer", Explanation: "An adapter is for a consumer that its service declares."},
		{ID: RuleAuthority, Title: "unknown authority host", Explanation: "The authority is a host that the registry declares, or a remote."},
		{ID: RuleAuthoritySSH, Title: "authority host without SSH", Explanation: "The other hosts read the registry from the authority over SSH."},
		{ID: RuleActiveTwice, Title: "active host named twice", Explanation: "active_hosts is an order of preference; a host stands in it once."},
		{ID: RuleBindExposed, Title: "exposed bind", Explanation: "A listener is for programs of its own host, loopback or a unix socket, unless the adapter says expose: true. The resolver API has no such choice."},
		{ID: RuleBindAddress, Title: "bad bind", Explanation: "A listener address is an IP literal or localhost with a port, or unix:// with an absolute path."},
		{ID: RuleDestination, Title: "bad SSH destination", Explanation: "A destination is user@host, user@[ipv6] or, off port 22, user@[host]:port."},
		{ID: RuleEndpoint, Title: "bad endpoint", Explanation: "An endpoint is an address as seen on its own host: http, https or tcp with an IP literal or localhost and a port, or unix with an absolute path."},
		{ID: RuleProtocol, Title: "tcp endpoint with protocol http", Explanation: "Refusals of an http adapter are HTTP answers, which the client of a tcp:// endpoint cannot read."},
		{ID: RuleMaxStale, Title: "stale before refreshed", Explanation: "max_stale_seconds is at least refresh_seconds, or every snapshot would be reported stale between two refreshes."},
	}...)
	rules = append(rules, nounRules()...)
	slices.SortFunc(rules, func(a, b Rule) int { return cmp.Compare(a.ID, b.ID) })
	return rules
}
