package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestTwoWriters: what another process wrote is taken over before anything is written, and a write that was decided before is refused.
func TestTwoWriters(t *testing.T) {
	dir := t.TempDir()
	agent, command := open(t, dir), open(t, dir)
	put(t, agent, snapshot(41, "a"))
	if err := command.Put(snapshot(42, "b")); !errors.Is(err, ErrOutdated) {
		t.Fatalf("got %v", err)
	}
	put(t, command, snapshot(42, "b"))
	if err := agent.Put(snapshot(43, "c")); !errors.Is(err, ErrOutdated) {
		t.Errorf("got %v", err)
	}
	if g := agent.Snapshot().Generation(); g != 42 {
		t.Errorf("the agent holds %d after it was told", g)
	}
	put(t, command, snapshot(44, "d"))
	if err := agent.ObserveCommit("c1"); !errors.Is(err, ErrOutdated) {
		t.Errorf("got %v", err)
	}
	if changed, err := agent.Reload(); changed || err != nil {
		t.Errorf("reload: %v %v", changed, err)
	}
	put(t, command, snapshot(45, "e"))
	if changed, err := agent.Reload(); !changed || err != nil || agent.Snapshot().Generation() != 45 {
		t.Errorf("reload: %v %v", changed, err)
	}
	list, err := agent.Log()
	if err != nil || len(list) != 4 || list[3].Generation != 45 {
		t.Errorf("journal %+v, %v", list, err)
	}
}

// TestPutBack: files of yesterday, put back under a running agent, take nothing back.
func TestPutBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, snapshot(41, "a"))
	old, err := os.ReadFile(filepath.Join(dir, HeldFile))
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, snapshot(42, "b"))
	if err := os.WriteFile(filepath.Join(dir, HeldFile), old, 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := s.Reload(); changed || err != nil {
		t.Errorf("reload: %v %v", changed, err)
	}
	put(t, s, snapshot(43, "c"))
	if v, err := Read(dir); err != nil || v.Held.Generation != 43 || len(v.Blockers) > 0 {
		t.Errorf("%+v %v", v, err)
	}
}
