package plan

import (
	"cmp"
	"maps"
	"slices"

	"stado.internal/stado/fleet"
)

const resolverLabel = "service_resolver"

// host compares what one host does under two documents.
func host(name fleet.HostName, before, after document) Host {
	h := Host{
		Name: name, Adapters: []Adapter{}, Routes: []Route{}, Serves: []Serving{},
		Settings: fields(plainHost(before.hosts[string(name)]), plainHost(after.hosts[string(name)])),
	}
	pairs := pair(adaptersOf(before.registry, name), adaptersOf(after.registry, name))
	for _, p := range pairs {
		switch {
		case p.after == nil:
			h.Adapters = append(h.Adapters, Adapter{Key: keyOf(*p.before), Change: Unbound, LeadsTo: candidates(before.registry, *p.before)})
		case p.before == nil:
			h.Adapters = append(h.Adapters, Adapter{Key: keyOf(*p.after), Change: Bound, LeadsTo: candidates(after.registry, *p.after)})
		default:
			if f := fields(declared(*p.before), declared(*p.after)); len(f) > 0 {
				h.Adapters = append(h.Adapters, Adapter{Key: keyOf(*p.after), Change: Changed, Fields: f})
			}
			if r, changes := reroute(p, before.registry, after.registry); changes {
				h.Routes = append(h.Routes, r)
			}
		}
	}
	return h
}

// plainHost is a host without its adapters, which are compared by what they mean.
func plainHost(h object) object {
	out := object{}
	maps.Copy(out, h)
	resolver := object{}
	if declared, ok := h[resolverLabel].(object); ok {
		maps.Copy(resolver, declared)
		delete(resolver, "adapters")
	}
	out[resolverLabel] = resolver // always there, so that a new resolver is told field by field
	return out
}

func adaptersOf(r *fleet.Registry, name fleet.HostName) []fleet.Adapter {
	if resolver := r.Hosts[name].Resolver; resolver != nil {
		return resolver.Adapters
	}
	return nil
}

func keyOf(a fleet.Adapter) Key { return Key{a.Service, a.Consumer, a.Bind} }

func compareAdapters(a, b fleet.Adapter) int {
	return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Bind, b.Bind))
}

// adapterPair is an adapter before and after; one of them is nil when it is bound or unbound.
type adapterPair struct{ before, after *fleet.Adapter }

// pair matches adapters: those with one key first, then what is left of one service and consumer when it is one on either side, which
// then has another bind.
func pair(before, after []fleet.Adapter) []adapterPair {
	before, after = slices.SortedFunc(slices.Values(before), compareAdapters), slices.SortedFunc(slices.Values(after), compareAdapters)
	var out []adapterPair
	match := func(same func(a, b fleet.Adapter) bool) {
		before = slices.DeleteFunc(before, func(b fleet.Adapter) bool {
			i := slices.IndexFunc(after, func(a fleet.Adapter) bool { return same(b, a) })
			if i < 0 {
				return false
			}
			a := after[i]
			out = append(out, adapterPair{&b, &a})
			after = slices.Delete(after, i, i+1)
			return true
		})
	}
	match(func(b, a fleet.Adapter) bool { return keyOf(b) == keyOf(a) })
	leftBefore, leftAfter := countPairs(before), countPairs(after)
	match(func(b, a fleet.Adapter) bool {
		k := keyOf(b)
		k.Bind = ""
		return b.Service == a.Service && b.Consumer == a.Consumer && leftBefore[k] == 1 && leftAfter[k] == 1
	})
	for _, b := range before {
		out = append(out, adapterPair{before: &b})
	}
	for _, a := range after {
		out = append(out, adapterPair{after: &a})
	}
	slices.SortStableFunc(out, func(a, b adapterPair) int { return compareAdapters(a.newest(), b.newest()) })
	return out
}

func (p adapterPair) newest() fleet.Adapter {
	if p.after != nil {
		return *p.after
	}
	return *p.before
}

// countPairs counts adapters by service and consumer.
func countPairs(adapters []fleet.Adapter) map[Key]int {
	out := map[Key]int{}
	for _, a := range adapters {
		out[Key{Service: a.Service, Consumer: a.Consumer}]++
	}
	return out
}

// declared is what an adapter says of its listener.
func declared(a fleet.Adapter) object {
	out := object{"bind": a.Bind}
	if a.Protocol != "" {
		out["protocol"] = string(a.Protocol)
	}
	if a.Expose {
		out["expose"] = true
	}
	if a.Mode != "" {
		out["mode"] = a.Mode
	}
	return out
}

// candidates are where an adapter leads: the active hosts of its service in order of preference.
func candidates(r *fleet.Registry, a fleet.Adapter) []Candidate {
	service := r.Directory.Services[a.Service]
	out := []Candidate{}
	for _, h := range service.ActiveHosts {
		out = append(out, Candidate{Host: h, URL: service.Endpoints[h].URL})
	}
	return out
}

// reroute compares where an adapter that stays leads, and on which terms.
func reroute(p adapterPair, before, after *fleet.Registry) (Route, bool) {
	r := Route{Key: keyOf(*p.after), Fields: fields(terms(before, *p.before), terms(after, *p.after))}
	was, is := candidates(before, *p.before), candidates(after, *p.after)
	if !slices.Equal(was, is) {
		r.LeadsTo = &Leads{Before: was, After: is}
	}
	return r, r.LeadsTo != nil || len(r.Fields) > 0
}

func terms(r *fleet.Registry, a fleet.Adapter) object {
	out := object{"protocol": string(r.AdapterProtocol(a))}
	if c := r.Directory.Services[a.Service].Consumers[a.Consumer].Capabilities; len(c) > 0 {
		list := make([]any, len(c))
		for i, word := range c {
			list[i] = word
		}
		out["capabilities"] = list
	}
	return out
}

// servings lists, by host, the services that are active there under one document only, or at another address.
func servings(before, after *fleet.Registry) map[fleet.HostName][]Serving {
	out := map[fleet.HostName][]Serving{}
	for _, name := range union(before.Directory.Services, after.Directory.Services) {
		was, is := before.Directory.Services[name], after.Directory.Services[name]
		for _, h := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(was.ActiveHosts, is.ActiveHosts)))) {
			s := Serving{Service: name, Change: Changed, Before: address(was, h), After: address(is, h)}
			switch {
			case s.Before == s.After:
				continue
			case s.Before == "":
				s.Change = Starts
			case s.After == "":
				s.Change = Stops
			}
			out[h] = append(out[h], s)
		}
	}
	return out
}

// address is where a service is served on a host; empty when it is not active there.
func address(s fleet.Service, name fleet.HostName) string {
	if !slices.Contains(s.ActiveHosts, name) {
		return ""
	}
	return s.Endpoints[name].URL
}
