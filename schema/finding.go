package schema

import (
	"slices"

	"stado.internal/stado/fleet"
)

// MaxFindings is how many findings are listed; one more says how many there are beyond.
const MaxFindings = 100

// collector gathers findings without repetition.
type collector struct {
	seen map[key]bool
	all  fleet.Findings
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
	for _, f := range fs {
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

// Limit sorts findings and cuts them at [MaxFindings], with a last finding that says how many more there are.
func Limit(all fleet.Findings) fleet.Findings {
	all.Sort()
	if len(all) <= MaxFindings {
		return all
	}
	// Errors first where the list is cut: a warning never hides the reason of a refusal.
	slices.SortStableFunc(all, func(a, b fleet.Finding) int { return severityRank(a) - severityRank(b) })
	rest := all[MaxFindings:]
	more := refusal(RuleMoreResults, Position{}, "", sayMore(len(rest)))
	more.Hint = hintMore
	if !rest.Refuses() {
		more.Severity = fleet.SeverityWarning
	}
	out := slices.Clone(all[:MaxFindings])
	out.Sort()
	return append(out, more)
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
