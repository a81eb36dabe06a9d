package policies

import (
	"fmt"
	"strings"
)

// The sentences about the fleet's own policies.

// maxSentence bounds what a policy may put into one finding.
const maxSentence = 500

func sayPolicy(rule, sentence string) string { return plain(rule) + ": " + plain(sentence) }

// plain is a policy's text made fit for one line of a terminal.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > maxSentence {
		return string(r[:maxSentence]) + "…"
	}
	return s
}

const (
	hintPolicy       = "this fleet's own policies, as they stood before the change, refuse it"
	hintPolicyStands = "this refuses nothing yet; once the policy stands, every later change is judged by it"
	hintPolicyBroken = "correct the policy in a change of its own, which leaves the registry as it is; docs/policies.md has the contract"
	hintPolicyNested = "move it to policies/"
)

func sayPolicyNested() string {
	return "the fleet's own policies stand in policies/ itself; this file would judge nothing"
}

func sayPolicyBroken(at, format string, args []any) string {
	message := plain(fmt.Sprintf(format, args...))
	if at != "" {
		message = plain(at) + ": " + message
	}
	return "the fleet's own policies cannot be evaluated: " + message
}

func sayPolicyPanic(what any) string {
	return fmt.Sprintf("the CUE evaluator failed on the fleet's own policies: %s", plain(fmt.Sprint(what)))
}
