// Package report writes the findings of a judge in the forms that people and forges read: lines of text, workflow commands of GitHub,
// a Code Quality report of GitLab, SARIF 2.1.0, and a summary in Markdown.
//
// Findings quote files that anybody may have written, so every form escapes what it quotes: nothing in a finding can end its line, start
// a command of a runner, or become a link or a mention. The package does no I/O of its own.
package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"stado.internal/stado/fleet"
)

// Rule explains the findings that carry its id.
type Rule struct {
	ID, Title, Explanation string
}

// Report is what was judged and what was found. It is a value; its methods may be called at the same time.
type Report struct {
	Findings fleet.Findings
	// Verdict is the outcome in one sentence.
	Verdict string
	// Prefix is the registry's directory inside its git repository, with a slash behind it; empty when it is the repository itself.
	Prefix string
	// Version is the program's, for the forms that name it.
	Version string
	// Rules explain the findings; forms that list rules list all of them.
	Rules []Rule
}

// anchorFile stands for a finding that names no file, in forms that cannot do without: every registry has it.
const anchorFile = "registry.cue"

// Text writes one line per finding.
func (r Report) Text(w io.Writer) error {
	for _, f := range r.Findings {
		if _, err := fmt.Fprintln(w, line(f)); err != nil {
			return err
		}
	}
	return nil
}

// line is a finding as one line of text, whatever it quotes.
func line(f fleet.Finding) string {
	text := oneLine(f.String())
	if f.Severity == fleet.SeverityWarning {
		return "warning: " + text
	}
	return text
}

// oneLine makes text fit for one line of a terminal or a log: line ends become spaces, other control characters go, and so do the marks
// that change the direction of writing, with which text can be made to look like another.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || r == '\u2028' || r == '\u2029':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return -1
		case r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\u200e' || r == '\u200f':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// sentence is the message of a finding with its hint.
func sentence(f fleet.Finding) string {
	if f.Hint == "" {
		return oneLine(f.Message)
	}
	return oneLine(f.Message + " (" + f.Hint + ")")
}

// rule is the explanation of a finding; only the id when nobody explains it.
func (r Report) rule(id string) Rule {
	if i := r.ruleIndex(id); i >= 0 {
		return r.Rules[i]
	}
	return Rule{ID: id}
}

func (r Report) ruleIndex(id string) int {
	return slices.IndexFunc(r.Rules, func(rule Rule) bool { return rule.ID == id })
}

// ranked is the findings with the most important first: what refuses before what warns, and what can be shown beside a line before what
// cannot.
func (r Report) ranked() fleet.Findings {
	rank := func(f fleet.Finding) int {
		n := 0
		if f.Severity != fleet.SeverityError {
			n += 4
		}
		if f.File == "" {
			n += 2
		}
		if f.Line == 0 {
			n++
		}
		return n
	}
	out := slices.Clone(r.Findings)
	slices.SortStableFunc(out, func(a, b fleet.Finding) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// where is a finding's file inside the git repository, and its line; the anchor file's first line when it has none.
func (r Report) where(f fleet.Finding) (string, int) {
	if f.File == "" {
		return r.Prefix + anchorFile, 1
	}
	return r.Prefix + oneLine(f.File), max(f.Line, 1)
}

// fingerprints identify findings from one run to the next. Lines are left out, so that a finding keeps its identity when text is added
// above it; findings that are equal otherwise are counted.
func (r Report) fingerprints() []string {
	seen := map[string]int{}
	out := make([]string, len(r.Findings))
	for i, f := range r.Findings {
		key := strings.Join([]string{f.Rule, r.Prefix + f.File, f.Path, f.Message}, "\x00")
		seen[key]++
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, seen[key]))
		out[i] = hex.EncodeToString(sum[:])
	}
	return out
}
