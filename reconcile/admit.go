package reconcile

import (
	"slices"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// ruleDocument refuses a compiled document that this build cannot decode.
const ruleDocument = "STADO-DOC-001"

// maxSentence bounds the sentence of a refusal, which is written to a log, a status document and terminals: a finding with all its parts,
// each at its longest, and the words around it.
const maxSentence = 4 * fleet.MaxText

// Refusal is an offered commit, or a part of this host's own store, that was refused and still stands.
type Refusal struct {
	Rule     string
	Commit   string // empty for a refusal that is not about a commit
	Sentence string
	Since    time.Time
	Findings fleet.Findings
}

// outcome is what one offer amounts to.
type outcome struct {
	admitted []store.Admission // oldest first
	final    *fleet.Snapshot   // what the store should hold now; nil: what it holds already
	observed string            // when final is nil: the descendant commit that carries the held document
	refusal  *Refusal          // of the tip; what was refused before a later good commit does not stand
	pending  bool              // the tip waits for its generation
}

// walk takes the first-parent commits of an offer one by one, oldest first, each judged against the last admitted document, so that a
// week of changes is a week of small judgements. It is pure but for now.
type walk struct {
	judge    func(previous, next policies.Revision) fleet.Findings
	now      time.Time
	standing Standing
	previous policies.Revision
	wanted   bool // the store lacks the held document and takes it from whichever commit carries it
	out      outcome
}

// admit judges an offer against the anchor and the document that is served, which may be older than the anchor, or nil.
func (w *walk) admit(held store.Held, served *fleet.Snapshot, offer source.Offer) outcome {
	w.standing = Standing{Commit: held.Commit, Generation: held.Generation, Digest: held.Digest}
	w.wanted = held.Generation > 0 && (served == nil || served.Digest != held.Digest)
	if served != nil {
		w.standing.Stamped = stamped(served.Registry)
		w.previous = policies.Revision{Registry: served.Registry, Digest: served.Digest}
	}
	for _, s := range offer.Steps {
		w.step(s, offer)
	}
	return w.out
}

func (w *walk) step(s source.Step, offer source.Offer) {
	w.out.refusal, w.out.pending = nil, false
	offered := Offered{Commit: s.Commit, Generation: s.Generation, Digest: s.Digest, Descends: offer.Descends, MergeBase: offer.MergeBase}
	if len(s.Document) == 0 {
		w.unreadable(s, offered)
		return
	}
	registry, err := fleet.Decode(s.Document)
	if err != nil {
		w.refuse(ruleDocument, s.Commit, err.Error(), s.Findings)
		return
	}
	next := policies.Revision{
		Registry: registry, Digest: s.Digest, Positions: s.Positions,
		AllowEmptyFleet: s.Trailers[source.TrailerAllow] == source.AllowEmptyFleet,
	}
	switch v := Fence(w.standing, offered); v.Kind {
	case Same, Advance:
		w.confirm(s, registry, v.Kind)
	case Pending:
		if s.Findings.Refuses() {
			w.refuseFindings(s.Commit, s.Findings)
			return
		}
		w.out.pending = true
	case Adopt:
		if findings := w.judged(s, next); findings.Refuses() {
			w.refuseFindings(s.Commit, findings)
			return
		}
		w.adopt(s, next)
	case Rollback, Reused, Fork, Leap:
		findings := s.Findings
		if offered.Descends { // a change that somebody made to the held document, with a mistake to point at
			findings = w.judged(s, next)
		}
		w.refuse(v.Kind.Rule(), s.Commit, v.Sentence, findings)
	}
}

// unreadable refuses a commit that does not compile. That it is on a rewritten history is worse than what is wrong in it.
func (w *walk) unreadable(s source.Step, offered Offered) {
	if w.standing.Generation > 0 && w.standing.Commit != "" && !offered.Descends {
		w.refuse(RuleFork, s.Commit, sayFork(w.standing, offered), s.Findings)
		return
	}
	w.refuseFindings(s.Commit, s.Findings)
}

func (w *walk) judged(s source.Step, next policies.Revision) fleet.Findings {
	findings := slices.Concat(s.Findings, w.judge(w.previous, next).Clean())
	findings.Sort()
	return findings
}

func (w *walk) adopt(s source.Step, next policies.Revision) {
	w.out.final = w.snapshot(s, next.Registry)
	w.out.observed = ""
	w.out.admitted = append(w.out.admitted, store.Admission{
		At: w.now, Generation: s.Generation, Commit: s.Commit, Digest: s.Digest,
		Provenance: fleet.ProvenanceFetched, Author: s.Author, Subject: s.Subject,
	})
	w.standing = Standing{Commit: s.Commit, Generation: s.Generation, Digest: s.Digest, Stamped: stamped(next.Registry)}
	w.previous = policies.Revision{Registry: next.Registry, Digest: next.Digest, Positions: next.Positions}
	w.wanted = false
}

// confirm notes that a commit carries the document that stands.
func (w *walk) confirm(s source.Step, registry *fleet.Registry, kind Kind) {
	switch {
	case w.wanted:
		w.out.final = w.snapshot(s, registry)
		w.standing.Stamped = stamped(registry)
		w.previous = policies.Revision{Registry: registry, Digest: s.Digest, Positions: s.Positions}
		w.wanted = false
		if kind == Same { // an equal document of another history does not move the anchor
			w.out.final.Commit = w.standing.Commit
			return
		}
	case kind == Same:
		return
	case w.out.final != nil:
		w.out.final.Commit = s.Commit
	default:
		w.out.observed = s.Commit
	}
	w.standing.Commit = s.Commit
}

func (w *walk) snapshot(s source.Step, registry *fleet.Registry) *fleet.Snapshot {
	return &fleet.Snapshot{
		Commit: s.Commit, Digest: s.Digest, Document: s.Document, Registry: registry,
		AdmittedAt: w.now, Provenance: fleet.ProvenanceFetched,
	}
}

func (w *walk) refuseFindings(commit string, findings fleet.Findings) {
	rule := ruleDocument
	if i := slices.IndexFunc(findings, func(f fleet.Finding) bool { return f.Severity == fleet.SeverityError }); i >= 0 {
		rule = findings[i].Rule
	}
	w.refuse(rule, commit, sayFindings(commit, findings), findings)
}

func (w *walk) refuse(rule, commit, sentence string, findings fleet.Findings) {
	w.out.refusal = &Refusal{Rule: rule, Commit: commit, Sentence: fleet.OneLine(sentence, maxSentence), Since: w.now, Findings: findings}
}

func stamped(r *fleet.Registry) bool { return r.Policies.GenerationMode == fleet.GenerationStamped }
