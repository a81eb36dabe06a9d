package signature

import (
	"errors"
	"reflect"

	"stado.internal/stado/fleet"
)

// Guard goes along with a walk over commits and holds each of them against the trust that is in force when its turn comes: that of the
// document which was admitted last. One answer stands for as long as that trust does.
type Guard struct {
	// Ask is [Vouch] over the chain from since to the tip of the branch, of which commits are a part, for those of commits.
	Ask func(since string, commits []string, trust fleet.Trust) (int, *Refusal, error)
	// Since is the commit that is held, "" when it is not known. It is vouched for.
	Since string
	// Commits are those of the walk, oldest first.
	Commits []string

	trust   *fleet.Trust // of the answer; nil when there is none
	end     int          // the first of Commits that is not vouched for
	refusal *Refusal
}

// Pass gives the reason why the trust in force, nil when the registry has none, does not vouch for the commit i of the walk; nil when it
// does. It is called with rising i.
func (g *Guard) Pass(i int, trust *fleet.Trust) (*Refusal, error) {
	if trust == nil || trust.Mode == fleet.TrustNone || g.Commits[i] == g.Since {
		g.trust, g.Since = nil, g.Commits[i]
		return nil, nil
	}
	if g.trust == nil || !reflect.DeepEqual(*g.trust, *trust) {
		if g.trust != nil {
			g.Since = g.Commits[i-1] // with which the trust changed
		}
		n, refusal, err := g.Ask(g.Since, g.Commits[i:], *trust)
		if err != nil {
			return nil, err
		}
		if n < len(g.Commits)-i && refusal == nil {
			return nil, errors.New(sayNoReason)
		}
		g.trust, g.end, g.refusal = trust, i+n, refusal
	}
	if i < g.end {
		return nil, nil
	}
	return g.refusal, nil
}
