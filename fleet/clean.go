package fleet

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is how many characters one string of a finding holds. Evaluated text can be millions of times as long as its source.
const MaxText = 1000

// OneLine makes text that a stranger may have chosen fit for one line of a log, a terminal or a status: white space becomes a space,
// characters that steer a terminal or the direction of writing go, and what is longer than limit characters is cut.
func OneLine(s string, limit int) string {
	var b strings.Builder
	kept := 0
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case steers(r):
			continue
		}
		if kept == limit {
			return b.String() + "…"
		}
		b.WriteRune(r) // a byte that is not UTF-8 has become utf8.RuneError
		kept++
	}
	return b.String()
}

// EscapeControls is text with every character that steers a terminal or begins another line written as in a Go string, all of it kept.
func EscapeControls(s string) string {
	if !strings.ContainsFunc(s, steers) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if steers(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// steers reports whether a terminal or a reader of lines may take a character for a command: controls, line and paragraph separators,
// and what turns the direction of writing.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// Clean is the finding with each string as one line of at most [MaxText] characters.
func (f Finding) Clean() Finding {
	f.Severity = Severity(OneLine(string(f.Severity), MaxText))
	for _, s := range []*string{&f.Rule, &f.Path, &f.File, &f.Message, &f.Hint} {
		*s = OneLine(*s, MaxText)
	}
	return f
}

// Clean is a list of its own with [Finding.Clean] of each; nil stays nil.
func (fs Findings) Clean() Findings {
	if fs == nil {
		return nil
	}
	out := make(Findings, len(fs))
	for i, f := range fs {
		out[i] = f.Clean()
	}
	return out
}
