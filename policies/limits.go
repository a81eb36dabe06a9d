package policies

import (
	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// limits refuses a change that does too much of one kind at once, measured by what stood before it and by the limits that stood then.
func (j *judge) limits() {
	if j.next.AllowEmptyFleet && len(j.next.Registry.Hosts) == 0 {
		return // somebody said that all of it is meant to go, services included: none has a host left
	}
	before, limits := j.previous.Registry, j.previous.Registry.Policies.Limits()
	gone := fleet.RemovedHosts(before, j.next.Registry)
	if p := limits.Removed(len(gone), len(before.Hosts)); p.Exceeds() {
		j.refuse(RuleRemovedHosts, j.removed("hosts"), "hosts", sayRemovedHosts(gone, p), hintLimit("max_removed_hosts_pct"))
	}
	other := fleet.ChangedServices(before, j.next.Registry)
	if p := limits.Changed(len(other), len(before.Directory.Services)); p.Exceeds() {
		j.refuse(RuleChangedServices, j.changedService(other), servicesPath, sayChangedServices(other, p), hintLimit("max_changed_services_pct"))
	}
}

// changedService is the place of the first changed service that still has one.
func (j *judge) changedService(names []fleet.ServiceName) schema.Position {
	for _, name := range names {
		if at, known := j.next.Positions[servicePath(name)]; known {
			return at
		}
	}
	return j.removed(servicesPath)
}
