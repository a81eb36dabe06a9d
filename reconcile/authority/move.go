package authority

import (
	"maps"
	"math"
	"slices"

	"stado.internal/stado/fleet"
)

// Kind is what a commit does to the registry, as its trailer Stado-Kind says.
type Kind string

// The kinds that are made under a claim.
const (
	KindEdit Kind = "edit" // a change by the authority itself, where a majority is required of every change
	KindMove Kind = "move"
	KindHeal Kind = "heal" // joins two histories
)

// Phase is how far a move has come.
type Phase string

// The phases. Up to [PhasePromoted] nothing has been written that anybody serves.
const (
	PhaseClaiming  Phase = "claiming"
	PhasePromoted  Phase = "promoted" // the document is made and recorded, and may already be this host's copy
	PhaseCopied    Phase = "copied"   // it is this host's copy: the move can only be finished
	PhaseAbandoned Phase = "abandoned"
)

// Move is the record of one move, or of another claimed document, that this host makes. It is a value: methods return the next one, and
// what they return is durable before the next step. A move that was interrupted goes on under the same generation and nonce.
type Move struct {
	Kind        Kind                        `json:"kind"`
	Phase       Phase                       `json:"phase"`
	Self        fleet.HostName              `json:"self"` // the host that makes it
	To          fleet.HostName              `json:"to"`   // the authority that the document names
	Through     bool                        `json:"through,omitempty"`
	Fenced      fleet.HostName              `json:"fenced"`          // the authority that Base names
	Leaves      fleet.Authority             `json:"leaves,omitzero"` // the authority as Base declares it
	Generation  fleet.Generation            `json:"generation"`
	Epoch       uint64                      `json:"epoch"`
	Nonce       string                      `json:"nonce"`
	Incarnation string                      `json:"incarnation"` // of this host's anchor
	Base        Head                        `json:"base"`        // what the document is built on
	Joins       *Head                       `json:"joins,omitempty"`
	Electorate  []fleet.HostName            `json:"electorate"` // all hosts that Base registers
	Required    bool                        `json:"required"`   // Base requires a majority
	Granted     []fleet.HostName            `json:"granted,omitempty"`
	Tries       int                         `json:"tries"` // generations tried before this one
	Unanswered  string                      `json:"unanswered,omitempty"`
	Promoted    *Head                       `json:"promoted,omitempty"`
	Store       *StoreResult                `json:"store,omitempty"`
	Hosts       map[fleet.HostName]HandOver `json:"hosts,omitempty"`
}

// Situation is what the host that is to make a move knows.
type Situation struct {
	Self, To    fleet.HostName
	Copy        *fleet.Snapshot // the last-known-good copy; nil when there is none
	CopyError   string          // why the copy cannot be read; empty when it can, or when there is none
	Promised    *Promise        // by this host
	Incarnation string
	Authority   Reading // this host's own read of the authority
	Nonce       string  // drawn for this move
}

// Begin begins a move, or says why it must not. The result is durable before the first step.
func Begin(s Situation) (Move, error) {
	head := HeadOf(s.Copy)
	cause, answers := s.Authority.Answers()
	through := s.Copy != nil && s.Self == hostAuthority(s.Copy)
	switch {
	case s.Self != s.To && !through:
		return Move{}, refuse(ReasonWrongHost, sayWrongHost(s.Self, s.To))
	case s.CopyError != "":
		return Move{}, refuse(ReasonNoCopy, sayCopyUnreadable(s.CopyError, cause))
	case s.Copy == nil:
		return Move{}, refuse(ReasonNoCopy, sayNoCopy(s.Self))
	case head.Authority == "":
		return Move{}, refuse(ReasonNoAuthority, sayNoAuthority(s.Self))
	case hostAuthority(s.Copy) == s.To:
		return Move{}, refuse(ReasonAlready, sayAlready(s.To))
	case !registered(s.Copy, s.To):
		return Move{}, refuse(ReasonUnregistered, sayUnregistered(s.To, head.Generation))
	case !through && answers:
		return Move{}, refuse(ReasonAnswers, sayAnswers(head.Authority))
	}
	m, err := begin(s, KindMove)
	if m.Through = through; !through {
		m.Unanswered = cause
	}
	return m, err
}

