package status

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stado.internal/stado/reconcile/durable"
)

// Real files inside a bubble: writes take no fake time, so every instant below is exact.
func TestPublisherCoalesces(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var n, renders atomic.Int64
		p := NewPublisher(durable.Folder{Path: dir}, "doc.json", func() int64 { renders.Add(1); return n.Load() }, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()

		n.Store(1)
		p.Touch()
		synctest.Wait()
		if got := read(t, dir); got != "1" {
			t.Fatalf("the first change must be written at once; file holds %q", got)
		}
		seen := ""
		n.Store(2)
		p.Touch(func() { seen = read(t, dir) })
		n.Store(3)
		p.Touch()
		synctest.Wait()
		if renders.Load() != 1 {
			t.Fatal("a change inside the pause must wait for its end")
		}
		time.Sleep(coalesce)
		synctest.Wait()
		if seen != "3" || renders.Load() != 2 {
			t.Fatalf("after the pause: the function saw %q in %d writes, want the newest state in the second", seen, renders.Load())
		}
		n.Store(4)
		cancel()
		if err := <-done; err != nil || read(t, dir) != "4" {
			t.Fatalf("the last state must be on disk at the end: %q, %v", read(t, dir), err)
		}
	})
}

func TestPublisherSaysOnceThatItCannotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		folder := durable.Folder{Path: filepath.Join(t.TempDir(), "absent")}
		p := NewPublisher(folder, "doc.json", func() int { return 1 }, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		ran := 0
		for range 3 {
			p.Touch(func() { ran++ })
			synctest.Wait()
			time.Sleep(coalesce)
		}
		cancel()
		<-done
		if ran != 3 {
			t.Errorf("the functions must run although the write failed: %d", ran)
		}
		if n := strings.Count(log.String(), "cannot publish doc.json"); n != 1 {
			t.Errorf("a failing write must be said once: %s", log.String())
		}
	})
}

// What must survive a crash of the machine is synced, and nothing else is: it costs a write its time.
func TestPublisherSyncs(t *testing.T) {
	for _, options := range [][]Option{nil, {Synced()}} {
		steps := make(map[string]int)
		folder := durable.Folder{Path: t.TempDir(), Fault: func(point string) error { steps[point]++; return nil }}
		p := NewPublisher(folder, "doc.json", func() int { return 1 }, slog.New(slog.DiscardHandler), options...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if got, want := steps["doc.json:"+durable.StepSync], len(options); got != want || steps["doc.json:"+durable.StepSyncDir] != want {
			t.Errorf("%d options: %v", len(options), steps)
		}
		if left, err := os.ReadDir(folder.Path); err != nil || len(left) != 1 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func read(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "doc.json"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}
