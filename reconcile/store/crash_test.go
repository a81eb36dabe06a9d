package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"stado.internal/stado/fleet"
)

var errCrash = errors.New("crash")

// Environment of the process that TestKilled kills.
const (
	crashDir   = "STADO_TEST_CRASH_DIR"
	crashPoint = "STADO_TEST_CRASH_POINT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		os.Exit(crashing(dir, os.Getenv(crashPoint)))
	}
	os.Exit(m.Run())
}

// crashing puts generation 43 and dies by SIGKILL at the numbered step.
func crashing(dir, point string) int {
	left, err := strconv.Atoi(point)
	if err != nil {
		return 3
	}
	s, err := Open(dir, func(string) error {
		if left--; left < 0 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	})
	if err != nil || s.Put(snapshot(43, "x")) != nil {
		return 4
	}
	return 0
}

// TestKilled kills a writer at every step of a write. The next start serves the old registry or the new one, whole, without a blocker,
// and never one that the journal does not name.
func TestKilled(t *testing.T) {
	seen := map[fleet.Generation]int{}
	for point := 0; ; point++ {
		dir := t.TempDir()
		s := open(t, dir)
		put(t, s, snapshot(41, "x"))
		put(t, s, snapshot(42, "x"))
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashDir+"="+dir, fmt.Sprintf("%s=%d", crashPoint, point))
		err := cmd.Run()
		if s = open(t, dir); s.Snapshot() == nil {
			t.Fatalf("step %d: nothing is served: %v", point, s.Blockers())
		}
		whole(t, s, snapshot(s.Snapshot().Generation(), "x"))
		seen[s.Snapshot().Generation()]++
		if list, lerr := s.Log(); lerr != nil || list[len(list)-1].Generation != s.Snapshot().Generation() {
			t.Errorf("step %d: journal %v, %v", point, list, lerr)
		}
		put(t, s, snapshot(43, "x"))
		whole(t, s, snapshot(43, "x"))
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() < 0 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if seen[42] < 8 || seen[43] < 4 {
		t.Errorf("kills left generation 42 and 43 this often: %v", seen)
	}
}

// TestKilledFirst kills the writer of the very first admission at every step. Until the anchor is there nothing is held, and that is no
// damage: the next start asks again.
func TestKilledFirst(t *testing.T) {
	seen := map[bool]int{}
	for point := 0; ; point++ {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashDir+"="+dir, fmt.Sprintf("%s=%d", crashPoint, point))
		err := cmd.Run()
		s := open(t, dir)
		_, held := s.Held()
		seen[held]++
		if held != (s.Snapshot() != nil) || len(s.Blockers()) > 0 {
			t.Errorf("step %d: held %v, served %v, blockers %v", point, held, s.Snapshot() != nil, s.Blockers())
		}
		put(t, s, snapshot(43, "x"))
		whole(t, s, snapshot(43, "x"))
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() < 0 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if seen[false] < 8 || seen[true] < 4 {
		t.Errorf("kills left nothing and something held this often: %v", seen)
	}
}

// TestFault fails every step of a write in a process that lives on: a full disk. The old registry stands, or the new one where the
// failure came behind the rename; it is said; the next write heals it.
func TestFault(t *testing.T) {
	for point := 0; ; point++ {
		left, failed := -1, ""
		s, err := Open(t.TempDir(), func(p string) error {
			if left--; left == -1 {
				failed = p
				return unix.ENOSPC
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, snapshot(41, "x"))
		put(t, s, snapshot(42, "x"))
		left = point
		err = s.Put(snapshot(43, "x"))
		if failed == "" {
			if point != 13 {
				t.Errorf("a write has %d steps", point)
			}
			return
		}
		file, _, _ := strings.Cut(failed, ":")
		checkFault(t, s, file, err)
		if file != LogFile { // another write fails where a crash does most harm: the slot is there, the anchor is not
			left = 5
			if err := s.Put(snapshot(44, "x")); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("%s: %v", failed, err)
			}
			now := open(t, s.folder.Path)
			whole(t, now, snapshot(now.Snapshot().Generation(), "x"))
		}
		put(t, s, snapshot(43, "x"))
		whole(t, s, snapshot(43, "x"))
		if list, err := s.Log(); err != nil || len(list) != 3 || list[2].Generation != 43 {
			t.Errorf("%s: journal %v, %v", failed, list, err)
		}
	}
}

func checkFault(t *testing.T, s *Store, file string, err error) {
	t.Helper()
	b := s.Blockers()
	if len(b) != 1 || !strings.Contains(b[0].Sentence, s.folder.Path+"/"+file) || !strings.Contains(b[0].Sentence, "no space left on device") {
		t.Errorf("%s: blockers %v", file, b)
	}
	if file == LogFile {
		if err != nil || b[0].Rule != RuleLog || s.Damaged() {
			t.Errorf("a journal that is not written took the admission back: %v, %v", err, b)
		}
		return
	}
	we, ok := errors.AsType[*WriteError](err)
	if !ok || !errors.Is(err, unix.ENOSPC) || we.Sentence != b[0].Sentence || b[0].Rule != RuleWrite || !s.Damaged() {
		t.Errorf("%s: %v, %v", file, err, b)
	}
	if g := s.Snapshot().Generation(); g != 42 && g != 43 {
		t.Errorf("%s: generation %d is served", file, g)
	}
	if err := s.Put(snapshot(41, "x")); !errors.Is(err, ErrFenced) {
		t.Errorf("%s: generation 41 was put: %v", file, err)
	}
}

// TestFaultWhileObserving fails the one write of ObserveCommit.
func TestFaultWhileObserving(t *testing.T) {
	fail := ""
	s, err := Open(t.TempDir(), func(p string) error {
		if p == fail {
			return errCrash
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, snapshot(42, "x"))
	for _, fail = range []string{"held.json:create", "held.json:sync-dir"} {
		if err := s.ObserveCommit("beef"); !errors.Is(err, errCrash) {
			t.Errorf("%s: %v", fail, err)
		}
		if s.Snapshot().Generation() != 42 || !s.Damaged() {
			t.Errorf("%s: %+v", fail, s.state)
		}
	}
	fail = ""
	if err := s.ObserveCommit("beef"); err != nil {
		t.Fatal(err)
	}
	moved := *snapshot(42, "x")
	moved.Commit = "beef"
	whole(t, s, &moved)
}
