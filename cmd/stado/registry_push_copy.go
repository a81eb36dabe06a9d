package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/change"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// handing is `stado registry push --last-known-good`: a registry for a host whose authority does not answer.
type handing struct {
	*inquiry

	document *change.Document // one of the two
	bundle   *reconcile.Asked
}

// maxBundle bounds a pushed registry with its history.
const maxBundle = 256 << 20

// bundleStart is how every git bundle begins.
var bundleStart = []byte("# v")

func (a *app) handOver(c *cobra.Command, f pushing, path string) (err error) {
	q, err := a.inquire(c.Context(), f.ssh)
	if err != nil {
		return refused(err)
	}
	defer func() { err = errors.Join(err, q.close()) }()
	h := handing{inquiry: q}
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
	p.Copy, p.CopyError, p.Promised, p.Self = h.copied, h.copyError, h.held.Promised, h.self
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
	p.Authority = h.authority()
	receipt, err := p.Decide()
	if err == nil && h.bundle != nil && h.bundle.Refusal != nil {
		return receipt, fmt.Errorf("this host refuses what the bundle carries: %s: %s", h.bundle.Refusal.Rule, h.bundle.Refusal.Sentence)
	}
	return receipt, err
}

func (h *handing) write() error {
	if h.bundle != nil {
		return h.bundle.HandOver(h.store)
	}
	return reconcile.HandDocument(h.store, &fleet.Snapshot{Digest: h.document.Digest, Document: h.document.Bytes, Registry: h.document.Registry})
}
