package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/source"
)

// served is the repository, and its branch, that this host serves as the authority which the role leaves.
func (m *mover) served() (dir, branch string) {
	return m.move.Leaves.Repository, cmp.Or(m.move.Leaves.Branch, authority.Branch)
}

// leave pushes the promoted registry, without force, into the repository of the authority that the role leaves, which is nobody's to put in
// order any more.
func (m *mover) leave(bundle []byte) error {
	g, err := m.unpacked(bundle)
	if err != nil {
		return err
	}
	var in authorityInit
	in.dir, in.branch = m.served()
	return in.take(m.ctx, g)
}

// tip is what a move through the authority is built on: the end of the branch that this host serves, whether or not its agent has read that.
func (m *mover) tip() (basis, error) {
	o, err := m.named(m.copied)
	if err != nil {
		return basis{}, err
	}
	free, err := m.unpromised()
	if err != nil {
		return basis{}, err
	}
	asked, _, err := m.askFor(free, o)
	switch {
	case err != nil:
		return basis{}, fmt.Errorf("this host, %s, is the registry authority, and its own repository does not answer: %w", m.self, err)
	case asked.Refusal != nil:
		return basis{}, fmt.Errorf("this host, %s, is the registry authority, and refuses what its own repository has: %s: %s", m.self, asked.Refusal.Rule, asked.Refusal.Sentence)
	case asked.Pending:
		return basis{}, fmt.Errorf("commit %s in %s changes the registry and waits for its generation (run: stado registry stamp --push)", short(asked.Tip), o.Remote.URL)
	}
	s := *m.copied
	if asked.Snapshot != nil {
		s = *asked.Snapshot
	}
	s.Commit = asked.Tip
	return basis{snapshot: &s, repository: m.copied.Registry.Directory.Authority.Repository}, nil
}

// overtaken reports that the branch of an authority which the role leaves has moved on since the move began. The hook of its repository
// takes no push meanwhile; one without a hook takes any.
func (m *mover) overtaken() (bool, error) {
	if !m.move.Through {
		return false, nil
	}
	dir, branch := m.served()
	tip, err := gitRepository{dir: dir}.run(m.ctx, "rev-parse", "refs/heads/"+branch)
	return err == nil && tip != m.move.Base.Commit, err
}

// ready has the host that is to have the role make its repository, with the history that the move is built on, and say where that and its
// program are. Until the registry names it, nobody reads it.
func (m *mover) ready(g gitRepository, e source.Evaluator) (at authorityRepository, err error) {
	file := filepath.Join(m.scratch, "base.bundle")
	if _, err := e.Bundle(m.ctx, g.dir, m.move.Base.Commit, "", authority.Branch, file); err != nil {
		return at, err
	}
	bundle, err := os.ReadFile(file)
	if err != nil {
		return at, err
	}
	c := call{host: m.move.To, args: []string{"authority", "init", "--from", "-", "--json"}, stdin: bundle, limit: maxSaid}
	said, exit, err := c.run(m.inquiry, m.registry())
	switch {
	case err != nil:
	case exit.Status != 0:
		err = errors.New(lastWords(exit))
	case json.Unmarshal(said, &at) != nil || !filepath.IsAbs(at.Repository) || !filepath.IsAbs(at.Command) || at.Branch != authority.Branch:
		err = errors.New("it answers with what is no repository")
	case at.Commit != m.move.Base.Commit:
		err = fmt.Errorf("its repository %s is at commit %s, not at %s", at.Repository, fleet.OneLine(at.Commit, fleet.MaxText), m.move.Base.Commit)
	}
	if err != nil {
		return at, fmt.Errorf("host %s cannot serve the registry, so the role stays with %s: %w (run the command again, or give the move up with --abandon)", m.move.To, m.self, err)
	}
	return at, nil
}

// mirror gives the promoted registry to the host that is to have the role, as its copy and into its repository.
func (m *mover) mirror(step authority.Step) error {
	bundle, err := m.bundle()
	if err != nil {
		return err
	}
	if err := m.at(step.Point); err != nil {
		return err
	}
	for _, host := range step.Hosts {
		m.tell("giving generation %d to %s", m.move.Generation, host)
		if err := m.keep(m.move.Handed(host, m.handTo(host, bundle, "authority", "take").result)); err != nil {
			return err
		}
	}
	return nil
}
