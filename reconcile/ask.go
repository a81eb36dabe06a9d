package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// Asked is what a source had when it was asked once, and how that stands to what is held. Nothing was written.
type Asked struct {
	Held     store.Held
	Tip      string           // of the source's branch
	Newest   fleet.Generation // of the newest commit that compiles; 0 when none does
	Snapshot *fleet.Snapshot  // what would be held; nil when that is what is held already, or when nothing may be
	Nonce    string           // of the claim under which Snapshot was made; empty for none
	Refusal  *Refusal         // of the tip; nil: the source answers
	Pending  bool             // the tip waits for its generation

	admitted []store.Admission
}

// Ask reads a source to its end and judges what it offers as a refresh does, but holds nothing. A source answers when the error and
// [Asked.Refusal] are nil: it has a complete registry which the fence would admit, or the one that is held.
func Ask(ctx context.Context, st *store.Store, src Source) (Asked, error) {
	l := newLoop(New(Options{
		Store: st, Sources: From(src), Refresh: time.Minute, Adopt: func(*fleet.Snapshot) {}, Log: slog.New(slog.DiscardHandler),
	}))
	var a Asked
	for {
		res := l.look(ctx, inquiry{sources: l.sources(), behind: l.behind})
		if res.err != nil {
			return Asked{}, res.err
		}
		a.take(res)
		if !res.offer.Partial || !l.progress(res.offer) {
			if res.offer.Partial {
				return Asked{}, &source.Error{Phase: source.PhaseRead, Kind: source.KindHistory, Cause: sayNoProgress(res.offer.Tip)}
			}
			return a, nil
		}
		l.behind = res.trail
	}
}

func (a *Asked) take(res result) {
	a.Held, a.Tip, a.Newest = res.held, res.offer.Tip, newestGeneration(res.offer, res.held)
	a.Refusal, a.Pending = res.out.refusal, res.out.pending
	a.admitted = append(a.admitted, res.out.admitted...)
	if res.out.final != nil {
		a.Snapshot, a.Nonce = res.out.final, nonceOf(res.offer, res.out.final.Commit)
	}
}

// HandOver makes what was asked for the last-known-good copy, as one that was handed over. It is refused, with [store.ErrOutdated], when
// another process has written the store since. A running agent takes it on its next refresh that gets no answer.
func (a Asked) HandOver(st *store.Store) error {
	s := *a.Snapshot
	s.Provenance = fleet.ProvenanceHandedOver
	admitted := a.admitted
	for i := range admitted {
		admitted[i].Provenance = fleet.ProvenanceHandedOver
	}
	if outdated(st, a.Held) {
		return store.ErrOutdated
	}
	return st.Put(&s, admitted...)
}

// File is what a document came in.
type File struct {
	Bytes     []byte
	Signature []byte // armored, of Bytes, made for [signature.DocumentNamespace]; nil: none was given
	// Bases are the digests of the documents that this one follows on, one after the other; none: that is not known.
	Bases []string
}

// HandDocument makes a document without a commit the last-known-good copy, as one that was handed over. There is no history to judge it
// by: it is judged as one change from what is held, its generation must be above that, where the held registry asks for signatures
// somebody whom that names has to have signed the file that it came in, and where it is said what the document follows on, what is held has
// to be among that.
func HandDocument(st *store.Store, document *fleet.Snapshot, from File) error {
	held := st.Snapshot()
	if held == nil {
		return errors.New("this host holds no registry that a document could follow on")
	}
	if trust := held.Registry.Trust; trust != nil && trust.Mode != fleet.TrustNone {
		if refusal := signature.VouchDocument(*trust, from.Bytes, from.Signature); refusal != nil {
			return errors.New(sayUnsigned(trust.Mode, refusal.Finding()))
		}
	}
	if len(from.Bases) > 0 && !slices.Contains(from.Bases, held.Digest) {
		return errors.New(sayForkedDocument(from.Bases, held))
	}
	findings := policies.Judge(
		policies.Revision{Registry: held.Registry, Document: held.Document, Digest: held.Digest},
		policies.Revision{Registry: document.Registry, Document: document.Document, Digest: document.Digest, Gap: policies.GapUnknown},
	)
	if findings.Refuses() {
		return errors.New(sayDocument(findings))
	}
	next := *document
	next.Commit, next.Provenance, next.AdmittedAt = "", fleet.ProvenanceHandedOver, time.Now().UTC()
	return st.Put(&next)
}
