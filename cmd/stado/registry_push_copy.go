package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/change"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// handing is `stado registry push --last-known-good`: a registry for a host whose authority does not answer.
type handing struct {
	app      *app
	ctx      context.Context
	home     string
	settings config.Agent
	scratch  string
	store    *store.Store

	document *change.Document // one of the two
	bundle   *reconcile.Asked
}

// maxBundle bounds a pushed registry with its history.
const maxBundle = 256 << 20

// bundleStart is how every git bundle begins.
var bundleStart = []byte("# v")

func (a *app) handOver(c *cobra.Command, f pushing, path string) (err error) {
	h := handing{app: a, ctx: c.Context()}
	if h.home, err = a.clientHome(filepath.Join(registryFolder, store.HeldFile)); err != nil {
		return refused(err)
	}
	if h.settings, err = withFile(h.home, f.ssh); err != nil {
		return refused(err)
	}
	if h.scratch, err = os.MkdirTemp("", "stado-hand-over-"); err != nil {
		return refused(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(h.scratch)) }()
	p := authority.Push{Path: path, IfGeneration: f.token != "", Force: f.force, AllowEmptyFleet: f.allowEmpty}
	if err := h.read(c, &p); err != nil {
		return asRefused(err)
	}
	receipt, err := h.decide(p)
	if err != nil {
		return refused(err)
	}
	switch err := h.write(); {
	case errors.Is(err, store.ErrOutdated):
		return conflict(fmt.Errorf("%w; look at what it holds now (stado registry show) and push again", err))
	case err != nil:
		return refused(err)
	}
	if f.asJSON {
		return a.printJSON(receipt)
	}
	fmt.Fprintln(a.stdout, receipt.Say(path))
	return nil
}

// read takes what is pushed, judges it by itself, and looks at what this host holds.
func (h *handing) read(c *cobra.Command, p *authority.Push) error {
	name, data, err := readInput(p.Path, c.InOrStdin(), maxBundle)
	if err != nil {
		return fmt.Errorf("cannot read what is pushed: %w", err)
	}
	if !bytes.HasPrefix(data, bundleStart) {
		e, err := evaluator(h.settings.Evaluation)
		if err != nil {
			return err
		}
		document, err := change.ReadDocument(h.ctx, e, name, data)
		if err != nil {
			return err
		}
		h.document, p.Offered = &document, document.Registry.Directory.Generation
		p.Owner.Mover = authority.HostOf(document.Registry.Directory.Authority)
	}
	folder := filepath.Join(h.home, registryFolder)
	if _, err := os.Stat(folder); err == nil {
		if h.store, err = store.Open(folder, nil); err != nil {
			return err
		}
		held, _ := h.store.Held()
		p.Copy, p.Promised = h.store.Snapshot(), held.Promised
		if blockers := h.store.Blockers(); p.Copy == nil && len(blockers) > 0 {
			p.CopyError = blockers[0].Sentence
		}
	}
	p.Self = h.app.self(h.settings, p.Copy)
	if h.document != nil || p.Copy == nil {
		return nil
	}
	file := filepath.Join(h.scratch, "pushed.bundle")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	remote, err := source.BundleRemote(file, "")
	if err != nil {
		return err
	}
	asked, err := h.ask(source.Options{Remote: remote})
	if err != nil {
		return err
	}
	h.bundle, p.Offered = &asked, asked.Newest
	if s := asked.Snapshot; s != nil {
		p.Owner = authority.Owner{Mover: authority.HostOf(s.Registry.Directory.Authority), Nonce: asked.Nonce}
	}
	return nil
}

// decide asks the authority only when nothing else stands against the push: a silent one takes its time.
func (h *handing) decide(p authority.Push) (authority.PushReceipt, error) {
	_, err := p.Decide() // as if the authority answered
	var r *authority.Refusal
	if !errors.As(err, &r) || r.Reason != authority.ReasonAnswers && p.CopyError == "" {
		return authority.PushReceipt{}, err
	}
	p.Authority = h.authority(p.Copy, p.Self)
	receipt, err := p.Decide()
	if err == nil && h.bundle != nil && h.bundle.Refusal != nil {
		return receipt, fmt.Errorf("this host refuses what the bundle carries: %s: %s", h.bundle.Refusal.Rule, h.bundle.Refusal.Sentence)
	}
	return receipt, err
}

// authority reads the authority that the copy names, without a copy the repository that the agent is started with.
func (h *handing) authority(copied *fleet.Snapshot, self fleet.HostName) authority.Reading {
	o, err := h.named(copied, self)
	var asked reconcile.Asked
	if err == nil {
		asked, err = h.ask(o)
	}
	switch {
	case err != nil:
		return authority.Reading{Cause: err.Error()}
	case asked.Refusal != nil:
		return authority.Reading{Refused: asked.Refusal.Sentence}
	}
	return authority.Reading{}
}

// named is the authority that a copy names, without one the repository that the agent is started with. Files with credentials are for that
// repository alone.
func (h *handing) named(copied *fleet.Snapshot, self fleet.HostName) (o source.Options, err error) {
	if copied != nil {
		o, named, err := source.Authority(copied.Registry, self)
		if named || err != nil {
			return o, err
		}
	}
	o.Remote, err = source.ParseRemote(h.settings.Repository, h.settings.Branch)
	o.Remote.CAFile, o.Remote.CredentialFile = h.settings.CAFile, h.settings.CredentialFile
	return o, err
}

// ask asks a source beside a running agent, in a copy of its store.
func (h *handing) ask(o source.Options) (reconcile.Asked, error) {
	dir, err := os.MkdirTemp(h.scratch, "ask-")
	if err != nil {
		return reconcile.Asked{}, err
	}
	g, err := h.open(o, dir)
	if err != nil {
		return reconcile.Asked{}, err
	}
	defer g.Close()
	st := h.store
	if st == nil {
		if st, err = store.Open(filepath.Join(dir, registryFolder), nil); err != nil {
			return reconcile.Asked{}, err
		}
	}
	return reconcile.Ask(h.ctx, st, g)
}

// open makes a source with a copy of the running agent's store in dir.
func (h *handing) open(o source.Options, dir string) (*source.Git, error) {
	o.Store = filepath.Join(dir, storeFolder)
	if err := source.CopyStore(filepath.Join(h.home, storeFolder), o.Store); err != nil {
		return nil, err
	}
	e, err := evaluator(h.settings.Evaluation)
	if err != nil {
		return nil, err
	}
	ssh := agent.OverSSH(h.settings)
	ssh.Host, ssh.Paths = o.SSH.Host, o.SSH.Paths
	o.SSH, o.Runner = ssh, e.Runner
	return source.New(o), nil
}

func (h *handing) write() error {
	if h.bundle != nil {
		return h.bundle.HandOver(h.store)
	}
	return reconcile.HandDocument(h.store, &fleet.Snapshot{Digest: h.document.Digest, Document: h.document.Bytes, Registry: h.document.Registry})
}
