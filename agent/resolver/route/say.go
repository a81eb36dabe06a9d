package route

import (
	"fmt"

	"stado.internal/stado/fleet"
)

func saySelfLoop(service fleet.ServiceName, endpoint fleet.Endpoint, own fleet.Listener, host fleet.HostName) string {
	what := fmt.Sprintf("adapter %s for consumer %s (%s)", own.Service, own.Consumer, own.Declared)
	if own.API {
		what = fmt.Sprintf("the resolver API (%s)", own.Declared)
	}
	return fmt.Sprintf("service %s resolves to %s, which is %s of this resolver on %s: the service directory must carry the address the service listens on, "+
		"not the stable address published for its clients; relaying it would loop back into this process and no client would ever be answered",
		service, endpoint.URL, what, host)
}

func sayRefusedToConsumer(service fleet.ServiceName) string {
	return fmt.Sprintf("service %s leads to nothing that can serve it; `stado resolver status` on this machine says why", service)
}

func sayUnknownHost(host fleet.HostName, g fleet.Generation) error {
	return fmt.Errorf("host %q is not in the registry at generation %d, so it holds no adapter (declare it under hosts)", host, g)
}

func sayNoResolver(host fleet.HostName, g fleet.Generation) error {
	return fmt.Errorf("host %s declares no service_resolver at generation %d, so it holds no adapter (add hosts.%s.service_resolver)", host, g, host)
}

func sayBadAPIBind(host fleet.HostName, cause error) string {
	return fmt.Sprintf("the resolver API of %s has no address: %v", host, cause)
}

func sayBadBind(a fleet.Adapter, cause error) string {
	return fmt.Sprintf("nothing can listen for %s (consumer %s): %v", a.Service, a.Consumer, cause)
}

func sayNoActiveHost(service fleet.ServiceName) string {
	return fmt.Sprintf("service %s has no active host (name one in service_directory.services.%s.active_hosts)", service, service)
}

func sayNoEndpoint(service fleet.ServiceName, host fleet.HostName) string {
	return fmt.Sprintf("service %s is active on %s, but its endpoints name no address there (add service_directory.services.%s.endpoints.%s)", service, host, service, host)
}

func sayBadEndpoint(service fleet.ServiceName, host fleet.HostName, cause error) string {
	return fmt.Sprintf("service %s has no usable address on %s: %v", service, host, cause)
}
