package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/change"
	"stado.internal/stado/reconcile/source"
)

// made is the commit that joins two histories.
type made struct {
	head authority.Head
	diff string // from its first parent
}

// apart reports whether what the second side has changed is a commit of its own: where the role moves nothing else may change, and where
// generations are stamped a change does not number itself.
func (h *healer) apart() bool {
	return h.move.Base.Authority != h.move.To || h.registry().Policies.GenerationMode == fleet.GenerationStamped
}

// make makes the commit of the move on its base, with the bundle that carries it; a dry run only judges it.
func (h *healer) make(base string, dry bool) (made, error) {
	if base == "" {
		return made{}, fmt.Errorf("generation %d and generation %d have no commit in common, so nothing tells what each side has changed (choose one of them: stado agent accept-reset on the hosts of the other)", h.move.Base.Generation, h.move.Joins.Generation)
	}
	if _, err := h.work.run(h.ctx, "update-ref", "refs/heads/"+authority.Branch, h.move.Base.Commit); err != nil {
		return made{}, err
	}
	e, err := h.evaluator()
	if err != nil {
		return made{}, err
	}
	command, err := ownPath()
	if err != nil {
		return made{}, err
	}
	var out made
	join := change.Join{Commit: h.move.Joins.Commit, Base: base, Parent: true, Contents: !h.apart()}
	o := change.Options{Dir: h.work.dir, Evaluator: e, Sign: h.sign, Once: true, DryRun: dry, Join: &join}
	done, err := change.Apply(h.ctx, o, func(d *change.Draft) error {
		want := h.move.Document(d.Registry, command, filepath.Join(h.home, authorityFolder)).Directory
		d.Subject = h.subject(fmt.Sprintf("registry: join generation %d of %s with generation %d of %s",
			h.move.Base.Generation, h.move.Base.Authority, h.move.Joins.Generation, h.move.Joins.Authority))
		d.Accept(func(next *fleet.Registry, digest string) error {
			if next.Directory.Authority != want.Authority || next.Directory.Generation != want.Generation {
				return errors.New("the registry's files compute the authority or the generation, so that no commit gives them these (join the histories by hand)")
			}
			out.head = authority.HeadOf(&fleet.Snapshot{Registry: next, Digest: digest})
			return nil
		})
		if want.Authority != d.Registry.Directory.Authority {
			if err := d.Put(want.Authority, "service_directory", "authority"); err != nil {
				return err
			}
		}
		return d.Put(want.Generation, "service_directory", "generation")
	})
	if err == nil && dry && h.apart() {
		err = h.rest(h.work, base, true)
	}
	if out.diff = done.Diff; err != nil || dry {
		return out, err
	}
	out.head.Commit = done.Commit
	_, err = e.Bundle(h.ctx, h.work.dir, done.Commit, "", authority.Branch, filepath.Join(h.folder.Path, bundleFile))
	return out, err
}

func (h *healer) subject(summary string) change.Subject {
	return change.Subject{Kind: string(authority.KindHeal), Summary: summary, Extra: []string{source.TrailerNonce + ": " + h.move.Nonce}}
}

// rest makes what the second side has changed a commit of its own, on what the branch of g has.
func (h *healer) rest(g gitRepository, base string, dry bool) error {
	e, err := h.evaluator()
	if err != nil {
		return err
	}
	join := change.Join{Commit: h.move.Joins.Commit, Base: base, Contents: true}
	_, err = change.Apply(h.ctx, change.Options{Dir: g.dir, Evaluator: e, Sign: h.sign, Once: true, DryRun: dry, Join: &join}, func(d *change.Draft) error {
		d.Subject = change.Subject{Kind: string(authority.KindEdit), Summary: fmt.Sprintf("registry: what generation %d of %s has beyond", h.move.Joins.Generation, h.move.Joins.Authority)}
		return nil
	})
	return err
}

// holdJoined makes the commit this host's copy, through every rule that a read of the authority passes.
func (h *healer) holdJoined() error {
	bundle, err := h.bundle()
	if err != nil {
		return err
	}
	asked, err := h.askBundle(bundle)
	if err != nil {
		return err
	}
	if asked.Refusal != nil {
		return fmt.Errorf("this host refuses the registry that joins the two histories, so nothing is written: %s: %s (give it up with stado placement move --authority --abandon)", asked.Refusal.Rule, asked.Refusal.Sentence)
	}
	if asked.Snapshot != nil { // else it is held already
		if err := h.at(authority.PointCopy); err != nil {
			return err
		}
		if err := h.hold(asked); err != nil {
			return err
		}
	}
	h.look()
	return h.keep(h.move.Copied())
}

// keepInStore puts the commit into this host's own repository, and after it what the second side has changed, when that is a commit of its
// own.
func (h *healer) keepInStore() error {
	if err := h.at(authority.PointStore); err != nil {
		return err
	}
	result := authority.StoreResult{}
	commit, err := h.pushJoined()
	if result.Version = commit; err != nil {
		result = authority.StoreResult{Error: fleet.OneLine(err.Error(), fleet.MaxText)}
	}
	h.receipt.Store = result
	return h.keep(h.move.Stored(result))
}

func (h *healer) pushJoined() (commit string, err error) {
	g, err := h.repositoryOf(filepath.Join(h.folder.Path, bundleFile), "refs/heads/"+authority.Branch)
	if err != nil {
		return "", err
	}
	own := h.copied.Registry.Directory.Authority
	if own.Repository == filepath.Join(h.home, authorityFolder) {
		bundle, err := h.bundle()
		if err == nil {
			err = h.bring(h.own(), bundle) // which makes it when it is not there
		}
		if err != nil {
			return "", err
		}
	}
	if h.apart() {
		if err := h.introduce(g); err != nil {
			return "", err
		}
		base, err := g.run(h.ctx, "merge-base", h.move.Base.Commit, h.move.Joins.Commit)
		if err != nil {
			return "", err
		}
		if err := h.rest(g, base, false); err != nil {
			return "", err
		}
	}
	if commit, err = g.run(h.ctx, "rev-parse", "HEAD"); err != nil {
		return "", err
	}
	branch := "refs/heads/" + cmp.Or(own.Branch, authority.Branch)
	if _, err := (gitRepository{dir: own.Repository}).run(h.ctx, "merge-base", "--is-ancestor", commit, branch); err == nil {
		return commit, nil // it was pushed before this was interrupted, and the branch may have gone on
	}
	_, err = g.run(h.ctx, "push", "--quiet", "--", own.Repository, "HEAD:"+branch)
	return commit, err
}

// adopt takes over a history that has gone on from what this host holds.
func (h *healer) adopt(s side) error {
	if h.dryRun {
		h.receipt.State, h.receipt.Generation = healPlanned, s.snapshot.Generation()
		return nil
	}
	e, err := h.evaluator()
	if err != nil {
		return err
	}
	file := filepath.Join(h.scratch, "ahead.bundle")
	if _, err := e.Bundle(h.ctx, h.work.dir, s.snapshot.Commit, "", source.DefaultBranch, file); err != nil {
		return err
	}
	remote, err := source.BundleRemote(file, "")
	if err != nil {
		return err
	}
	var c carried
	if c.Asked, c.repository, err = h.askFor(h.inquiry.store, source.Options{Remote: remote}); err != nil {
		return err
	}
	if c.Refusal != nil {
		return fmt.Errorf("this host refuses what %s holds: %s: %s", s.host, c.Refusal.Rule, c.Refusal.Sentence)
	}
	if c.Snapshot != nil {
		if err := h.hold(c); err != nil {
			return err
		}
	}
	h.receipt.State = healAdopted
	return h.open()
}
