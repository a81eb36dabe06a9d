package main

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"stado.internal/stado/fleet"
)

// plainHandler writes exactly the message, one line a record: operators grep for these sentences, so nothing stands before or after.
// Control characters are escaped, whoever let them through: no text of a stranger can write a line of its own or steer the terminal.
type plainHandler struct {
	mu  sync.Mutex
	out io.Writer
}

func (h *plainHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *plainHandler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.out, fleet.EscapeControls(r.Message)+"\n")
	return err
}

// WithAttrs drops attributes: the sentence is complete without them.
func (h *plainHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup is the handler itself, for the same reason.
func (h *plainHandler) WithGroup(string) slog.Handler { return h }
