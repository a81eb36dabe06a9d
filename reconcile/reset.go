package reconcile

import (
	"context"
	"strings"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// Reset is the tip of an authority whose history was reset, judged by everything but its ancestry. Nothing was written.
type Reset struct {
	Held       store.Held
	Commit     string
	Generation fleet.Generation
	MergeBase  string // with the held commit; empty when there is none, or none is known here

	snapshot  *fleet.Snapshot
	admission store.Admission
}

// AskReset reads a source and judges its tip, which must be the commit that a person has named in full, as the one to go on from although
// it does not descend from the held commit. Every other rule stands: a generation that does not rise is refused, unless it is the held
// document itself, as is one that leaps, or is promised to somebody; the held document's trust must vouch for the commit; and it is judged as
// one change from what is held. Not applied are the limits on one change and the policies of the fleet's own, since what lies between is not
// known. A refusal is a [*ResetError]; another error says that the source could not be read.
func AskReset(ctx context.Context, st *store.Store, src Source, commit string) (Reset, error) {
	held, ok := st.Held()
	switch {
	case !ok:
		return Reset{}, &ResetError{Sentence: sayNothingToReset}
	case held.Commit == "":
		return Reset{}, &ResetError{Sentence: sayHeldWithoutRoot}
	}
	offer, err := src.Poll(ctx, source.Anchor{Commit: held.Commit, Generation: held.Generation, Digest: held.Digest})
	switch {
	case err != nil:
		return Reset{}, err
	case offer.Tip != commit:
		return Reset{}, &ResetError{Sentence: sayOtherTip(commit, offer.Tip)}
	case offer.Descends || len(offer.Steps) != 1:
		return Reset{}, &ResetError{Sentence: sayNoReset(commit, held.Commit)}
	}
	w := walk{reset: true, judge: policies.Judge, now: time.Now().UTC(), vouch: func(since string, commits []string, trust fleet.Trust) (int, *signature.Refusal, error) {
		return src.Vouch(ctx, source.Question{Since: since, Tip: offer.Tip, Commits: commits, Trust: trust})
	}}
	served := st.Snapshot()
	out, err := w.admit(held, served, offer, trail{})
	if err != nil {
		return Reset{}, err
	}
	r := Reset{Held: held, Commit: commit, Generation: offer.Steps[0].Generation, MergeBase: offer.MergeBase}
	switch out = promised(held.Promised, out, offer, w.now); {
	case out.refusal != nil:
		return r, &ResetError{Rule: out.refusal.Rule, Sentence: out.refusal.Sentence}
	case out.pending:
		return r, &ResetError{Rule: RulePending, Sentence: sayPendingLong(commit)}
	case out.final != nil:
		r.snapshot = out.final
	default: // the held document, on another history
		moved := *served
		r.snapshot = &moved
	}
	r.snapshot.Commit, r.snapshot.Provenance = commit, fleet.ProvenanceFetched
	step := offer.Steps[0]
	r.admission = store.Admission{
		At: w.now, Generation: step.Generation, Commit: commit, Digest: step.Digest, Provenance: fleet.ProvenanceFetched, Author: step.Author, Subject: step.Subject,
	}
	return r, nil
}

// Accept holds what was judged, with the person's reason. It is refused, with [store.ErrOutdated], when another process has written the
// store since. A running agent takes it on its next refresh.
func (r Reset) Accept(st *store.Store, reason string) error {
	if held, _ := st.Held(); held.Digest != r.Held.Digest || held.Commit != r.Held.Commit {
		return store.ErrOutdated
	}
	return st.Accept(r.snapshot, store.Reset{
		Commit: r.Commit, FromCommit: r.Held.Commit, FromGeneration: r.Held.Generation, Reason: reason, At: r.admission.At,
	}, r.admission)
}

// ResetError says why a commit is not accepted, whoever asks for it.
type ResetError struct {
	Rule     string // empty where no rule of an admission refuses
	Sentence string
}

// Error is the sentence, after its rule where it does not name that itself.
func (e *ResetError) Error() string {
	if e.Rule == "" || strings.Contains(e.Sentence, e.Rule+": ") {
		return e.Sentence
	}
	return e.Rule + ": " + e.Sentence
}

// lookAtReset says once that what is held was accepted on a person's word.
func (l *loop) lookAtReset() {
	held, _ := l.opts.Store.Held()
	switch r := held.Reset; {
	case r == nil:
		l.reset = time.Time{}
	case !r.At.Equal(l.reset):
		l.reset = r.At
		l.opts.Log.Warn(sayReset(held.Generation, *r))
	}
}
