package authority

import (
	"slices"
	"time"

	"stado.internal/stado/fleet"
)

// Claim asks a host to keep a generation for one document. A generation, a mover and a nonce are one claim, however often it is asked.
type Claim struct {
	Generation  fleet.Generation `json:"generation"`
	Mover       fleet.HostName   `json:"mover"`       // the host that the document will name as the authority
	Nonce       string           `json:"nonce"`       // drawn once per move
	Incarnation string           `json:"incarnation"` // of the anchor of the host that asks
	Base        Head             `json:"base"`        // what the document is built on
	Joins       *Head            `json:"joins,omitempty"`
	// Through is the declared authority when it is the one that asks: the role moves through it, or it writes a document of its own.
	Through fleet.HostName `json:"through,omitempty"`
}

// Owner is whoever made a document. An empty nonce is one that is not known, as in a document that was fetched.
type Owner struct {
	Mover fleet.HostName
	Nonce string
}

// Owner is the owner of the claimed document.
func (c Claim) Owner() Owner { return Owner{c.Mover, c.Nonce} }

// Promise is what a host has promised, the newest claim that it granted. It is part of its anchor and as durable.
type Promise struct {
	Generation  fleet.Generation `json:"generation"`
	Mover       fleet.HostName   `json:"mover"`
	Nonce       string           `json:"nonce"`
	Incarnation string           `json:"incarnation,omitempty"`
	Base        Head             `json:"base,omitzero"`
	// Below is what older promises to other claims still keep, even when this one has ended.
	Below Kept   `json:"below,omitzero"`
	Ended Ending `json:"ended,omitempty"`
}

// Kept is a generation up to which documents of one mover alone are taken; of nobody, when it names none.
type Kept struct {
	Generation fleet.Generation `json:"generation"`
	Mover      fleet.HostName   `json:"mover,omitempty"`
}

// and is what two keep together.
func (k Kept) and(other Kept) Kept {
	switch {
	case k.Generation == 0:
		return other
	case other.Generation == 0:
		return k
	case k.Mover != other.Mover:
		k.Mover = ""
	}
	k.Generation = max(k.Generation, other.Generation)
	return k
}

// Ending is how a promise ended. One that ended keeps no document away, and its generation is still never promised again.
type Ending string

// The endings. A promise also loses its meaning when the held document reaches its generation.
const (
	Standing Ending = ""
	Released Ending = "released" // given back by the mover
	Lapsed   Ending = "lapsed"   // not used for [LapseAfter], where no quorum is required
)

// A promise lasts for ten refresh intervals, and however short those are for longer than a move takes: hosts that are silent make it wait in
// its round of questions and again when it hands over, and what it hands over must still be promised to it.
const (
	lapseIntervals = 10
	lapseLeast     = 20 * time.Minute
)

// LapseAfter is how long a promise lasts in a fleet that requires no quorum: without an end a dead mover would keep ordinary changes away
// for ever. Where a majority is required a promise lasts until a higher claim.
func LapseAfter(refresh time.Duration) time.Duration { return max(lapseIntervals*refresh, lapseLeast) }

func (p *Promise) of(generation fleet.Generation, o Owner) bool {
	return p != nil && p.Generation == generation && p.Mover == o.Mover && p.Nonce == o.Nonce
}

// Keeps reports whether the promise keeps a document away, from whatever source, and says so. It may be nil. Only the document that is to
// be held is asked about, not those on the way to it.
func (p *Promise) Keeps(generation fleet.Generation, o Owner) *Refusal {
	switch {
	case p == nil:
		return nil
	case generation <= p.Below.Generation && o.Mover != p.Below.Mover:
		return refuse(ReasonPromised, sayKept(p.Below.Generation, p.Below.Mover))
	case p.Ended != Standing && o.Nonce != "" && p.of(generation, o):
		return refuse(ReasonEnded, sayEnded(p))
	case p.Ended != Standing || generation > p.Generation:
		return nil
	case p.Mover == o.Mover && (o.Nonce == "" || p.Nonce == o.Nonce):
		return nil
	}
	return refuse(ReasonPromised, sayKept(p.Generation, p.Mover))
}

// Release is the promise after its mover gave the claim back, nil when there is nothing to change. It is durable before it is answered.
func (p *Promise) Release(c Claim) *Promise {
	if !p.of(c.Generation, c.Owner()) || p.Ended != Standing {
		return nil
	}
	out := *p
	out.Ended = Released
	return &out
}

// Lapse is the promise after it stood for age on a host that holds a generation, nil when there is nothing to change: one that was used, by
// whomever, keeps nothing away any more. Age is measured on a monotonic clock, from the grant or from the start of the agent.
func (p *Promise) Lapse(held fleet.Generation, age, refresh time.Duration, quorum fleet.Quorum) *Promise {
	switch {
	case p == nil, quorum == fleet.QuorumMajority, age < LapseAfter(refresh):
		return nil
	case p.Generation <= held, p.Ended != Standing && p.Below == (Kept{}):
		return nil
	}
	out := *p
	out.Below = Kept{} // older still
	if out.Ended == Standing {
		out.Ended = Lapsed
	}
	return &out
}

