package authority

import "stado.internal/stado/fleet"

// Peer is what another host holds, as a host that believes it is the authority learns it: after a start before it serves as the authority,
// and then on every refresh.
type Peer struct {
	Host     fleet.HostName
	Held     Head
	Relation Relation // of that to what this host holds
	Base     string   // of Forked: the commit that both histories have; empty when they have none
}

// Duty is what a host has to do as the authority.
type Duty string

// The duties.
const (
	DutyServe    Duty = "serve"
	DutyAdopt    Duty = "adopt"     // a newer registry of the same history, which still names this host
	DutyStepDown Duty = "step-down" // the role has moved: stop answering as the authority and refuse writes at once, even while a promise keeps the registry away, and adopt it unless the histories have forked
	DutyDispute  Duty = "dispute"   // serve reads, refuse writes: the histories have forked and a person joins them
)

// Review is the duty of a host whose registry names it as the authority.
type Review struct {
	Duty     Duty
	Forked   bool           // of DutyStepDown: this host went on by itself, so nothing is adopted until a person joins the two histories
	From     fleet.HostName // of DutyAdopt and DutyStepDown: who holds the registry; of DutyDispute: who holds the other history
	Head     Head           // what it is
	Sentence string         // of DutyStepDown and DutyDispute
}

// SteppedDown is the review of a host that holds a registry which names another authority, where it had the role before.
func SteppedDown(held Head) Review {
	return Review{Duty: DutyStepDown, Head: held, Sentence: sayStepDown(held)}
}

// ReviewPeers finds the duty. A newer registry of this host's own history comes before a fork: it is adopted, and the fork is judged from
// there. A fork counts when the role has moved in it once more: then this host's own later commits are what nobody takes, and it has lost
// the role as well. When it has moved as often on both sides, a fork counts when its number is not below. One in which it has moved less
// often is of a host that is itself to step down.
func ReviewPeers(held Head, peers []Peer) Review {
	var newer, fork Peer
	for _, p := range peers {
		switch {
		case p.Relation == Ahead && p.Held.Generation > max(held.Generation, newer.Held.Generation):
			newer = p
		case p.Relation == Forked && !p.below(Peer{Held: held}) && fork.below(p):
			fork = p
		}
	}
	switch {
	case newer.Host != "" && newer.Held.Authority == held.Authority:
		return Review{Duty: DutyAdopt, From: newer.Host, Head: newer.Held}
	case newer.Host != "":
		return Review{Duty: DutyStepDown, From: newer.Host, Head: newer.Held, Sentence: sayStepDown(newer.Held)}
	case fork.Host != "" && fork.Held.Epoch > held.Epoch:
		return Review{Duty: DutyStepDown, Forked: true, From: fork.Host, Head: fork.Held, Sentence: sayStepDownForked(held, fork)}
	case fork.Host != "":
		return Review{Duty: DutyDispute, From: fork.Host, Head: fork.Held, Sentence: sayDispute(held, fork)}
	}
	return Review{Duty: DutyServe}
}

// below reports whether another one counts more: the one in which the role has moved most often, then the higher number.
func (p Peer) below(other Peer) bool {
	if p.Held.Epoch != other.Held.Epoch {
		return p.Held.Epoch < other.Held.Epoch
	}
	return p.Held.Generation < other.Held.Generation
}
