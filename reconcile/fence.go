package reconcile

import "stado.internal/stado/fleet"

// Kind is a verdict of the fence.
type Kind string

// The verdicts. Only [Adopt] may replace the held document; [Same] and [Advance] confirm it.
const (
	Adopt    Kind = "adopt"
	Same     Kind = "same"
	Advance  Kind = "advance-commit" // the held document under a descendant commit
	Pending  Kind = "pending"        // a change that waits for its generation to be stamped
	Rollback Kind = "rollback"
	Reused   Kind = "reused"
	Fork     Kind = "fork"
	Leap     Kind = "leap"
)

// Rules of the verdicts that refuse or wait.
const (
	RuleRollback = "STADO-FENCE-001"
	RuleReused   = "STADO-FENCE-002"
	RuleFork     = "STADO-FENCE-003"
	RuleLeap     = "STADO-FENCE-004"
	RulePending  = "STADO-FENCE-005"
	RulePromised = "STADO-FENCE-006" // the generation is promised to another mover
)

// Rule is the stable id under which the verdict is reported, empty for those that admit or confirm.
func (k Kind) Rule() string {
	switch k {
	case Rollback:
		return RuleRollback
	case Reused:
		return RuleReused
	case Fork:
		return RuleFork
	case Leap:
		return RuleLeap
	case Pending:
		return RulePending
	case Adopt, Same, Advance:
	}
	return ""
}

// Standing is what the fence compares an offer with. The zero value, nothing held, admits every generation.
type Standing struct {
	Commit     string // empty for a document that came without one: its ancestry cannot be judged
	Generation fleet.Generation
	Digest     string
	Stamped    bool // the held document's policies.generation_mode
}

// Offered is a compiled document under judgement.
type Offered struct {
	Commit     string
	Generation fleet.Generation
	Digest     string
	Descends   bool   // from the standing commit
	MergeBase  string // with the standing commit, empty when there is none; read only when it does not descend
}

// Verdict is what the fence says of an offer. Sentence is empty for the verdicts that admit or confirm.
type Verdict struct {
	Kind     Kind
	Sentence string
}

// Fence compares an offer with what is held: by generation, digest and ancestry, never by a clock. It is pure.
func Fence(held Standing, offered Offered) Verdict {
	descends := offered.Descends || held.Commit == ""
	switch {
	case held.Generation == 0:
		return Verdict{Kind: Adopt}
	case offered.Generation < held.Generation:
		return Verdict{Rollback, sayRollback(offered.Generation, held.Generation)}
	case offered.Generation == held.Generation && offered.Digest == held.Digest:
		if descends && offered.Commit != held.Commit {
			return Verdict{Kind: Advance}
		}
		return Verdict{Kind: Same}
	case offered.Generation == held.Generation && descends && held.Stamped:
		return Verdict{Pending, sayPending}
	case offered.Generation == held.Generation:
		return Verdict{Reused, sayReused(held.Generation, held.Digest, offered.Digest)}
	case !descends:
		return Verdict{Fork, sayFork(held, offered)}
	case offered.Generation-held.Generation > fleet.MaxLeap:
		return Verdict{Leap, sayLeap(offered.Generation, held.Generation)}
	}
	return Verdict{Kind: Adopt}
}
