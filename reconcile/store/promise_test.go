package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/reconcile/authority"
)

// TestPromise: a promise is durable, outlives what is held after it, and is nobody's to make for an anchor that is lost.
func TestPromise(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	p := &authority.Promise{Generation: 43, Mover: "b2", Nonce: "n1", Incarnation: "i"}
	if err := s.Promise(p); err == nil {
		t.Error("nothing is held, and something is promised")
	}
	put(t, s, snapshot(41, "a"))
	if err := s.Promise(p); err != nil {
		t.Fatal(err)
	}
	put(t, s, snapshot(42, "b"))
	again := open(t, dir)
	held, _ := again.Held()
	if diff := cmp.Diff(p, held.Promised); diff != "" || held.Generation != 42 || held.Recovering {
		t.Errorf("%+v\n%s", held, diff)
	}
	if err := s.Promise(nil); err != nil {
		t.Fatal(err)
	}
	if err := again.Promise(p); !errors.Is(err, ErrOutdated) {
		t.Errorf("a promise over what another process wrote: %v", err)
	}

	if err := os.Remove(filepath.Join(dir, HeldFile)); err != nil {
		t.Fatal(err)
	}
	for _, open := range []*Store{open(t, dir), open(t, dir)} { // it stays so until somebody says what was promised
		if held, _ := open.Held(); !held.Recovering {
			t.Errorf("a lost anchor is not recovering: %+v", held)
		}
		if err := open.Promise(p); err == nil {
			t.Error("a lost anchor promises")
		}
		put(t, open, snapshot(43, "c"))
	}
}

// TestRejoin: a lost anchor promises again when it is told what bounds its old promises, and that is durable.
func TestRejoin(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, snapshot(41, "a"))
	floor := &authority.Promise{Generation: 44, Mover: "b2", Ended: authority.Released}
	if err := s.Rejoin(floor); err == nil {
		t.Error("nothing was lost, and the recovery ends")
	}
	if err := os.Remove(filepath.Join(dir, HeldFile)); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if err := s.Rejoin(floor); err == nil {
		t.Error("the recovery ends before anything is held")
	}
	put(t, s, snapshot(42, "b"))
	other := open(t, dir)
	if err := other.Rejoin(floor); err != nil {
		t.Fatal(err)
	}
	if err := s.Rejoin(nil); !errors.Is(err, ErrOutdated) {
		t.Errorf("over what another process wrote: %v", err)
	}
	for _, open := range []*Store{s, other, open(t, dir)} {
		if held, _ := open.Held(); held.Recovering || held.Generation != 42 || cmp.Diff(floor, held.Promised) != "" {
			t.Errorf("%+v", held)
		}
	}
	if err := s.Promise(&authority.Promise{Generation: 45, Mover: "b2", Nonce: "n1"}); err != nil {
		t.Error(err)
	}
}

// TestPromiseAfterEverything: also when no document is left, what follows is recovering.
func TestPromiseAfterEverything(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir), snapshot(41, "a"))
	for _, name := range []string{HeldFile, SlotA, SlotB} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir)
	put(t, s, snapshot(42, "b"))
	if held, _ := s.Held(); !held.Recovering {
		t.Errorf("%+v", held)
	}
	fresh := open(t, t.TempDir())
	put(t, fresh, snapshot(42, "b"))
	if held, _ := fresh.Held(); held.Recovering {
		t.Errorf("a new host is recovering: %+v", held)
	}
}
