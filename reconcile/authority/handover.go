package authority

import "stado.internal/stado/fleet"

// Push is `stado registry push PATH|- --last-known-good`: a registry handed to a host whose authority does not answer.
type Push struct {
	Path string // of the document; "-" is stdin

	Self      fleet.HostName
	Copy      *fleet.Snapshot // the last-known-good copy; nil when there is none
	CopyError string          // why the copy cannot be read; empty when it can, or when there is none
	Promised  *Promise
	Authority Reading // this host's read of the authority that the copy names

	Offered fleet.Generation
	Owner   Owner // the authority that the document names, and the nonce of its claim when the mover sent it
}

// Decide says whether the document may be written into this host's copy; the fence and the judges are asked after it. What it refuses, it
// refuses whoever pushes.
func (p Push) Decide() (PushReceipt, error) {
	held := HeadOf(p.Copy)
	cause, answers := p.Authority.Answers()
	switch {
	case p.CopyError != "":
		return PushReceipt{}, refuse(ReasonNoCopy, sayCopyUnreadable(p.CopyError, cause))
	case p.Copy == nil:
		return PushReceipt{}, refuse(ReasonNoCopy, sayNoCopy(p.Self))
	case held.Authority == "":
		return PushReceipt{}, refuse(ReasonNoAuthority, sayNoAuthority(p.Self))
	case hostAuthority(p.Copy) == p.Self:
		return PushReceipt{}, refuse(ReasonAlready, sayIsAuthority(p.Self))
	case answers:
		return PushReceipt{}, refuse(ReasonAnswers, sayPushAnswers)
	case p.Offered <= held.Generation:
		return PushReceipt{}, refuse(ReasonNotAbove, sayNotAbove(p.Offered, held.Generation))
	}
	if r := p.Promised.Keeps(p.Offered, p.Owner); r != nil {
		return PushReceipt{}, r
	}
	return PushReceipt{State: StateHandedOver, Generation: p.Offered, Unanswered: cause}, nil
}

// Say is the line that a host prints when it took the document.
func (r PushReceipt) Say(path string) string { return sayHanded(path, r.Generation, r.Unanswered) }

// Take is `stado authority take`: the role moves through an authority that answers, and this is its document, given by the old authority to
// the host that is to have the role.
type Take struct {
	Self      fleet.HostName
	Copy      *fleet.Snapshot // the last-known-good copy; nil when there is none
	CopyError string          // why the copy cannot be read; empty when it can, or when there is none
	Promised  *Promise

	Offered fleet.Generation
	Owner   Owner // the authority that the document names, and the nonce of its claim
}

// Decide says whether the document may be written into this host's copy, and then into its repository; the fence and the judges are asked
// after it. Only a document whose claim this host has granted is taken, since the authority that the copy names still answers.
func (t Take) Decide() (PushReceipt, error) {
	switch {
	case t.CopyError != "":
		return PushReceipt{}, refuse(ReasonNoCopy, sayCopyUnreadable(t.CopyError, ""))
	case t.Copy == nil:
		return PushReceipt{}, refuse(ReasonNoCopy, sayNoCopy(t.Self))
	case t.Owner.Mover != t.Self:
		return PushReceipt{}, refuse(ReasonWrongHost, sayTakeElsewhere(t.Self, t.Owner.Mover, t.Offered))
	case !t.Promised.of(t.Offered, t.Owner):
		return PushReceipt{}, refuse(ReasonPromised, sayTakeUnclaimed(t.Self, t.Offered))
	}
	if r := t.Promised.Keeps(t.Offered, t.Owner); r != nil {
		return PushReceipt{}, r
	}
	return PushReceipt{State: StateHandedOver, Generation: t.Offered}, nil
}

// Taken is the hand-over to a host that did not say so in a receipt, when it holds the document all the same: the receipt was lost, or the
// host has read it elsewhere.
func (m Move) Taken(host fleet.HostName, held Head) (Move, bool) {
	if m.Promoted == nil || held.Digest != m.Promoted.Digest || held.Generation != m.Promoted.Generation {
		return m, false
	}
	return m.Handed(host, HandOver{Receipt: &PushReceipt{State: StateHandedOver, Generation: held.Generation, Unanswered: m.Unanswered}}), true
}
