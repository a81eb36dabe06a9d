package authority

import (
	"math"
	"slices"
	"time"

	"stado.internal/stado/fleet"
)

// maxTries bounds how many generations one move asks for. Movers that meet step aside by different times; five times in a row is no chance.
const maxTries = 5

// Majority is the smallest number of hosts that any two of which have one in common, out of all registered ones: the authority counts
// whether or not it answers. Counted without it, two moves in a row can be granted by hosts that know nothing of each other.
func Majority(registered int) int { return registered/2 + 1 }

// Reply is what came back from one host that was asked.
type Reply struct {
	Answer      *Answer  // nil: none came
	Unreachable string   // why none came
	Relation    Relation // of what the host holds to the move's base
}

// Course is how a move goes on after its round of questions.
type Course string

// The courses.
const (
	// Proceed: the claims suffice, the document may be made on the move's base.
	Proceed Course = "proceed"
	// Rebase: a host holds a higher registry of the same history. It is fetched and judged, not adopted, and the document is built on it
	// ([Move.Rebase]); then the same replies are settled again.
	Rebase Course = "rebase"
	// Again: another claim has the generation, or a document does. The move begins its round anew at its new generation. Where another mover
	// is about, claims are released first, and a pause ([Pause]) lets it come to its end.
	Again Course = "again"
	// Stop: nothing may be done. Claims are released and the refusal is said.
	Stop Course = "stop"
)

// Outcome is what a round amounts to.
type Outcome struct {
	Course  Course
	From    fleet.HostName // of Rebase: who holds the registry
	Head    Head           // of Rebase: what it is
	Refusal *Refusal       // of Stop and Again: why
	Meets   bool           // of Again: another mover
	Release Claim          // of Stop and Again: what every host is asked to release, once; a host that cannot be reached keeps it
}

// silence is a host without an answer to this claim.
type silence struct {
	host  fleet.HostName
	cause string
}

// round sums the replies up.
type round struct {
	granted  []fleet.HostName
	refusals []Answer
	missing  []silence
	ceiling  fleet.Generation // the highest that is promised or held
	highest  Answer           // whoever holds the highest registry
	relation Relation         // of that one
}

func (m Move) sum(replies map[fleet.HostName]Reply) round {
	var r round
	for _, h := range m.Electorate {
		rep := replies[h]
		a := rep.Answer
		if a == nil || a.Generation != m.Generation || a.Nonce != m.Nonce {
			r.missing = append(r.missing, silence{h, rep.Unreachable})
			continue
		}
		r.ceiling = max(r.ceiling, a.Held.Generation)
		if a.Promised != nil && !a.Promised.of(m.Generation, m.Claim().Owner()) {
			r.ceiling = max(r.ceiling, a.Promised.Generation)
		}
		if a.Held.Generation > r.highest.Held.Generation {
			r.highest, r.relation = *a, rep.Relation
		}
		switch {
		case a.Granted:
			r.granted = append(r.granted, h)
		default:
			r.refusals = append(r.refusals, *a)
		}
	}
	return r
}

// answers reports whether the authority answers one of the hosts. One that answers a host which has not heard of its successor does not count.
func (r round) answers(authority fleet.HostName) bool {
	return slices.ContainsFunc(r.refusals, func(a Answer) bool { return a.Refused == ReasonAnswers && a.Held.Authority == authority })
}

func (r round) refusedFor(reason Reason) *Answer {
	i := slices.IndexFunc(r.refusals, func(a Answer) bool { return a.Refused == reason })
	if i < 0 {
		return nil
	}
	return &r.refusals[i]
}

