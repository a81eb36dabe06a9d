package policies

import (
	"reflect"
	"slices"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// After judges registries that follow on one which [Check] has nothing to say of. It is a value, safe for concurrent use; the zero one
// accepts nothing.
type After struct{ known bool }

// NewAfter reads the table of retired fields.
func NewAfter() After {
	table, err := Retired()
	return After{err == nil && !slices.ContainsFunc(table, func(f RetiredField) bool { return f.Deprecated })}
}

// Clean reports whether [Check] has nothing to say of next. It holds only where Check has nothing to say of previous, and where the
// two differ in the named hosts and the generation alone. It may only accept: when in doubt the answer is false, and Check has to be asked.
func (a After) Clean(previous, next *fleet.Registry, hosts []fleet.HostName) bool {
	if !a.known {
		return false
	}
	k := checker{registry: next, at: func(string) schema.Position { return schema.Position{} }}
	for _, name := range hosts {
		before, known := previous.Hosts[name]
		h, there := next.Hosts[name]
		if !known || !there || h.Presence != nil || seenByOthers(before, h) {
			return false
		}
		k.host(name, h)
	}
	return len(k.findings) == 0
}

// seenByOthers reports whether two hosts differ in what Check reads of a host besides its own judgement: how it is named and reached, and
// its relay switch.
func seenByOthers(a, b fleet.Host) bool {
	return a.SSH != b.SSH || !slices.Equal(a.Hostnames, b.Hostnames) || !reflect.DeepEqual(a.Relay, b.Relay)
}
