package authority

import (
	"math"

	"stado.internal/stado/fleet"
)

// JoinKind is what brings two histories together. None of them moves a branch to what does not descend from it.
type JoinKind string

// The kinds.
const (
	JoinNothing JoinKind = "nothing"
	JoinPush    JoinKind = "push"  // theirs is behind: push ours, without force
	JoinAdopt   JoinKind = "adopt" // ours is behind
	JoinMerge   JoinKind = "merge" // a commit with both as parents, which every host of either side can follow to
)

// Join is how two histories are brought together. The last fields are of a merge.
type Join struct {
	Kind JoinKind
	// Parents are in their order. The document is that of the first one, with the role moved to Authority if it names another; what the
	// second one has beyond it is merged when the role does not move, and is a change of its own, made right after, when it does: a
	// document in which the role moves changes nothing else.
	Parents    [2]Head
	Authority  fleet.HostName   // makes the commit, under a claim of [KindHeal]
	Generation fleet.Generation // at least; a claim may need a higher one
}

// PlanJoin plans the join of what this side holds with what another side holds. relation is of theirs to ours. The side that moved stands,
// told by the higher epoch; when both moved, prefer names the authority that a person chose, and the role moves to it once more, so that
// the epoch is higher than on either side.
func PlanJoin(ours, theirs Head, relation Relation, prefer fleet.HostName) (Join, error) {
	switch relation {
	case Equal:
		return Join{Kind: JoinNothing}, nil
	case Behind:
		return Join{Kind: JoinPush}, nil
	case Ahead:
		return Join{Kind: JoinAdopt}, nil
	case Unknown:
		return Join{}, refuse(ReasonForked, sayUnrelated(ours, theirs))
	case Forked:
	}
	higher := max(ours.Generation, theirs.Generation)
	if higher == math.MaxUint64 {
		return Join{}, refuse(ReasonExhausted, sayExhausted)
	}
	j := Join{Kind: JoinMerge, Parents: [2]Head{ours, theirs}, Generation: higher + 1}
	switch {
	case ours.Epoch > theirs.Epoch:
		j.Authority = ours.Authority
	case theirs.Epoch > ours.Epoch:
		j.Authority, j.Parents = theirs.Authority, [2]Head{theirs, ours}
	case ours.Authority == theirs.Authority: // nobody moved: one authority's history was rewritten
		j.Authority = ours.Authority
		if theirs.Generation > ours.Generation {
			j.Parents = [2]Head{theirs, ours}
		}
	case prefer == ours.Authority:
		j.Authority, j.Parents = prefer, [2]Head{theirs, ours}
	case prefer == theirs.Authority:
		j.Authority = prefer
	default:
		return Join{}, refuse(ReasonPrefer, sayPrefer(ours, theirs))
	}
	return j, nil
}
