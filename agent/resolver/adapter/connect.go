package adapter

import (
	"context"
	"net"
	"strings"

	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/agent/resolver/wait"
	"stado.internal/stado/agent/status"
)

// connect finds a candidate that answers, each asked once and in order. When it returns false the client has had its refusal, or is gone.
func (r *relay) connect(ctx context.Context, way *route.Route, standing bool) bool {
	var refusals []string
	endpoint := ""
	for i := range way.Candidates {
		c := &way.Candidates[i]
		if endpoint == "" {
			endpoint = c.Address
		}
		refusal := c.Refusal
		if refusal == "" && standing {
			refusal = r.adapter.Held(c, r.began)
		}
		switch {
		case refusal != "":
		case !c.Local && r.relays.dialHost == nil:
			refusal = SayNoSessions(way.Service, c.Host)
		default:
			r.target = c
			service, err := r.open(ctx, way, c)
			if err == nil {
				return r.opened(service)
			}
			if r.isOver() {
				_ = r.client.Close() // it is gone, or everything is
				return false
			}
			refusal = sayUnreachable(way.Service, c, plain(err))
			r.adapter.note(c.Address, refusal)
		}
		refusals = append(refusals, refusal)
	}
	r.deny(endpoint, strings.Join(refusals, "; "))
	return false
}

// open dials one candidate. While the dial stands, the client is in the waiting list and under the sweep.
func (r *relay) open(ctx context.Context, way *route.Route, c *route.Candidate) (net.Conn, error) {
	r.relays.log.Info(sayRoute(way, c))
	began := r.relays.now()
	w, listed := r.adapter.waits.Begin(r.entry(status.PhaseOpen), began)
	if c.Local {
		r.relays.touch()
	} else {
		r.say(lineOpening, listed)
	}
	r.relays.watch(r)
	service, err := r.dial(ctx, c)
	outcome := wait.Opened
	switch {
	case err == nil:
	case r.isOver():
		outcome = r.why
	default:
		outcome = wait.Refused
	}
	_, listed = w.End(outcome)
	switch {
	case outcome == wait.ClientGone:
		r.say(lineAbandoned, listed)
	case c.Local:
		r.relays.touch()
	default:
		k := r.adapter.key
		r.relays.announce(lineChannel, k.Service, k.Consumer, c.Address, word(err), r.relays.now().Sub(began).Milliseconds(), listed)
	}
	return service, err
}

// dial tries once more after descriptors that ran out were freed: otherwise an adapter whose last descriptor is always taken by the
// accept would serve nobody, and never shed.
func (r *relay) dial(ctx context.Context, c *route.Candidate) (net.Conn, error) {
	for tried := false; ; tried = true {
		relief := r.relays.pressure.epoch.Load()
		conn, err := r.dialOnce(ctx, c)
		if err == nil || tried || !exhausted(err) {
			return conn, err
		}
		if r.relays.relieve(r.adapter.key, relief, err) != nil {
			return nil, err
		}
	}
}

func (r *relay) dialOnce(ctx context.Context, c *route.Candidate) (net.Conn, error) {
	if !c.Local {
		return r.relays.dialHost(ctx, c.Host, c.Endpoint)
	}
	// A service on this machine needs no probes: its end tells when it goes.
	d := net.Dialer{KeepAlive: -1}
	return d.DialContext(ctx, c.Endpoint.Network, c.Endpoint.Address)
}

// opened takes the service's connection into the relay; false when the relay was over before.
func (r *relay) opened(service net.Conn) bool {
	r.adapter.note(r.target.Address, "")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		_ = service.Close()
		_ = r.client.Close()
		return false
	}
	r.service, r.phase = newStream(service), quiet
	return true
}

func (r *relay) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// deny refuses the client and says so once.
func (r *relay) deny(endpoint, sentence string) {
	r.relays.log.Warn(sayRefused(r.adapter.key, endpoint, sentence))
	r.refuse(sentence)
}
