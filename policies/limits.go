package policies

import (
	"reflect"
	"slices"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// limits refuses a change that does too much of one kind at once, measured by what stood before it and by the limits that stood then.
func (j *judge) limits() {
	if j.next.AllowEmptyFleet && len(j.next.Registry.Hosts) == 0 {
		return // somebody said that all of it is meant to go, services included: none has a host left
	}
	limits := j.previous.Registry.Policies.Limits()
	if gone := removedHosts(j.previous.Registry, j.next.Registry); exceeds(len(gone), len(j.previous.Registry.Hosts), limits.MaxRemovedHostsPct, limits.MinSet) {
		j.refuse(RuleRemovedHosts, j.removed("hosts"), "hosts",
			sayRemovedHosts(gone, len(j.previous.Registry.Hosts), limits.MaxRemovedHostsPct), hintLimit("max_removed_hosts_pct"))
	}
	if other := changedServices(j.previous.Registry, j.next.Registry); exceeds(len(other), len(j.previous.Registry.Directory.Services), limits.MaxChangedServicesPct, limits.MinSet) {
		j.refuse(RuleChangedServices, j.changedService(other), servicesPath,
			sayChangedServices(other, len(j.previous.Registry.Directory.Services), limits.MaxChangedServicesPct), hintLimit("max_changed_services_pct"))
	}
}

// exceeds reports whether n of a set are more than so many percent of it. A set smaller than least has no limit.
func exceeds(n, set, percent, least int) bool {
	return set >= least && n*100 > percent*set
}

func removedHosts(previous, next *fleet.Registry) []fleet.HostName {
	return slices.DeleteFunc(previous.HostNames(), func(name fleet.HostName) bool {
		_, stays := next.Hosts[name]
		return stays
	})
}

// changedServices are those of the previous revision that the next one changes or does without; new ones disturb nobody.
func changedServices(previous, next *fleet.Registry) []fleet.ServiceName {
	return slices.DeleteFunc(previous.ServiceNames(), func(name fleet.ServiceName) bool {
		after, stays := next.Directory.Services[name]
		return stays && reflect.DeepEqual(previous.Directory.Services[name], after)
	})
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
