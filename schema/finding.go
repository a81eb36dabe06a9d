package schema

import (
	"slices"
	"strconv"
	"strings"

	"stado.internal/stado/fleet"
)

// MaxFindings is how many findings are listed; one more says how many there are beyond.
const MaxFindings = 100

// collector gathers findings without repetition, each clean as soon as it is there: a message may quote a value of any length.
type collector struct {
	seen    map[key]bool
	all     fleet.Findings
	offered int // findings given to add, repetitions included
}

// key is what makes two findings the same: a field that is refused under a rule by two stages is refused once.
type key struct {
	rule, path, message string
	at                  Position
}

func (c *collector) add(fs ...fleet.Finding) {
	if c.seen == nil {
		c.seen = map[key]bool{}
	}
	c.offered += len(fs)
	for _, f := range fs {
		f = f.Clean()
		k := key{rule: f.Rule, path: f.Path}
		if f.Path == "" || f.Rule == RuleSyntax {
			k = key{f.Rule, f.Path, f.Message, Position{f.File, f.Line, f.Column}}
		}
		if !c.seen[k] {
			c.seen[k] = true
			c.all = append(c.all, f)
		}
	}
}

func (c *collector) refuses() bool { return c.all.Refuses() }

// only reports whether every error is of one of the rules.
func (c *collector) only(rules ...string) bool {
	return !slices.ContainsFunc(c.all, func(f fleet.Finding) bool {
		return f.Severity == fleet.SeverityError && !slices.Contains(rules, f.Rule)
	})
}

// list is what is reported: sorted, and cut at [MaxFindings].
func (c *collector) list() fleet.Findings { return Limit(c.all) }

// Limit cleans and sorts findings and cuts them at [MaxFindings], with a last finding that says how many more there are. What was
// limited already may be limited again, alone or with others.
func Limit(all fleet.Findings) fleet.Findings {
	all = all.Clean()
	all.Sort()
	var more fleet.Finding
	unlisted := 0
	all = slices.DeleteFunc(all, func(f fleet.Finding) bool {
		n, is := countOfMore(f)
		if is {
			more, unlisted = f, unlisted+n
		}
		return is
	})
	switch {
	case len(all) <= MaxFindings && unlisted == 0:
		return all
	case len(all) <= MaxFindings:
		more.Message = sayMore(unlisted)
		return append(all, more)
	}
	// Errors first where the list is cut: a warning never hides the reason of a refusal.
	slices.SortStableFunc(all, func(a, b fleet.Finding) int { return severityRank(a) - severityRank(b) })
	rest := all[MaxFindings:]
	refuses := more.Severity == fleet.SeverityError || rest.Refuses()
	more = hinted(refusal(RuleMoreResults, Position{}, "", sayMore(unlisted+len(rest))), hintMore)
	if !refuses {
		more.Severity = fleet.SeverityWarning
	}
	out := slices.Clone(all[:MaxFindings])
	out.Sort()
	return append(out, more)
}

// countOfMore is how many findings a last finding of [Limit] stands for.
func countOfMore(f fleet.Finding) (n int, is bool) {
	if f.Rule != RuleMoreResults {
		return 0, false
	}
	digits, _, _ := strings.Cut(f.Message, " ")
	n, err := strconv.Atoi(digits)
	return max(n, 1), err == nil
}

func severityRank(f fleet.Finding) int {
	if f.Severity == fleet.SeverityError {
		return 0
	}
	return 1
}

func refusal(rule string, at Position, fieldPath, message string) fleet.Finding {
	return fleet.Finding{
		Rule: rule, Severity: fleet.SeverityError, Path: fieldPath,
		File: at.File, Line: at.Line, Column: at.Column, Message: message,
	}
}

func hinted(f fleet.Finding, hint string) fleet.Finding {
	f.Hint = hint
	return f
}