// Host is what a host that is asked for a claim knows.
type Host struct {
	Name        fleet.HostName
	Incarnation string           // of its anchor
	Held        Head             // zero: nothing is held
	Hosts       []fleet.HostName // that the held document registers
	Promised    *Promise
	Recovering  bool // the anchor is missing or was made anew, and [Rejoin] has not ended that
	Answers     bool // the authority that the held document names answers this host, or is this host and serves
}

// Answer is what a host says to a claim.
type Answer struct {
	Generation  fleet.Generation `json:"generation"` // of the claim that is answered
	Nonce       string           `json:"nonce"`
	Host        fleet.HostName   `json:"host"`
	Granted     bool             `json:"granted"`
	Refused     Reason           `json:"refused,omitempty"`
	Sentence    string           `json:"sentence,omitempty"`
	Held        Head             `json:"held"`
	Promised    *Promise         `json:"promised,omitempty"` // as it stands now
	Incarnation string           `json:"incarnation"`
	Recovering  bool             `json:"recovering,omitempty"` // it does not know what it has promised
}

// Report is the answer to a question without a claim: what this host holds and has promised.
func (h Host) Report() Answer {
	return Answer{Host: h.Name, Held: h.Held, Promised: h.Promised, Incarnation: h.Incarnation, Recovering: h.recovering()}
}

// recovering: a host that holds nothing has lost its anchor or is new, and cannot tell which.
func (h Host) recovering() bool { return h.Recovering || h.Held.Generation == 0 }

// Decide answers a claim. base is how the claim's base, or the nearer of its two, stands to what this host holds. promise, when not nil,
// is durable before the answer leaves this host; the same claim again is granted again.
func (h Host) Decide(c Claim, base Relation) (a Answer, promise *Promise) {
	a = h.Report()
	a.Generation, a.Nonce = c.Generation, c.Nonce
	if r := h.refuses(c, base); r != nil {
		a.Refused, a.Sentence = r.Reason, r.Sentence
		return a, nil
	}
	a.Granted = true
	if h.Promised.of(c.Generation, c.Owner()) {
		return a, nil
	}
	a.Promised = h.promise(c)
	return a, a.Promised
}

func (h Host) refuses(c Claim, base Relation) *Refusal {
	p := h.Promised
	switch {
	case h.recovering():
		return refuse(ReasonRecovering, sayRecovering(h.Name))
	case !slices.Contains(h.Hosts, c.Mover):
		return refuse(ReasonUnregistered, sayUnregistered(c.Mover, h.Held.Generation))
	case h.Held.Generation >= c.Generation:
		return refuse(ReasonHolds, sayHolds(h, c.Generation))
	case h.Answers && c.Through != h.Held.Authority && c.Joins == nil:
		return refuse(ReasonAnswers, sayAnswers(h.Held.Authority))
	case p.of(c.Generation, c.Owner()):
		if p.Ended != Standing {
			return refuse(ReasonEnded, sayEnded(p))
		}
		return nil
	case p != nil && p.Generation >= c.Generation:
		return refuse(ReasonPromised, sayPromised(h.Name, p))
	case c.Generation-h.Held.Generation > fleet.MaxLeap:
		return refuse(ReasonLeap, sayLeap(c.Generation, h.Held.Generation))
	case base == Forked:
		return refuse(ReasonForked, sayNotDescended(h, c.Base))
	}
	return nil
}

// promise replaces what is promised. What another claim may still count on stays in Below; a mover that asks for a higher generation under
// the same nonce has given the lower one up.
func (h Host) promise(c Claim) *Promise {
	p := &Promise{Generation: c.Generation, Mover: c.Mover, Nonce: c.Nonce, Incarnation: c.Incarnation, Base: c.Base}
	if old := h.Promised; old != nil {
		p.Below = old.Below
		if old.Ended == Standing && (old.Mover != c.Mover || old.Nonce != c.Nonce) {
			p.Below = p.Below.and(Kept{old.Generation, old.Mover})
		}
		if p.Below.Generation <= h.Held.Generation {
			p.Below = Kept{}
		}
	}
	return p
}

// Rejoin ends the recovery of a host that lost its anchor, and with it what it had promised and taken. Whoever counts on such a promise has
// promised the same to itself, and whoever counts on what it took holds it: so once every other host of registry has answered and, where a
// majority is required, this host holds nothing lower than any of them, what they say bounds what is lost. The result is to be held as this
// host's promise. wanting are the hosts that have not answered, or hold more; the result is nil then.
func Rejoin(self fleet.HostName, held Head, registry *fleet.Registry, answers map[fleet.HostName]Answer) (floor *Promise, wanting []fleet.HostName) {
	floor = &Promise{Mover: self, Ended: Released, Generation: held.Generation}
	required := registry.Policies.Quorum == fleet.QuorumMajority
	for _, h := range registry.HostNames() {
		a, ok := answers[h]
		switch {
		case h == self:
			continue
		case !ok, a.Recovering, required && a.Held.Generation > held.Generation:
			wanting = append(wanting, h)
			continue
		}
		floor.Generation = max(floor.Generation, a.Held.Generation)
		if p := a.Promised; p != nil {
			floor.Generation = max(floor.Generation, p.Generation)
			floor.Below = floor.Below.and(p.Below)
			if p.Ended == Standing {
				floor.Below = floor.Below.and(Kept{p.Generation, p.Mover})
			}
		}
	}
	if wanting != nil {
		return nil, wanting
	}
	return floor, nil
}
