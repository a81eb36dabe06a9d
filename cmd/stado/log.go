package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
)

// plainHandler writes exactly the message, one line a record: operators grep for these sentences, so nothing stands before or after.
type plainHandler struct {
	mu  sync.Mutex
	out io.Writer
}

func (h *plainHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *plainHandler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.out, r.Message+"\n")
	return err
}

// WithAttrs drops attributes: the sentence is complete without them.
func (h *plainHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup is the handler itself, for the same reason.
func (h *plainHandler) WithGroup(string) slog.Handler { return h }
