package status

import "stado.internal/stado/fleet"

// blockers lists, in the order of the operator documentation, every reason why the resolver is not ready.
func blockers(in Inputs, r *Report) []string {
	var out []string
	switch {
	case in.StateErr != nil:
		return append(out, sayStateUnreadable(in.StateErr))
	case in.State == nil:
		return append(out, sayNothingPublished(in.StatePath))
	}
	s := in.State
	if in.Stopped {
		out = append(out, sayStopped(s))
	}
	if s.State != StateServing {
		out = append(out, sayState(s, in.Now))
	}
	if s.State == StateServing && s.API == nil {
		out = append(out, sayNoListener(s))
	}
	out = append(out, listenerBlockers(r)...)
	if s.Authority.Reachable != nil && !*s.Authority.Reachable {
		out = append(out, sayUnreachable(s.Authority))
	}
	if r.Generation != nil && *r.Generation < s.Authority.Generation {
		out = append(out, sayBehind(*r.Generation, s.Authority.Generation))
	}
	if r.GenerationAgeSeconds != nil && s.MaxStaleSeconds > 0 && *r.GenerationAgeSeconds > int64(s.MaxStaleSeconds) {
		out = append(out, sayStale(*r.GenerationAgeSeconds, s.MaxStaleSeconds))
	}
	for _, f := range s.Refusals {
		out = append(out, sayRefusal(f))
	}
	return append(append(out, routeBlockers(in)...), waitBlockers(in)...)
}

// routeBlockers names the routes that can only refuse. A route that refuses because of a held wait has that wait's own blocker.
func routeBlockers(in Inputs) []string {
	type route struct {
		service  fleet.ServiceName
		consumer fleet.ConsumerName
	}
	usable := map[route]bool{}
	for _, w := range in.Waiting {
		usable[route{w.Service, w.Consumer}] = true
	}
	for _, c := range in.State.Candidates {
		if c.Eligible {
			usable[route{c.Service, c.Consumer}] = true
		}
	}
	var out []string
	for _, c := range in.State.Candidates {
		if r := (route{c.Service, c.Consumer}); !usable[r] {
			usable[r] = true // one sentence a route
			out = append(out, sayRouteRefuses(c))
		}
	}
	return out
}

func listenerBlockers(r *Report) []string {
	var out []string
	if a := r.API; a != nil && silent(*a) {
		out = append(out, withProblem(sayAPISilent(a.Bind), a.Problem))
	}
	for _, l := range r.Adapters {
		if silent(l) {
			out = append(out, withProblem(sayAdapterSilent(l), l.Problem))
		}
	}
	return out
}

// silent is also true for a listener that somebody else answers on: the problem says that this resolver could not bind it.
func silent(l ProbedListener) bool {
	return l.Problem != "" || (l.Listening != nil && !*l.Listening)
}

func withProblem(sentence, problem string) string {
	if problem != "" {
		return problem
	}
	return sentence
}

func waitBlockers(in Inputs) []string {
	if in.WaitingErr != nil {
		return []string{in.WaitingErr.Error()}
	}
	if in.State == nil || in.State.RefreshSeconds <= 0 {
		return nil
	}
	var out []string
	interval := in.State.refresh()
	for _, w := range in.Waiting {
		if in.Now.Sub(w.Since) <= interval || w.UnprovenSince != nil {
			continue // the latter is listed, and stands in nobody's way
		}
		out = append(out, SayWait(w, in.Now))
	}
	return out
}
