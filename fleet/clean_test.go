package fleet

import (
	"strings"
	"testing"
)

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"plain text":                "plain text",
		"boom\nstado serves\r\n\tx": "boom stado serves   x",
		"\x1b[2J\x00red\u009b31m":   "[2Jred31m",
		"a\u2028b\u2029c":           "a b c",
		"a\u202eb\u2066c":           "abc",
		"\xffx":                     "\ufffdx",
		"ten letter":                "ten letter",
		"eleven long":               "eleven lon…",
		"äöüäöüäöüä":                "äöüäöüäöüä",
		"äöüäöüäöüäö":               "äöüäöüäöüä…",
	} {
		limit := 10
		if len(in) > 11 && !strings.HasPrefix(in, "ä") {
			limit = 100
		}
		if got := OneLine(in, limit); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestEscapeControls(t *testing.T) {
	for in, want := range map[string]string{
		"stado resolver serves — ä": "stado resolver serves — ä",
		"boom\nnext\ttab":           `boom\nnext\ttab`,
		"\x1b[2J\u009b\u202e":       `\x1b[2J\u009b\u202e`,
		"\xff\n":                    "\ufffd" + `\n`,
	} {
		if got := EscapeControls(in); got != want {
			t.Errorf("EscapeControls(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCleanFinding(t *testing.T) {
	long := strings.Repeat("é\n", MaxText)
	f := Finding{Rule: long, Severity: Severity(long), Path: long, File: long, Message: long, Hint: long, Line: 3}
	if s := (Findings{f}).Clean()[0].String(); strings.Contains(s, "\n") || len(s) > 5*(3*MaxText) {
		t.Errorf("%d bytes: %q", len(s), s[:100])
	}
	if f.Message != long || Findings(nil).Clean() != nil {
		t.Error("Clean changed what it was given")
	}
}
