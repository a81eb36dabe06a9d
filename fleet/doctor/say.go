package doctor

import (
	"fmt"
	"strings"

	"stado.internal/stado/fleet"
)

func saySelfReference(subject, url string, own fleet.Listener) string {
	what := "adapter for " + string(own.Service)
	if own.API {
		what = "the resolver's own API"
	}
	return fmt.Sprintf("%s is %s, which is %s on that same target: the adapter would proxy to itself", subject, url, what)
}

const hintSelfReference = "give the address that the service itself listens on, not the stable one for its clients"

func sayNoPath(name fleet.HostName, from []adapter) string {
	first := fmt.Sprintf("the adapter for %s on %s leads there", from[0].Service, from[0].host)
	if more := len(from) - 1; more > 0 {
		first = fmt.Sprintf("%d adapters of other hosts lead there, the one for %s on %s among them", more+1, from[0].Service, from[0].host)
	}
	return fmt.Sprintf("host %s names no SSH destination, and %s", name, first)
}

func hintNoPath(name fleet.HostName) string {
	return fmt.Sprintf("add ssh: \"user@host\" to %s", fleet.FieldPath("hosts", string(name)))
}

func sayUnreachable(subject string, a fleet.Adapter, active []fleet.HostName) string {
	return fmt.Sprintf("%s, for %s and consumer %s, leads to no host that can be reached: the service is active on %s only, without an SSH destination",
		subject, a.Service, a.Consumer, list(active))
}

func hintUnreachable(active []fleet.HostName) string {
	return fmt.Sprintf("add ssh to %s, or make the service active on a host that has it", fleet.FieldPath("hosts", string(active[0])))
}

func sayNoAdapter(service fleet.ServiceName, consumer fleet.ConsumerName) string {
	return fmt.Sprintf("service %s declares consumer %s, and no host has an adapter for it", service, consumer)
}

func hintNoAdapter(service fleet.ServiceName, consumer fleet.ConsumerName) string {
	return fmt.Sprintf("add an adapter {service: %q, consumer: %q} to the host where the consumer runs, or take the consumer out of the service", service, consumer)
}

func sayUnused(subject string, service fleet.ServiceName) string {
	return fmt.Sprintf("%s is never used: no adapter of the fleet leads to service %s", subject, service)
}

func hintUnused(service fleet.ServiceName) string {
	return fmt.Sprintf("add an adapter for %s, or remove the service", service)
}

func list(hosts []fleet.HostName) string {
	words := make([]string, len(hosts))
	for i, h := range hosts {
		words[i] = string(h)
	}
	return strings.Join(words, ", ")
}
