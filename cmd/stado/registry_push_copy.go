package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/change"
	"stado.internal/stado/reconcile/store"
)

// handing is `stado registry push --last-known-good`: a registry for a host whose authority does not answer.
type handing struct {
	*inquiry

	document *change.Document // one of the two
	name     string           // of what is pushed, in sentences
	pushed   []byte           // as it was given
	signed   []byte           // the signature of a document; nil: none was given
	bases    []string         // digests of the documents that a document follows on
	bundle   *carried         // what it is to this host
}

// maxBundle bounds a pushed registry with its history.
const maxBundle = 256 << 20

// maxSignature bounds the signature of a document.
const maxSignature = 64 << 10

// bundleStart is how every git bundle begins.
var bundleStart = []byte("# v")

func (a *app) handOver(c *cobra.Command, f pushing, path string) (err error) {
	q, err := a.inquire(c.Context(), f.ssh)
	if err != nil {
		return refused(err)
	}
	defer func() { err = errors.Join(err, q.close()) }()
	h := handing{inquiry: q, bases: f.bases}
	if err := h.read(c, path, f.signature); err != nil {
		return asRefused(err)
	}
	var receipt authority.PushReceipt
	for attempt := 1; ; attempt++ {
		p := authority.Push{Path: path}
		if err = h.judge(&p); err == nil {
			receipt, err = h.decide(p)
		}
		if err == nil {
			err = h.write()
		}
		if !errors.Is(err, store.ErrOutdated) || attempt == writeAttempts {
			break
		}
		h.look()
	}
	switch {
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

// read takes what is pushed, and its signature. A document is judged by itself.
func (h *handing) read(c *cobra.Command, path, signature string) error {
	name, data, err := readInput(path, c.InOrStdin(), maxBundle)
	if err != nil {
		return fmt.Errorf("cannot read what is pushed: %w", err)
	}
	h.name, h.pushed = name, data
	if bytes.HasPrefix(data, bundleStart) {
		if signature != "" {
			return fmt.Errorf("--signature %s: %s is a bundle, whose commits carry signatures of their own; leave the flag out", signature, name)
		}
		if len(h.bases) > 0 {
			return fmt.Errorf("--base %s: %s is a bundle, whose commits say what they follow on; leave the flag out", h.bases[0], name)
		}
		return nil
	}
	if signature != "" {
		if _, h.signed, err = readInput(signature, c.InOrStdin(), maxSignature); err != nil {
			return fmt.Errorf("cannot read the signature of what is pushed: %w", err)
		}
	}
	e, err := h.evaluator()
	if err != nil {
		return err
	}
	document, err := change.ReadDocument(h.ctx, e, name, data)
	h.document = &document
	return err
}

// judge looks at what this host holds, and at what a bundle is to it.
func (h *handing) judge(p *authority.Push) error {
	p.Self, p.Copy, p.CopyError = h.self, h.copied, h.copyError
	if h.document != nil {
		p.Offered, p.Promised = h.document.Registry.Directory.Generation, h.held.Promised
		p.Owner.Mover = authority.HostOf(h.document.Registry.Directory.Authority)
		return nil
	}
	if p.Copy == nil {
		return nil
	}
	asked, err := h.askFile(h.name, h.pushed)
	if err != nil {
		return err
	}
	h.bundle, p.Offered = &asked, asked.Newest // what was promised is asked about with it
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
		return h.hold(*h.bundle)
	}
	document := fleet.Snapshot{Digest: h.document.Digest, Document: h.document.Bytes, Registry: h.document.Registry}
	return reconcile.HandDocument(h.store, &document, reconcile.File{Bytes: h.pushed, Signature: h.signed, Bases: h.bases})
}
