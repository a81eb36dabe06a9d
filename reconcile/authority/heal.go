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
	Kind       JoinKind
	Parents    [2]Head          // the first one's authority stands; the second is joined to it
	Authority  fleet.HostName   // makes the commit, under a claim of [KindHeal]
	Generation fleet.Generation // at least; a claim may need a higher one
	Epoch      uint64
}

// PlanJoin plans the join of what this side holds with what another side holds. relation is of theirs to ours. The side that moved stands,
// told by the higher epoch; when both moved, prefer names the authority that a person chose.
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
	j := Join{Kind: JoinMerge, Parents: [2]Head{ours, theirs}, Epoch: max(ours.Epoch, theirs.Epoch)}
	higher := max(ours.Generation, theirs.Generation)
	if higher == math.MaxUint64 {
		return Join{}, refuse(ReasonExhausted, sayExhausted)
	}
	j.Generation = higher + 1
	switch {
	case ours.Epoch > theirs.Epoch:
	case theirs.Epoch > ours.Epoch:
		j.Parents[0], j.Parents[1] = theirs, ours
	case ours.Authority == theirs.Authority: // nobody moved: one authority's history was rewritten
		if theirs.Generation > ours.Generation {
			j.Parents[0], j.Parents[1] = theirs, ours
		}
	case prefer == ours.Authority:
		j.Epoch++
	case prefer == theirs.Authority:
		j.Epoch++
		j.Parents[0], j.Parents[1] = theirs, ours
	default:
		return Join{}, refuse(ReasonPrefer, sayPrefer(ours, theirs))
	}
	j.Authority = j.Parents[0].Authority
	return j, nil
}