// Settle decides after a round. replies are by host, this host's own answer among them; a host without one counts as silent. The move that
// is returned is durable before anything else is done.
func (m Move) Settle(replies map[fleet.HostName]Reply) (Move, Outcome) {
	r := m.sum(replies)
	m.Granted = r.granted
	base := max(m.Base.Generation, joined(m.Joins))
	switch higher := r.highest.Held.Generation > base; {
	case r.answers(m.Fenced):
		return m.stop(refuse(ReasonAnswers, sayAnswers(m.Fenced)))
	case higher && r.relation != Ahead:
		return m.stop(refuse(ReasonForked, sayForkedBase(m, r.highest)))
	case higher && (m.Joins != nil || m.Through): // to be adopted, or joined, before anything is written
		return m.stop(refuse(ReasonOvertaken, sayOvertaken(m, r.highest.Held)))
	case higher:
		return m, Outcome{Course: Rebase, From: r.highest.Host, Head: r.highest.Held}
	case m.Kind == KindMove && m.Fenced == m.To:
		return m.stop(refuse(ReasonAlready, sayAlready(m.To)))
	case m.Base.Generation >= m.Generation: // found by this round
		return m.again(r, refuse(ReasonHolds, sayUsed(m, r.highest.Host)))
	}
	if own := replies[m.Self].Answer; own == nil || !own.Granted {
		return m.lacksOwn(r, own)
	}
	if m.Required && len(r.granted) >= Majority(len(m.Electorate)) {
		return m, Outcome{Course: Proceed}
	}
	if a := r.refusedFor(ReasonPromised); a != nil {
		return m.conflict(r, replies, *a)
	}
	if a := r.refusedFor(ReasonEnded); a != nil {
		return m.again(r, refuse(a.Refused, a.Sentence))
	}
	if m.Required {
		return m.stop(refuse(ReasonNoQuorum, sayNoQuorum(m, r)))
	}
	return m, Outcome{Course: Proceed}
}

// lacksOwn: this host itself cannot promise the generation.
func (m Move) lacksOwn(r round, own *Answer) (Move, Outcome) {
	if own != nil && (own.Refused == ReasonPromised || own.Refused == ReasonEnded) {
		return m.again(r, refuse(own.Refused, own.Sentence))
	}
	if own == nil {
		return m.stop(refuse(ReasonNoQuorum, sayNoOwn(m)))
	}
	return m.stop(refuse(own.Refused, own.Sentence))
}

// conflict: a host has promised the generation to another claim. Where a majority is required the higher claim is safe and asked for.
// Otherwise it is asked for only when the other mover was heard: its document, if it has one, was among the replies.
func (m Move) conflict(r round, replies map[fleet.HostName]Reply, a Answer) (Move, Outcome) {
	why := refuse(ReasonPromised, a.Sentence)
	if p := a.Promised; !m.Required && p != nil && p.Ended == Standing && replies[p.Mover].Answer == nil {
		return m.stop(refuse(ReasonPromised, sayOtherMover(a)))
	}
	return m.again(r, why)
}

// again begins the round of a higher generation.
func (m Move) again(r round, why *Refusal) (Move, Outcome) {
	next := max(m.Generation, r.ceiling, m.Base.Generation)
	switch {
	case m.Tries+1 >= maxTries:
		return m.stop(refuse(ReasonPromised, sayTries(m, why)))
	case next == math.MaxUint64:
		return m.stop(refuse(ReasonExhausted, sayExhausted))
	}
	// A generation that a document has is nobody's any more, and the higher claim of the same nonce takes the place of this one.
	out := Outcome{Course: Again, Refusal: why, Release: m.Claim(), Meets: why.Reason != ReasonHolds}
	m.Generation, m.Tries, m.Granted = next+1, m.Tries+1, nil
	return m, out
}

func (m Move) stop(why *Refusal) (Move, Outcome) {
	m.Phase = PhaseAbandoned
	return m, Outcome{Course: Stop, Refusal: why, Release: m.Claim()}
}

// Rebase builds the move on a higher registry that a host reported, once it was fetched and judged. Settle the same replies again, with
// relations to the new base; hosts that only the new base registers have not been asked yet.
func (m Move) Rebase(base *fleet.Snapshot) Move { return m.on(base) }

func joined(h *Head) fleet.Generation {
	if h == nil {
		return 0
	}
	return h.Generation
}

// Pause is how long to wait before the next try: one to three refresh intervals, by a draw from [0, 1).
func Pause(refresh time.Duration, draw float64) time.Duration {
	return time.Duration((1 + 2*draw) * float64(refresh))
}
