package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/source"
)

// claimed claims the generation of a change by this host, the authority, from all hosts, where the registry that it changes requires a
// majority: an authority that reaches only a few of them writes nothing that another one's document could contradict. The claim's nonce is
// the commit, so that the same push is the same claim. A registry whose authority is to be no host of the fleet cannot be claimed.
func (r receiver) claimed(ctx context.Context, settings config.Agent, held *fleet.Snapshot, base source.Verdict, o offer) (err error) {
	on := held
	if base.Document != nil {
		registry, err := fleet.Decode(base.Document)
		if err != nil {
			return err
		}
		on = &fleet.Snapshot{Commit: base.Commit, Digest: base.Digest, Document: base.Document, Registry: registry}
	}
	generation := o.registry.Directory.Generation
	if on.Registry.Policies.Quorum != fleet.QuorumMajority || generation <= on.Generation() || o.registry.Directory.Authority.Host == "" {
		return nil
	}
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	q, err := r.app.inquire(ctx, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	m := mover{inquiry: q, base: basis{snapshot: on}, replies: map[fleet.HostName]authority.Reply{}}
	s := authority.Situation{
		Self: q.self, To: o.owner.Mover, Copy: on, Promised: q.held.Promised, Incarnation: q.held.Incarnation, Nonce: cmp.Or(o.owner.Nonce, o.commit),
	}
	begin := authority.BeginEdit
	if s.To != s.Self {
		if m.gone(generation) {
			return nil
		}
		begin = authority.Begin
	}
	if m.move, err = begin(s); err == nil {
		m.move, err = m.move.At(generation, s.Promised)
	}
	if err == nil {
		err = m.promiseOwn("")
	}
	if err != nil {
		return sayUnclaimed(err)
	}
	return m.claim(enough)
}

// claim asks every other host for the move's generation, until a majority has promised it.
func (m *mover) claim(enough func()) error {
	m.tell("asking %d hosts for generation %d", len(m.others()), m.move.Generation)
	err := everywhere(m.others(), m.putClaim, func(host fleet.HostName, reply authority.Reply) error {
		m.replies[host] = reply
		if _, out := m.move.Settle(m.replies); out.Course == authority.Proceed {
			enough() // whatever the others say
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, out := m.move.Settle(m.replies); out.Course != authority.Proceed {
		return errors.Join(sayUnclaimed(out.Refusal), m.giveBack(out.Release))
	}
	return nil
}

// gone reports whether a host holds a registry, of this generation or a higher one, in which this host has the role no more. What is pushed
// here then is what this host has missed.
func (m *mover) gone(generation fleet.Generation) bool {
	found := errors.New("found")
	return everywhere(m.others(), func(host fleet.HostName) authority.Head {
		a, _ := m.answerOf(m.registry(), call{host: host, args: []string{"registry", "claim"}})
		return a.Held
	}, func(_ fleet.HostName, held authority.Head) error {
		if held.Generation >= generation && held.Authority != m.self {
			return found
		}
		return nil
	}) != nil
}

func sayUnclaimed(why error) error {
	return fmt.Errorf("the registry requires a majority of its hosts for every change, and this one is not granted: %w (push again when more of them answer, or with the generation raised if another one has it)", why)
}
