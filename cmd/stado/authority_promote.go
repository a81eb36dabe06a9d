package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/change"
	"stado.internal/stado/reconcile/source"
)

// promote makes the commit in which the role moves, in a repository of its own, and the bundle that carries it.
func (m *mover) promote() error {
	base := m.base.snapshot
	if base.Commit == "" {
		return fmt.Errorf("this host holds generation %d as a document without a commit, and a move is a commit on the one before (hand the registry over as a bundle: stado registry push --last-known-good)", base.Generation())
	}
	from, err := m.base.repository, error(nil)
	if from == "" {
		if from, err = m.history(); err != nil {
			return err
		}
	}
	g, err := m.repositoryOf(from, base.Commit)
	if err != nil {
		return err
	}
	if err := m.introduce(g); err != nil {
		return err
	}
	e, err := m.evaluator()
	if err != nil {
		return err
	}
	at := authorityRepository{Repository: filepath.Join(m.home, authorityFolder)}
	if m.move.Through {
		at, err = m.ready(g, e)
	} else {
		at.Command, err = ownPath()
	}
	if err != nil {
		return err
	}
	head, err := m.commit(g, e, at)
	if err != nil {
		return err
	}
	if _, err := e.Bundle(m.ctx, g.dir, head.Commit, "", authority.Branch, filepath.Join(m.folder.Path, bundleFile)); err != nil {
		return err
	}
	return m.keep(m.move.Promote(head))
}

// introduce gives a repository a committer where nobody has told git who this is.
func (q *inquiry) introduce(g gitRepository) error {
	if _, err := g.run(q.ctx, "var", "GIT_COMMITTER_IDENT"); err == nil {
		return nil
	}
	for _, setting := range [][2]string{{"user.name", "stado"}, {"user.email", "stado@" + string(q.self)}} {
		if _, err := g.run(q.ctx, "config", setting[0], setting[1]); err != nil {
			return err
		}
	}
	return nil
}

// commit changes authority, epoch and generation, and nothing else.
func (m *mover) commit(g gitRepository, e source.Evaluator, at authorityRepository) (head authority.Head, err error) {
	out, err := change.Apply(m.ctx, change.Options{Dir: g.dir, Evaluator: e, Sign: m.sign, Once: true}, func(d *change.Draft) error {
		want := m.move.Document(d.Registry, at.Command, at.Repository)
		d.Subject = change.Subject{
			Kind: string(m.move.Kind), Summary: fmt.Sprintf("authority: move to %s", m.move.To), Extra: []string{source.TrailerNonce + ": " + m.move.Nonce},
		}
		d.Accept(func(next *fleet.Registry, digest string) error {
			if !reflect.DeepEqual(next, want) {
				return errors.New("the registry's files compute something from the authority or the generation, so that no commit changes these alone (move the authority by hand)")
			}
			head = authority.HeadOf(&fleet.Snapshot{Registry: next, Digest: digest})
			return nil
		})
		return errors.Join(
			d.Put(want.Directory.Authority, "service_directory", "authority"),
			d.Put(want.Directory.Generation, "service_directory", "generation"))
	})
	head.Commit = out.Commit
	return head, err
}

// serve puts the promoted registry into the repository that this host serves: from now on, or for the last time.
func (m *mover) serve(point authority.Point) error {
	bundle, err := m.bundle()
	if err != nil {
		return err
	}
	if err := m.at(point); err != nil {
		return err
	}
	result := authority.StoreResult{Version: m.move.Promoted.Commit}
	if m.move.Through {
		err = m.leave(bundle)
	} else {
		err = m.bring(m.own(), bundle)
	}
	if err != nil {
		result = authority.StoreResult{Error: fleet.OneLine(err.Error(), fleet.MaxText)}
	}
	return m.keep(m.move.Stored(result))
}
