package authority

import "stado.internal/stado/fleet"

// Peer is what another host holds, as a host that believes it is the authority learns it: after a start before it serves as the authority,
// and then on every refresh.
type Peer struct {
	Host     fleet.HostName
	Held     Head
	Relation Relation // of that to what this host holds
}

// Duty is what a host has to do as the authority.
type Duty string

// The duties.
const (
	DutyServe    Duty = "serve"
	DutyAdopt    Duty = "adopt"     // a newer registry of the same history, which still names this host
	DutyStepDown Duty = "step-down" // adopt a newer registry of the same history, which names another authority, and ask that one from now on; stop answering as the authority at once, even while a promise keeps the registry away
	DutyDispute  Duty = "dispute"   // serve reads, refuse writes: the histories have forked and a person joins them
)

// Review is the duty of a host whose registry names it as the authority.
type Review struct {
	Duty     Duty
	From     fleet.HostName // of DutyAdopt and DutyStepDown: who holds the registry; of DutyDispute: who holds the other history
	Head     Head           // what it is
	Sentence string         // of DutyStepDown and DutyDispute
}

// ReviewPeers finds the duty. A newer registry of this host's own history comes before a fork: it is adopted, and the fork is judged from
// there. A fork counts when its number is not below, and when the role has moved in it once more: then this host's own later commits are
// what nobody takes.
func ReviewPeers(held Head, peers []Peer) Review {
	var newer, fork Peer
	for _, p := range peers {
		switch {
		case p.Relation == Ahead && p.Held.Generation > max(held.Generation, newer.Held.Generation):
			newer = p
		case p.Relation == Forked && (p.Held.Generation >= held.Generation || p.Held.Epoch > held.Epoch) && p.Held.Generation > fork.Held.Generation:
			fork = p
		}
	}
	switch {
	case newer.Host != "" && newer.Held.Authority == held.Authority:
		return Review{Duty: DutyAdopt, From: newer.Host, Head: newer.Held}
	case newer.Host != "":
		return Review{Duty: DutyStepDown, From: newer.Host, Head: newer.Held, Sentence: sayStepDown(newer.Held)}
	case fork.Host != "":
		return Review{Duty: DutyDispute, From: fork.Host, Head: fork.Held, Sentence: sayDispute(held, fork)}
	}
	return Review{Duty: DutyServe}
}
