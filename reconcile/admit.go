package reconcile

import (
	"slices"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/signature"
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
	kept     bool              // what would be held is kept away by a promise; what follows on it may not be
	blocked  bool              // the refusal is for want of a signature, and holds for whatever of the offer is still to come
}

// walk takes the first-parent commits of an offer one by one, oldest first, each judged against the commit before it, so that a week of
// changes is a week of small judgements. What was refused is left out: the next commit is judged against the last good one. It is pure
// but for now, and for own and vouch, which ask a child.
type walk struct {
	judge func(previous, next policies.Revision) fleet.Findings
	// own applies the policies of the fleet's own that previous holds; nil when there is nobody to ask.
	own func(previous, next policies.Revision) (fleet.Findings, error)
	// vouch asks a child which commits a trust vouches for, as [signature.Guard] does.
	vouch    func(since string, commits []string, trust fleet.Trust) (int, *signature.Refusal, error)
	now      time.Time
	standing Standing
	trust    *fleet.Trust // of the document that stands
	trail    trail
	reset    bool // a person accepts a history that does not descend from the held commit: its ancestry alone is not asked about
	wanted   bool // the store lacks the held document and takes it from whichever commit carries it
	out      outcome
	err      error // a child could not be asked: nothing of the offer counts
}

// trail is where a walk is: what the next commit is judged against, which may be a change that still waits for its generation, and the
// commit before it, whether it was refused or not.
type trail struct {
	previous policies.Revision
	last     string
	of       string // the name of the source
}

// admit judges an offer against the anchor and the document that is served, which may be older than the anchor, or nil. When the offer
// goes on where an earlier one broke off, behind is the trail of that one.
func (w *walk) admit(held store.Held, served *fleet.Snapshot, offer source.Offer, behind trail) (outcome, error) {
	w.standing = Standing{Commit: held.Commit, Generation: held.Generation, Digest: held.Digest}
	if w.reset {
		w.standing.Commit = ""
	}
	w.wanted = held.Generation > 0 && (served == nil || served.Digest != held.Digest)
	if served != nil {
		w.standing.Stamped, w.trust = stamped(served.Registry), served.Registry.Trust
	}
	if len(offer.Steps) > 0 && behind.last != "" && behind.last == offer.Steps[0].Parent {
		w.trail = behind
	} else if served != nil {
		w.trail.previous = policies.Revision{Registry: served.Registry, Document: served.Document, Digest: served.Digest}
		if !w.wanted {
			w.trail.previous.Commit, w.trail.previous.OwnPolicies = held.Commit, offer.Policies
		}
		w.trail.last = w.trail.previous.Commit
	}
	guard := signature.Guard{Ask: w.vouch, Since: w.standing.Commit, Commits: commits(offer.Steps)}
	for i, s := range offer.Steps {
		w.out.refusal, w.out.pending, w.out.blocked = nil, false, false
		if s, ok := w.signed(&guard, i, s, offer); ok {
			w.step(s, offer)
		}
		if w.err != nil {
			return outcome{}, w.err
		}
		w.trail.last = s.Commit
	}
	return w.out, nil
}

// signed judges a step's signature before anything else of it: what a commit without one says, and what is said of it, is a stranger's
// text. Of a commit that does not descend from the held one nothing can be admitted, so only that text is left out.
func (w *walk) signed(guard *signature.Guard, i int, s source.Step, offer source.Offer) (source.Step, bool) {
	if !offer.Descends && w.standing.Commit != "" {
		if w.trust != nil && w.trust.Mode != fleet.TrustNone {
			s.Findings = nil
		}
		return s, true
	}
	refusal, err := guard.Pass(i, w.trust)
	if err != nil {
		w.err = err
	}
	if refusal == nil {
		return s, err == nil
	}
	w.refuseFindings(refusal.Commit, fleet.Findings{refusal.Finding()})
	w.out.blocked = true
	return s, false
}

func commits(steps []source.Step) []string {
	ids := make([]string, len(steps))
	for i, s := range steps {
		ids[i] = s.Commit
	}
	return ids
}

func (w *walk) step(s source.Step, offer source.Offer) {
	offered := Offered{Commit: s.Commit, Generation: s.Generation, Digest: s.Digest, Descends: offer.Descends, MergeBase: offer.MergeBase}
	if len(s.Document) == 0 {
		w.unreadable(s, offered)
		return
	}
	registry, err := s.Registry, error(nil)
	if registry == nil {
		registry, err = fleet.DecodeAfter(w.trail.previous.Registry, w.trail.previous.Document, s.Document)
	}
	if err != nil {
		w.refuse(ruleDocument, s.Commit, err.Error(), s.Findings)
		return
	}
	next := policies.Revision{
		Registry: registry, Document: s.Document, Digest: s.Digest, Positions: s.Positions,
		AllowEmptyFleet: s.Trailers[source.TrailerAllow] == source.AllowEmptyFleet,
		TakesNumber:     source.TakesNumber(s.Trailers[source.TrailerKind]),
		Gap:             w.gap(s), Commit: s.Commit, OwnPolicies: s.Policies,
	}
	switch v := Fence(w.standing, offered); v.Kind {
	case Same, Advance:
		if v.Kind == Advance && !w.wanted && s.Findings.Refuses() {
			w.refuseFindings(s.Commit, s.Findings) // the document is as before, and how it is written down is not in order
			return
		}
		w.confirm(s, next, v.Kind)
	case Pending:
		if w.passes(s, next) {
			w.out.pending = true
			w.trail.previous = next
		}
	case Adopt:
		if w.passes(s, next) {
			w.adopt(s, next)
		}
	case Rollback, Reused, Fork, Leap:
		findings := s.Findings
		if offered.Descends { // a change that somebody made to the held document, with a mistake to point at
			findings = w.judged(s, next)
		}
		w.refuse(v.Kind.Rule(), s.Commit, v.Sentence, findings)
	}
}

// gap is how a step follows on what it is judged against.
func (w *walk) gap(s source.Step) policies.Gap {
	if w.reset {
		return policies.GapUnknown
	}
	return policies.GapBetween(w.trail.previous.Commit, w.trail.last, s.Parent)
}

// passes judges a step by everything there is, and refuses it when something speaks against it.
func (w *walk) passes(s source.Step, next policies.Revision) bool {
	findings := w.judged(s, next)
	if w.trail.previous.OwnPolicies && w.own != nil {
		own, err := w.own(w.trail.previous, next)
		if err != nil {
			w.err = err
			return false
		}
		findings = policies.Together(findings, own.Clean())
	}
	if findings.Refuses() {
		w.refuseFindings(s.Commit, findings)
		return false
	}
	return true
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
	findings := slices.Concat(s.Findings, w.judge(w.trail.previous, next).Clean())
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
	w.trust = next.Registry.Trust
	w.trail.previous = next
	w.wanted = false
}

// confirm notes that a commit carries the document that stands.
func (w *walk) confirm(s source.Step, next policies.Revision, kind Kind) {
	if w.wanted || kind == Advance {
		w.trail.previous = next
	}
	switch {
	case w.wanted:
		w.out.final = w.snapshot(s, next.Registry)
		w.standing.Stamped, w.trust = stamped(next.Registry), next.Registry.Trust
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
		Commit: s.Commit, Digest: s.Digest, Document: s.Document, Registry: registry, Parts: s.Parts,
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
