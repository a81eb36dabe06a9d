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

// What travels between hosts is put into sentences and records, so each part has a form. Lengths are counted apart: a counted repetition
// takes milliseconds to compile, and this program is started for every read.
var (
	nameForm  = form{regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`), func(n int) bool { return n <= 253 }}
	tokenForm = form{regexp.MustCompile(`^[A-Za-z0-9_-]+$`), func(n int) bool { return n <= 64 }}
	hexForm   = form{regexp.MustCompile(`^[0-9a-f]+$`), func(n int) bool { return n == 40 || n == 64 }}
)

// form is the characters and the length of a word.
type form struct {
	characters *regexp.Regexp
	length     func(int) bool
}

func (f form) matches(word string) bool { return f.length(len(word)) && f.characters.MatchString(word) }

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
	case !nameForm.matches(string(c.Mover)):
		return "mover"
	case !tokenForm.matches(c.Nonce):
		return "nonce"
	case !tokenForm.matches(c.Incarnation):
		return "incarnation"
	case c.Through != "" && !nameForm.matches(string(c.Through)):
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
	case !nameForm.matches(string(a.Host)):
		return "host"
	case a.Nonce != "" && !tokenForm.matches(a.Nonce):
		return "nonce"
	case a.Granted && (a.Refused != "" || a.Recovering || a.Promised == nil || !a.Promised.of(a.Generation, Owner{a.Promised.Mover, a.Nonce})):
		return "granted"
	case a.Refused != "" && !tokenForm.matches(string(a.Refused)):
		return "refused"
	case a.Held != (Head{}) && a.Held.bad():
		return "held"
	case a.Incarnation != "" && !tokenForm.matches(a.Incarnation):
		return "incarnation"
	case a.Promised != nil && a.Promised.bad():
		return "promised"
	}
	return ""
}

func (p Promise) bad() bool {
	return !nameForm.matches(string(p.Mover)) || p.Nonce != "" && !tokenForm.matches(p.Nonce) ||
		p.Incarnation != "" && !tokenForm.matches(p.Incarnation) || p.Base != (Head{}) && p.Base.bad() ||
		p.Below.Generation > p.Generation || p.Below.Mover != "" && !nameForm.matches(string(p.Below.Mover)) || p.Ended != Standing && p.Ended != Released && p.Ended != Lapsed
}

func (h Head) bad() bool {
	return h.Generation == 0 || !hexForm.matches(h.Digest) || h.Commit != "" && !hexForm.matches(h.Commit) ||
		h.Authority != "" && !nameForm.matches(string(h.Authority))
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
