package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// offer is the registry that a push would make the authority's.
type offer struct {
	registry *fleet.Registry
	owner    authority.Owner
	commit   string
}

// promised asks whether what this host has promised lets a push through, and has the other hosts promise it where the registry wants that. base
// is what the branch had. A repository without a state directory, as on a forge, has promised nothing, and neither has one that is not
// served as the authority. What cannot be looked at stands in the way only where a majority has to promise each change: elsewhere every agent
// asks its own promises.
func (r receiver) promised(ctx context.Context, base, next source.Verdict) error {
	home := r.app.home
	if home == "" {
		return nil
	}
	registry, err := fleet.Decode(next.Document)
	if err != nil {
		return err
	}
	view, err := store.Read(filepath.Join(home, registryFolder))
	if err != nil {
		return r.unasked(err, base, registry)
	}
	o := offer{registry, authority.Owner{Mover: authority.HostOf(registry.Directory.Authority), Nonce: next.Nonce}, next.Commit}
	if err := r.moving(home, o); err != nil {
		return err
	}
	self, settings, err := r.serves(home, view)
	if err != nil {
		return r.unasked(err, base, registry)
	}
	if self == "" || next.Digest == view.Held.Digest || next.Digest == base.Digest {
		return nil
	}
	if p := view.Held.Promised.Keeps(registry.Directory.Generation, o.owner); p != nil {
		return fmt.Errorf("%s (raise the generation above it, or push again when the promise has ended: stado registry claim says what is promised)", p.Sentence)
	}
	return r.claimed(ctx, settings, view.Snapshot, base, o)
}

// moving refuses every push but the move's own while the role moves through this repository: what is made beside it would fork from it.
func (r receiver) moving(home string, o offer) error {
	move, err := recordedMove(home)
	if err != nil {
		fmt.Fprintf(r.app.stderr, "note: it cannot be told whether the authority role is moving: %v\n", err)
		return nil
	}
	if move == nil || !move.Through || move.Phase == authority.PhaseAbandoned || !sameFile(move.Leaves.Repository, r.repository.Dir) ||
		o.owner == (authority.Owner{Mover: move.To, Nonce: move.Nonce}) {
		return nil
	}
	return fmt.Errorf("the role of the registry authority is moving from here to %s, at generation %d, and nothing is written meanwhile (push to %s when it has moved; to finish the move run stado placement move --authority --to-host %s here, to give it up --abandon)",
		move.To, move.Generation, move.To, move.To)
}

// unasked is the answer to a push when this host's promises cannot be asked about: agents ask about theirs, which is enough unless the registry
// wants each change promised before it is made.
func (r receiver) unasked(cause error, base source.Verdict, next *fleet.Registry) error {
	on := next
	if base.Document != nil {
		var err error
		if on, err = fleet.Decode(base.Document); err != nil {
			return err
		}
	}
	a := on.Directory.Authority
	if on.Policies.Quorum == fleet.QuorumMajority && a.Host != "" && sameFile(a.Repository, r.repository.Dir) {
		return fmt.Errorf("the registry wants each change promised by a majority, and this host's own promises cannot be asked about: %w (push as the account that runs the agent, or mend what is named)", cause)
	}
	fmt.Fprintf(r.app.stderr, "note: this host's promises cannot be asked about, and agents will ask about theirs: %v\n", cause)
	return nil
}

// serves is this host's name when the registry that it holds makes it the authority, with this repository; empty when it does not.
func (r receiver) serves(home string, view store.View) (fleet.HostName, config.Agent, error) {
	if view.Snapshot == nil {
		return "", config.Agent{}, nil
	}
	settings, err := withFile(home, config.Agent{})
	if err != nil {
		return "", settings, err
	}
	self, declared := r.app.self(settings, view.Snapshot), view.Snapshot.Registry.Directory.Authority
	if self == "" || declared.Host != self || !sameFile(declared.Repository, r.repository.Dir) {
		return "", settings, nil
	}
	return self, settings, nil
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
