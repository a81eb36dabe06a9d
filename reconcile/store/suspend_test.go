package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestSuspend: from the moment at which Suspend returns, no process holds anything new, also after a restart; what is held may be written
// again; the end comes by a word or by the clock.
func TestSuspend(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		agent, command := open(t, dir), open(t, dir)
		put(t, agent, snapshot(41, "x"))
		if was, err := command.Resume(); was != nil || err != nil {
			t.Errorf("resumed %+v, %v", was, err)
		}
		sus := Suspension{Reason: "a migration", Since: time.Now().UTC()}
		if err := command.Suspend(sus); err != nil {
			t.Fatal(err)
		}
		for name, s := range map[string]*Store{"the agent": agent, "the command": command, "a new one": open(t, dir)} {
			if _, err := s.Reload(); err != nil {
				t.Fatal(err)
			}
			if err := s.Put(snapshot(42, "x")); !errors.Is(err, ErrSuspended) || !strings.Contains(err.Error(), "a migration") {
				t.Errorf("%s has put generation 42: %v", name, err)
			}
			if diff := cmp.Diff(&sus, s.Suspension()); diff != "" {
				t.Errorf("%s:\n%s", name, diff)
			}
			put(t, s, snapshot(41, "x"))
		}
		if _, err := agent.Reload(); err != nil {
			t.Fatal(err)
		}
		if err := agent.ObserveCommit("beef"); err != nil {
			t.Errorf("a descendant with the same document: %v", err)
		}
		if err := agent.Put(snapshot(40, "x")); !errors.Is(err, ErrFenced) {
			t.Errorf("the fence stands before it: %v", err)
		}
		if was, err := command.Resume(); err != nil || was == nil || was.Reason != "a migration" {
			t.Errorf("resumed %+v, %v", was, err)
		}
		put(t, agent, snapshot(42, "x"))
		if agent.Suspension() != nil {
			t.Error("it is suspended still")
		}

		until := time.Now().Add(time.Hour).UTC()
		sus.Until = &until
		if err := agent.Suspend(sus); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - 1)
		if err := agent.Put(snapshot(43, "x")); !errors.Is(err, ErrSuspended) || !strings.Contains(err.Error(), "until 2000-01-01T01:00:00Z") {
			t.Errorf("a nanosecond before its end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		put(t, agent, snapshot(43, "x"))
		whole(t, agent, snapshot(43, "x"))
	})
}

// TestSuspendDamaged: a file that cannot be read suspends, is named, and goes with Resume. One that cannot be written suspends nothing.
func TestSuspendDamaged(t *testing.T) {
	for _, text := range []string{"", "{", "{}", `{"reason":"x"}`, `[]`, "\x00"} {
		dir := t.TempDir()
		put(t, open(t, dir), snapshot(41, "x"))
		write(t, filepath.Join(dir, SuspendedFile), []byte(text))
		s := open(t, dir)
		if err := s.Put(snapshot(42, "x")); !errors.Is(err, ErrSuspended) || !strings.Contains(err.Error(), filepath.Join(dir, SuspendedFile)+" cannot be read") {
			t.Errorf("%q: %v", text, err)
		}
		if was, err := s.Resume(); was == nil || err != nil {
			t.Errorf("%q: %+v, %v", text, was, err)
		}
		put(t, s, snapshot(42, "x"))
	}
	dir := t.TempDir()
	s, err := Open(dir, func(point string) error {
		if strings.HasPrefix(point, SuspendedFile) {
			return unix.ENOSPC
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, snapshot(41, "x"))
	if err := s.Suspend(Suspension{Reason: "x", Since: time.Now()}); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), SuspendedFile) {
		t.Errorf("got %v", err)
	}
	put(t, s, snapshot(42, "x"))
	if err := os.Mkdir(filepath.Join(dir, SuspendedFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(snapshot(43, "x")); err == nil || !strings.Contains(err.Error(), "cannot read whether adoption is suspended") {
		t.Errorf("a folder in its place: %v", err)
	}
}
