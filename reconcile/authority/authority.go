// Package authority holds the rules by which the authority role moves: which host grants a claim, when a move may go on, what a moved
// registry says, who takes it, when an old authority steps down, and how two histories are joined.
//
// All of it is pure: values in, values and sentences out. Callers ask hosts, write files and commits, and keep the time. What a decision
// says must be durable is written before anything that follows from it is done, said or answered; that order is the whole safety of the
// rules, and their model (model_test.go) crashes hosts at each such write.
//
// A generation is a ballot. A host promises each to one claim only, and never takes a lower or equal document from anybody else while
// the promise stands. With the quorum "majority", counted over all registered hosts, no generation has two documents, provided that the
// authority claims its own changes as well ([BeginEdit]). Without it that holds as long as the movers can reach one host in common.
package authority

import (
	"net/url"
	"strings"

	"stado.internal/stado/fleet"
)

// Head names a registry that somebody holds.
type Head struct {
	Commit     string           `json:"commit,omitempty"` // empty for a document that was handed over without one
	Generation fleet.Generation `json:"generation"`
	Epoch      uint64           `json:"epoch,omitempty"`
	Digest     string           `json:"digest"`
	Authority  fleet.HostName   `json:"authority,omitempty"` // as [HostOf] names it
}

// HeadOf is the head of a snapshot, the zero one for nil.
func HeadOf(s *fleet.Snapshot) Head {
	if s.Generation() == 0 {
		return Head{}
	}
	a := s.Registry.Directory.Authority
	return Head{Commit: s.Commit, Generation: s.Generation(), Epoch: a.Epoch, Digest: s.Digest, Authority: HostOf(a)}
}

// hostAuthority is the host of the fleet that a copy names as the authority, empty for a forge and for none.
func hostAuthority(s *fleet.Snapshot) fleet.HostName {
	if s == nil || s.Registry == nil {
		return ""
	}
	return s.Registry.Directory.Authority.Host
}

// HostOf names an authority in sentences and receipts: the host of the fleet, or the host of the forge's URL; empty for none.
func HostOf(a fleet.Authority) fleet.HostName {
	if a.Host != "" {
		return a.Host
	}
	if strings.Contains(a.Remote, "://") {
		u, err := url.Parse(a.Remote)
		if err != nil {
			return ""
		}
		return fleet.HostName(u.Hostname())
	}
	// git's short form, user@host:path
	if host, _, ok := strings.Cut(a.Remote, ":"); ok && !strings.Contains(host, "/") {
		return fleet.HostName(host[strings.LastIndexByte(host, '@')+1:])
	}
	return ""
}

// Relation is how one commit stands to another in their history.
type Relation string

// The relations.
const (
	Unknown Relation = "" // one of them is not known here, or came without a commit
	Equal   Relation = "equal"
	Ahead   Relation = "ahead" // a descendant of the other
	Behind  Relation = "behind"
	Forked  Relation = "forked"
)

// Reading is one read of the authority, as far as it is done.
type Reading struct {
	Cause   string // why no complete snapshot came within the bound; empty when one did
	Refused string // what the fence, the judges or a promise ([Promise.Keeps]) say against it; empty when it is admitted, is what is held, or waits for its generation only
}

// Answers reports whether the authority answers: whether a complete snapshot came within its bound that the fence would admit or that is
// the held document. When it does not, cause says what it did instead.
func (r Reading) Answers() (cause string, answers bool) {
	if r.Cause != "" {
		return r.Cause, false
	}
	return r.Refused, r.Refused == ""
}

// Reason is why something was refused, for programs. [Refusal] has the sentence.
type Reason string

// The reasons.
const (
	ReasonRecovering   Reason = "recovering"        // the host lost its anchor, so it does not know what it has promised
	ReasonUnregistered Reason = "unregistered"      // no host of the registry
	ReasonHolds        Reason = "holds"             // the generation, or a higher one, is held already
	ReasonPromised     Reason = "promised"          // the generation, or a higher one, is promised to another claim
	ReasonEnded        Reason = "ended"             // this very claim was given back, or lapsed
	ReasonLeap         Reason = "leap"              // too far above what is held
	ReasonForked       Reason = "forked"            // what is held is not in the history of what is offered
	ReasonAnswers      Reason = "authority-answers" // the role moves through an authority that answers
	ReasonNoQuorum     Reason = "no-quorum"
	ReasonWrongHost    Reason = "wrong-host"
	ReasonAlready      Reason = "already-authority"
	ReasonNoCopy       Reason = "no-copy"
	ReasonNoAuthority  Reason = "no-authority" // the copy names none
	ReasonNotAbove     Reason = "not-above"
	ReasonUnfinished   Reason = "unfinished" // another move stands
	ReasonOvertaken    Reason = "overtaken"  // by a document of the same or a higher generation
	ReasonWritten      Reason = "written"    // too late to abandon
	ReasonLost         Reason = "lost"       // the anchor is not the one that the move began on
	ReasonPrefer       Reason = "prefer"     // the operator must choose
	ReasonExhausted    Reason = "exhausted"  // the last generation is used
)

// Refusal says what was refused and why; nothing was changed.
type Refusal struct {
	Reason   Reason
	Sentence string
}

// Error is the sentence.
func (r *Refusal) Error() string { return r.Sentence }

func refuse(reason Reason, sentence string) *Refusal { return &Refusal{reason, sentence} }