// BeginEdit begins a change by the authority itself, as a fleet that requires a majority requires it of every document.
func BeginEdit(s Situation) (Move, error) {
	held := HeadOf(s.Copy)
	switch {
	case s.Copy == nil:
		return Move{}, refuse(ReasonNoCopy, sayNoCopy(s.Self))
	case hostAuthority(s.Copy) != s.Self:
		return Move{}, refuse(ReasonWrongHost, sayNotAuthority(s.Self, held))
	}
	s.To = s.Self
	m, err := begin(s, KindEdit)
	m.Through = true
	return m, err
}

// At is the move for a document that is made already, at its generation, which nobody may have been promised before but the very same claim.
func (m Move) At(generation fleet.Generation, promised *Promise) (Move, error) {
	if generation < m.Generation && !promised.of(generation, m.Claim().Owner()) {
		if promised == nil || promised.Generation < generation {
			return Move{}, refuse(ReasonHolds, sayHolds(Host{Name: m.Self, Held: m.Base}, generation))
		}
		return Move{}, refuse(ReasonPromised, sayPromised(m.Self, promised))
	}
	m.Generation = generation
	return m, nil
}

// BeginJoin begins the merge of two histories that [PlanJoin] planned, on the host that is to be the authority of both. first is the registry
// of the plan's first parent; this host holds one of the two.
func BeginJoin(s Situation, j Join, first *fleet.Snapshot) (Move, error) {
	held := HeadOf(s.Copy)
	switch {
	case s.Copy == nil:
		return Move{}, refuse(ReasonNoCopy, sayNoCopy(s.Self))
	case s.Self != j.Authority:
		return Move{}, refuse(ReasonWrongHost, sayHealElsewhere(s.Self, j.Authority))
	case held != j.Parents[0] && held != j.Parents[1]:
		return Move{}, refuse(ReasonOvertaken, sayPlanAnew(held))
	}
	s.To = s.Self
	m, err := begin(s, KindHeal)
	if err != nil {
		return Move{}, err
	}
	m = m.on(first)
	m.Through = hostAuthority(s.Copy) == s.Self
	m.Joins = &j.Parents[1]
	m.Generation = max(m.Generation, j.Generation)
	return m, nil
}

func begin(s Situation, kind Kind) (Move, error) {
	used := s.Copy.Generation()
	if s.Promised != nil {
		used = max(used, s.Promised.Generation)
	}
	if used == math.MaxUint64 {
		return Move{}, refuse(ReasonExhausted, sayExhausted)
	}
	return Move{
		Kind: kind, Phase: PhaseClaiming, Self: s.Self, To: s.To, Nonce: s.Nonce, Incarnation: s.Incarnation,
		Generation: used + 1,
	}.on(s.Copy), nil
}

// on is the move on another base. The hosts of the base are the electorate, and the base's policy says whether they must agree.
func (m Move) on(base *fleet.Snapshot) Move {
	m.Base = HeadOf(base)
	m.Fenced, m.Leaves = m.Base.Authority, base.Registry.Directory.Authority
	m.Electorate = base.Registry.HostNames()
	m.Required = base.Registry.Policies.Quorum == fleet.QuorumMajority
	m.Epoch = m.Base.Epoch
	if m.moves() {
		m.Epoch++
	}
	return m
}

// moves reports whether the document names another authority than its base.
func (m Move) moves() bool { return m.Base.Authority != m.To }

func registered(s *fleet.Snapshot, host fleet.HostName) bool {
	_, ok := s.Registry.Hosts[host]
	return ok
}

// Claim is what the move asks every host.
func (m Move) Claim() Claim {
	c := Claim{Generation: m.Generation, Mover: m.To, Nonce: m.Nonce, Incarnation: m.Incarnation, Base: m.Base, Joins: m.Joins}
	if m.Through {
		c.Through = m.Self
	}
	return c
}

