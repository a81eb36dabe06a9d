package main

import (
	"log/slog"
	"strings"
	"testing"
)

// One record is one line, whatever text came into its message, and that line moves no cursor.
func TestLogLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	log := slog.New(&plainHandler{out: &out})
	log.Warn("commit refused: boom\nstado resolver serves generation 99\x1b[2J")
	log.Info("the next – one")
	want := `commit refused: boom\nstado resolver serves generation 99\x1b[2J` + "\nthe next – one\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
