package resolver

import (
	"time"

	"stado.internal/stado/agent/resolver/adapter"
	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/agent/status"
)

// Fill writes what the resolver knows into the document: its listeners and candidates, whether it holds every address it should, and why
// it holds none. An adapter that ran out of descriptors with nothing to shed makes the state failed.
func (r *Resolver) Fill(doc *status.Resolver) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	doc.API, doc.Adapters, doc.Candidates = nil, []status.Listener{}, []status.Candidate{}
	doc.Listening = r.running && len(r.slots) > 0
	if r.api != nil {
		l := r.api.listener(r.running)
		doc.API = &l
		doc.Listening = r.running && l.Listening
	}
	if r.problem != "" && doc.Reason == "" {
		doc.Reason = r.problem
	}
	table := r.current.Load()
	for _, s := range r.slots {
		l := status.Listener{
			Service: s.key.Service, Consumer: s.key.Consumer, Bind: s.key.Bind, Listening: r.running && s.adapter != nil, Problem: s.problem,
		}
		doc.Adapters = append(doc.Adapters, l)
		doc.Listening = doc.Listening && l.Listening
		if s.failed {
			doc.State, doc.Reason = status.StateFailed, s.problem
		}
		if way, ok := table.Lookup(s.key); ok {
			doc.Candidates = append(doc.Candidates, r.candidates(s.adapter, way, now)...)
		}
	}
}

func (a *apiSlot) listener(running bool) status.Listener {
	l := status.Listener{Listening: running && a.server != nil, Problem: a.problem}
	if a.bind != nil {
		l.Bind = a.bind.Address
		if a.bind.Network == "unix" {
			l.Bind = "unix://" + a.bind.Address
		}
	}
	return l
}

// candidates judges the hosts of one route as a new connection would find them.
func (r *Resolver) candidates(a *adapter.Adapter, way *route.Route, now time.Time) []status.Candidate {
	out := make([]status.Candidate, 0, len(way.Candidates))
	for i := range way.Candidates {
		c := &way.Candidates[i]
		reason := c.Refusal
		if reason == "" && !c.Local && r.opt.DialHost == nil {
			reason = adapter.SayNoSessions(way.Service, c.Host)
		}
		if reason == "" && a != nil {
			if reason = a.Held(c, now); reason == "" {
				reason = a.Fault(c.Address)
			}
		}
		out = append(out, status.Candidate{
			Service: way.Service, Consumer: way.Consumer, Host: c.Host, Endpoint: c.Address, Eligible: reason == "", Reason: reason,
		})
	}
	return out
}
