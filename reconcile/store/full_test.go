package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullDisk fills a real small file system below a store.
func TestFullDisk(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=128k"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("cannot mount a small tmpfs: %v", err)
		}
		t.Skipf("needs the privilege to mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(mount, "registry")
	s := open(t, dir)
	put(t, s, snapshot(41, "x"))
	put(t, s, snapshot(42, "x"))
	ballast := filepath.Join(mount, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the file system is not full: %v", err)
	}
	err := s.Put(snapshot(43, strings.Repeat("x", 8192)))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), filepath.Join(dir, SlotA)) {
		t.Errorf("a write on a full disk: %v", err)
	}
	if b := s.Blockers(); len(b) != 1 || b[0].Rule != RuleWrite {
		t.Errorf("blockers %v", b)
	}
	if g := s.Snapshot().Generation(); g != 42 {
		t.Errorf("generation %d is served", g)
	}
	whole(t, open(t, dir), snapshot(42, "x")) // a start on the full disk
	if left, err := filepath.Glob(filepath.Join(dir, ".*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	next := snapshot(43, strings.Repeat("x", 8192))
	put(t, s, next)
	whole(t, s, next)
}
