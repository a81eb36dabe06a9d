package authority

import (
	"encoding/json"
	"regexp"

	"stado.internal/stado/fleet"
)

// maxMessage bounds a claim and an answer as they travel: names, digests, one sentence of [maxSentence] characters.
const (
	maxMessage  = 32 << 10
	maxSentence = 4 * fleet.MaxText
)

// What travels between hosts is put into sentences and records, so each part has a form. Lengths are judged apart: repetitions that are
// counted in an expression cost every start of the program milliseconds.
var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)
	tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	hexForm   = regexp.MustCompile(`^[0-9a-f]+$`)
)

func isName(s fleet.HostName) bool { return len(s) <= 253 && nameForm.MatchString(string(s)) }

func isToken(s string) bool { return len(s) <= 64 && tokenForm.MatchString(s) }

func isHex(s string) bool { return (len(s) == 40 || len(s) == 64) && hexForm.MatchString(s) }

// ParseClaim reads a claim that another host sent.
func ParseClaim(data []byte) (Claim, error) {
	var c Claim
	if err := parse(data, &c); err != nil {
		return Claim{}, sayBadMessage("claim", err)
	}
	if bad := c.bad(); bad != "" {
		return Claim{}, sayBadPart("claim", bad)
	}
	return c, nil
}

func (c Claim) bad() string {
	switch {
	case c.Generation == 0:
		return "generation"
	case !isName(c.Mover):
		return "mover"
	case !isToken(c.Nonce):
		return "nonce"
	case !isToken(c.Incarnation):
		return "incarnation"
	case c.Through != "" && !isName(c.Through):
		return "through"
	case c.Base.bad():
		return "base"
	case c.Joins != nil && c.Joins.bad():
		return "joins"
	}
	return ""
}

// ParseAnswer reads what a host answered. That it comes from the host it names is for the caller to compare with the host it asked.
func ParseAnswer(data []byte) (Answer, error) {
	var a Answer
	if err := parse(data, &a); err != nil {
		return Answer{}, sayBadMessage("answer", err)
	}
	if bad := a.bad(); bad != "" {
		return Answer{}, sayBadPart("answer", bad)
	}
	a.Sentence = fleet.OneLine(a.Sentence, maxSentence)
	return a, nil
}

func (a Answer) bad() string {
	switch {
	case !isName(a.Host):
		return "host"
	case a.Nonce != "" && !isToken(a.Nonce):
		return "nonce"
	case a.Granted && (a.Refused != "" || a.Recovering || a.Promised == nil || !a.Promised.of(a.Generation, Owner{a.Promised.Mover, a.Nonce})):
		return "granted"
	case a.Refused != "" && !isToken(string(a.Refused)):
		return "refused"
	case a.Held != (Head{}) && a.Held.bad():
		return "held"
	case a.Incarnation != "" && !isToken(a.Incarnation):
		return "incarnation"
	case a.Promised != nil && a.Promised.bad():
		return "promised"
	}
	return ""
}

func (p Promise) bad() bool {
	return !isName(p.Mover) || p.Nonce != "" && !isToken(p.Nonce) ||
		p.Incarnation != "" && !isToken(p.Incarnation) || p.Base != (Head{}) && p.Base.bad() ||
		p.Below.Generation > p.Generation || p.Below.Mover != "" && !isName(p.Below.Mover) || p.Ended != Standing && p.Ended != Released && p.Ended != Lapsed
}

func (h Head) bad() bool {
	return h.Generation == 0 || !isHex(h.Digest) || h.Commit != "" && !isHex(h.Commit) ||
		h.Authority != "" && !isName(h.Authority)
}

// ParseMove reads the record of a move from this host's disk.
func ParseMove(data []byte) (Move, error) {
	var m Move
	if err := json.Unmarshal(data, &m); err != nil {
		return Move{}, sayBadRecord(err.Error())
	}
	if bad := m.bad(); bad != "" {
		return Move{}, sayBadRecord("its " + bad + " is missing or malformed")
	}
	return m, nil
}

func (m Move) bad() string {
	switch m.Phase {
	case PhaseClaiming, PhaseAbandoned:
	case PhasePromoted, PhaseCopied:
		if m.Promoted == nil || m.Promoted.bad() {
			return "promoted"
		}
	default:
		return "phase"
	}
	switch {
	case m.Kind != KindEdit && m.Kind != KindMove && m.Kind != KindHeal:
		return "kind"
	case m.Self == "" || len(m.Electorate) == 0:
		return "electorate"
	case (m.Joins != nil) != (m.Kind == KindHeal):
		return "joins"
	}
	return m.Claim().bad()
}

func parse(data []byte, into any) error {
	if len(data) > maxMessage {
		return errTooLong
	}
	return json.Unmarshal(data, into)
}