// Resume says how a recorded move goes on after an interruption: what failed is tried again, what was done is not. held is what this host
// holds now. A move that has not written this host's copy asks its claims again, and only while the authority stays silent.
func (m Move) Resume(s Situation) (Move, error) {
	held := HeadOf(s.Copy)
	cause, answers := s.Authority.Answers()
	m = m.seen(held)
	switch {
	case s.Copy == nil:
		return m, refuse(ReasonNoCopy, sayNoCopy(s.Self))
	case m.To != s.To:
		return m, refuse(ReasonUnfinished, sayUnfinished(m))
	case m.Incarnation != s.Incarnation && held.Generation < m.Generation:
		return m, refuse(ReasonLost, sayLost(m))
	case m.overtaken(held):
		return m, refuse(ReasonOvertaken, sayOvertaken(m, held))
	case m.Phase != PhaseCopied && !m.Through && answers:
		return m, refuse(ReasonAnswers, sayAnswers(held.Authority))
	}
	if m.Phase == PhaseCopied {
		return m.retried(), nil
	}
	if !m.Through {
		m.Unanswered = cause
	}
	if m.Joins == nil {
		m = m.on(s.Copy) // what a round found beyond it is found again
	}
	m.Phase, m.Promoted, m.Granted = PhaseClaiming, nil, nil
	return m, nil
}

// retried forgets the failures, so that they are tried again.
func (m Move) retried() Move {
	if m.Store != nil && m.Store.Error != "" {
		m.Store = nil
	}
	m.Hosts = maps.Clone(m.Hosts)
	maps.DeleteFunc(m.Hosts, func(_ fleet.HostName, h HandOver) bool { return h.Error != "" })
	return m
}

// seen takes the copy for written when the host holds it: the record of that may have been lost with the process.
func (m Move) seen(held Head) Move {
	if m.Phase == PhasePromoted && held.Digest == m.Promoted.Digest && held.Generation == m.Generation {
		m.Phase = PhaseCopied
	}
	return m
}

// overtaken reports that the generation is used up by another document, or that the role has moved on.
func (m Move) overtaken(held Head) bool {
	switch {
	case m.Phase == PhaseCopied:
		return held.Authority != m.To
	case held.Generation >= m.Generation, m.Through && held.Authority != m.Self:
		return true
	}
	return m.Kind == KindMove && held.Authority == m.To
}

// Interrupted reports whether a start of the agent goes on with the move by itself: once this host's copy is written it can only be
// finished. Before that a person runs it again, or abandons it.
func (m Move) Interrupted(held Head) bool {
	m = m.seen(held)
	return m.Phase == PhaseCopied && !m.overtaken(held)
}

// Abandon gives a move up: one that has written nothing, one that another document has overtaken, one whose host has lost what it wrote, or
// one through the authority that has written nothing but this host's own copy, since the new host could not take it; the copy stays then.
// The result is durable before the claim is released by the hosts, this one among them. No host promises the generation again.
func (m Move) Abandon(held Head, incarnation string) (Move, error) {
	m = m.seen(held)
	if m.Phase == PhaseCopied && m.Incarnation == incarnation && !m.overtaken(held) && !m.alone() {
		return m, refuse(ReasonWritten, sayWritten(m))
	}
	m.Phase = PhaseAbandoned
	return m, nil
}

// alone reports that the document of a move through the authority is known to no other host.
func (m Move) alone() bool {
	left, failed := m.left()
	return m.Kind == KindMove && m.Through && (left != nil || failed)
}

// Promote records the document of the move, made on Base, before it is written anywhere.
func (m Move) Promote(head Head) Move {
	m.Phase, m.Promoted = PhasePromoted, &head
	return m
}

// Copied records that the document is this host's copy.
func (m Move) Copied() Move {
	m.Phase = PhaseCopied
	return m
}

// Stored records what became of the store that this host reads, its own repository.
func (m Move) Stored(r StoreResult) Move {
	m.Store = &r
	return m
}

// Handed records what a host said to the document.
func (m Move) Handed(host fleet.HostName, h HandOver) Move {
	h.Host = host
	m.Hosts = maps.Clone(m.Hosts)
	if m.Hosts == nil {
		m.Hosts = map[fleet.HostName]HandOver{}
	}
	m.Hosts[host] = h
	return m
}

// receivers are the hosts that are handed the document, in order. Where the authority answers only the new one is, before the old one's
// store has it: the others read it there. Those that read a document from its author are handed none.
func (m Move) receivers() []fleet.HostName {
	switch {
	case m.Kind != KindMove:
		return nil
	case m.Through:
		return []fleet.HostName{m.To}
	}
	return slices.DeleteFunc(slices.Clone(m.Electorate), func(h fleet.HostName) bool { return h == m.Self || h == m.Fenced })
}
