package policies

import (
	"fmt"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// The sentences of this package: what is refused, and what to do.

func sayRollback(offered, held fleet.Generation) string {
	return fmt.Sprintf("service directory rollback rejected: generation %d < %d", offered, held)
}

func hintRollback(held fleet.Generation) string {
	return "the branch is older than what is held; to publish this content on purpose, " + hintRaise(held)
}

func sayReused(generation fleet.Generation, held, offered string) string {
	return fmt.Sprintf("generation %d is reused with another content: document %s is held, %s is offered", generation, short(held), short(offered))
}

// Upstream stands in hints for the revision that a change starts from. Whoever knows better puts that in its place.
const Upstream = "origin/main"

func hintRaise(held fleet.Generation) string {
	return fmt.Sprintf("run stado bump --onto %s, which raises service_directory.generation in generation.cue to %d or above", Upstream, held+1)
}

func sayLeap(offered, held fleet.Generation) string {
	return fmt.Sprintf("generation leap refused: from %d to %d is more than %d", held, offered, fleet.MaxLeap)
}

func hintLeap(held fleet.Generation) string {
	return fmt.Sprintf("write service_directory.generation: %d in generation.cue", held+1)
}

func sayEmptyFleet(held []fleet.HostName) string {
	return fmt.Sprintf("empty fleet refused: the held registry has hosts (%s), this one has none", some(held))
}

const hintEmptyFleet = "restore the files below hosts/; if the fleet is really to be empty, say so in the commit with the trailer Stado-Allow: empty-fleet"

// short is the start of a digest, enough to compare by eye.
func short(digest string) string {
	const enough = 12
	if len(digest) > enough {
		return digest[:enough]
	}
	if digest == "" {
		return "(unknown)"
	}
	return digest
}

func sayUnknownHost(host fleet.HostName) string {
	return fmt.Sprintf("host %s is not declared in the registry", host)
}

func hintUnknownHost(host fleet.HostName) string {
	return fmt.Sprintf("add hosts/%s.cue, or name a host that is declared", host)
}

func sayNoEndpoint(service fleet.ServiceName, host fleet.HostName) string {
	return fmt.Sprintf("service %s is active on host %s, for which it declares no endpoint", service, host)
}

func hintNoEndpoint(host fleet.HostName) string {
	return fmt.Sprintf("add endpoints: %s: url: … to the service, or take the host out of active_hosts", host)
}

func sayActiveTwice(service fleet.ServiceName, host fleet.HostName) string {
	return fmt.Sprintf("service %s names host %s twice in active_hosts", service, host)
}

func sayNoService(service fleet.ServiceName) string {
	return fmt.Sprintf("the adapter leads to service %s, which the registry does not declare", service)
}

func hintNoService(service fleet.ServiceName) string {
	return fmt.Sprintf("add services/%s.cue, or name a service that is declared", service)
}

func sayNoConsumer(service fleet.ServiceName, consumer fleet.ConsumerName, where string) string {
	return fmt.Sprintf("the adapter is for consumer %s, which service %s%s does not declare", consumer, service, where)
}

func hintNoConsumer(consumer fleet.ConsumerName) string {
	return fmt.Sprintf("add consumers: %s: {} to the service, or name a consumer that it declares", consumer)
}

func sayAuthority(host fleet.HostName) string {
	return fmt.Sprintf("the authority is host %s, which the registry does not declare", host)
}

func sayAuthoritySSH(host fleet.HostName) string {
	return fmt.Sprintf("the authority is host %s, which has no SSH destination", host)
}

func hintAuthoritySSH(host fleet.HostName) string {
	return fmt.Sprintf("set ssh of host %s: the other hosts read the registry over it", host)
}

func sayIdentity(identity string, host, other fleet.HostName, where string) string {
	return fmt.Sprintf("host %s answers to %s, and so does host %s%s", host, identity, other, where)
}

const hintIdentity = "a name or address stands for one host: take it from one of them"

func sayBindClash(bind, other, otherBind, where string) string {
	if otherBind != bind {
		other += " on " + otherBind
	}
	return fmt.Sprintf("bind %s is already that of %s%s", bind, other, where)
}

const hintBindClash = "give one of them another bind"

func sayExposed(bind string) string {
	return fmt.Sprintf("bind %s can be reached from other machines", bind)
}

const (
	hintExposed    = "bind a loopback address or a unix socket, or say expose: true"
	hintExposedAPI = "the resolver API answers programs of this host only: bind a loopback address or a unix socket"
	hintActive     = "name it once"
)

func sayProtocolService(service fleet.ServiceName, url string) string {
	return fmt.Sprintf("service %s has protocol http and the endpoint %s", service, url)
}

func sayProtocolAdapter(service fleet.ServiceName, url, where string) string {
	return fmt.Sprintf("the adapter has protocol http, and its service %s the endpoint %s%s", service, url, where)
}

const (
	hintProtocolService = `say protocol: "tcp" in the service, or write the endpoint as http://…`
	hintProtocolAdapter = `say protocol: "tcp" in the adapter, or leave it out`
)

func sayMaxStale(stale, refresh int) string {
	return fmt.Sprintf("max_stale_seconds is %d, less than refresh_seconds, which is %d", stale, refresh)
}

const hintMaxStale = "raise max_stale_seconds"

// seeAlso is the position of the other side of a clash, for the end of a clause.
func seeAlso(at schema.Position) string {
	p := fleet.Finding{File: at.File, Line: at.Line, Column: at.Column}.Position()
	if p == "" {
		return ""
	}
	return " (" + p + ")"
}
