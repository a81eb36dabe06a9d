package fleet

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// RemovedHosts are the hosts of a registry that the next one does without, in lexical order.
func RemovedHosts(previous, next *Registry) []HostName {
	var gone []HostName
	for name := range previous.Hosts {
		if _, stays := next.Hosts[name]; !stays {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	return gone
}

// ChangedServices are the services of a registry that the next one alters or does without, in lexical order; new ones disturb nobody.
func ChangedServices(previous, next *Registry) []ServiceName {
	return slices.DeleteFunc(previous.ServiceNames(), func(name ServiceName) bool {
		after, stays := next.Directory.Services[name]
		return stays && reflect.DeepEqual(previous.Directory.Services[name], after)
	})
}

// Portion is the part of a set that a change touches, and the largest one that it may.
type Portion struct {
	Count, Of  int
	MaxPercent int
	// Limited: a set with fewer members than [ChangeLimits.MinSet] has no limit.
	Limited bool
}

// Removed is the portion of n out of so many hosts.
func (l ChangeLimits) Removed(n, hosts int) Portion {
	return Portion{n, hosts, l.MaxRemovedHostsPct, hosts >= l.MinSet}
}

// Changed is the portion of n out of so many services.
func (l ChangeLimits) Changed(n, services int) Portion {
	return Portion{n, services, l.MaxChangedServicesPct, services >= l.MinSet}
}

// Exceeds reports whether the portion is beyond its limit.
func (p Portion) Exceeds() bool { return p.Limited && p.Count*100 > p.MaxPercent*p.Of }

// Percent is the portion in percent, with at most two decimals: 33.33%. That of an empty set is 0%.
func (p Portion) Percent() string {
	if p.Of == 0 {
		return "0%"
	}
	s := strconv.FormatFloat(float64(p.Count)*100/float64(p.Of), 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "%"
}
