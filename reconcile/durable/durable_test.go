package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// Environment of the process that TestKilled kills.
const (
	crashDir  = "STADO_TEST_CRASH_DIR"
	crashStep = "STADO_TEST_CRASH_STEP"
)

const name = "record.json"

var (
	before = []byte("before")
	after  = bytes.Repeat([]byte("after "), 20_000)
)

func TestMain(m *testing.M) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	f := Folder{Path: dir, Fault: func(point string) error {
		if point == name+":"+os.Getenv(crashStep) {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}}
	if err := f.Write(name, after, 0o600); err != nil {
		os.Exit(3)
	}
}

func steps() []string { return []string{StepCreate, StepWrite, StepSync, StepRename, StepSyncDir} }

func folder(t *testing.T) Folder {
	t.Helper()
	f := Folder{Path: t.TempDir()}
	if err := f.Write(name, before, 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func want(t *testing.T, f Folder, content []byte) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(f.Path, name))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("content %.20q… of %d bytes, %v; want %.20q… of %d", got, len(got), err, content, len(content))
	}
}

// files lists the folder, so that a test sees what was left behind.
func files(t *testing.T, f Folder) []string {
	t.Helper()
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWrite(t *testing.T) {
	for how, write := range map[string]func(Folder, []byte, os.FileMode) error{
		"write":   func(f Folder, data []byte, mode os.FileMode) error { return f.Write(name, data, mode) },
		"replace": func(f Folder, data []byte, mode os.FileMode) error { return f.Replace(name, data, mode) },
		"ready": func(f Folder, data []byte, mode os.FileMode) error {
			r := f.Ready(name, mode, true)
			return errors.Join(r.Prepare(), r.Write(data), r.Close())
		},
	} {
		t.Run(how, func(t *testing.T) {
			f := Folder{Path: t.TempDir()}
			for _, c := range []struct {
				data []byte
				mode os.FileMode
			}{{before, 0o600}, {after, 0o644}, {nil, 0o600}} {
				if err := write(f, c.data, c.mode); err != nil {
					t.Fatal(err)
				}
				want(t, f, c.data)
				st, err := os.Stat(filepath.Join(f.Path, name))
				if err != nil || st.Mode().Perm() != c.mode {
					t.Errorf("mode %v, %v; want %v", st.Mode(), err, c.mode)
				}
			}
			if diff := cmp.Diff([]string{name}, files(t, f)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSteps holds what is synced, and in which order.
func TestSteps(t *testing.T) {
	f := folder(t)
	var seen []string
	f.Fault = func(point string) error { seen = append(seen, strings.TrimPrefix(point, name+":")); return nil }
	if err := f.Write(name, after, 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(steps(), seen); diff != "" {
		t.Error(diff)
	}
	seen = nil
	if err := f.Replace(name, after, 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{StepCreate, StepWrite, StepRename}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestFault(t *testing.T) {
	broken := errors.New("broken")
	for _, step := range steps() {
		t.Run(step, func(t *testing.T) {
			f := folder(t)
			f.Fault = func(point string) error {
				if point == name+":"+step {
					return broken
				}
				return nil
			}
			err := f.Write(name, after, 0o600)
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), filepath.Join(f.Path, name)) {
				t.Errorf("error %v", err)
			}
			if step == StepSyncDir { // the name has changed already; only its survival of a crash is open
				want(t, f, after)
			} else {
				want(t, f, before)
			}
			if diff := cmp.Diff([]string{name}, files(t, f)); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}

// TestKilled kills a writer at every step: the old content or the new one is there, and a sweep removes the rest.
func TestKilled(t *testing.T) {
	for _, step := range steps() {
		t.Run(step, func(t *testing.T) {
			f := folder(t)
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), crashDir+"="+f.Path, crashStep+"="+step)
			err := cmd.Run()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != -1 {
				t.Fatalf("the writer was not killed: %v", err)
			}
			if step == StepSyncDir {
				want(t, f, after)
			} else {
				want(t, f, before)
			}
			temporary := step != StepCreate && step != StepSyncDir
			if left := files(t, f); (len(left) == 2) != temporary {
				t.Errorf("left behind: %v", left)
			}
			if err := f.Sweep(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{name}, files(t, f)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReaders holds that a reader beside a writer sees one content or the other.
func TestReaders(t *testing.T) {
	f := folder(t)
	done := make(chan error, 1)
	go func() {
		for i := range 200 {
			if err := f.Replace(name, [][]byte{before, after}[i%2], 0o600); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reads := 0; ; reads++ {
		got, err := os.ReadFile(filepath.Join(f.Path, name))
		if err != nil || !bytes.Equal(got, before) && !bytes.Equal(got, after) {
			t.Fatalf("read %d: %d bytes, %v", reads, len(got), err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

func TestSweepKeepsOthers(t *testing.T) {
	f := folder(t)
	for _, other := range []string{".hidden", "plain.tmp", ".record.json.1.tmp", ".x.tmp"} {
		if err := os.WriteFile(filepath.Join(f.Path, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sweep(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{".hidden", "plain.tmp", name}, files(t, f)); diff != "" {
		t.Error(diff)
	}
}

// TestFullDisk writes to a real small file system that has no room left.
func TestFullDisk(t *testing.T) {
	f := Folder{Path: t.TempDir()}
	if err := unix.Mount("tmpfs", f.Path, "tmpfs", 0, "size=64k"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("cannot mount a small tmpfs: %v", err)
		}
		t.Skipf("needs the privilege to mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(f.Path, 0); err != nil {
			t.Error(err)
		}
	})
	if err := f.Write(name, before, 0o600); err != nil {
		t.Fatal(err)
	}
	err := f.Write(name, after, 0o600)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), filepath.Join(f.Path, name)) {
		t.Errorf("error %v", err)
	}
	want(t, f, before)
	if diff := cmp.Diff([]string{name}, files(t, f)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

func TestNoFolder(t *testing.T) {
	f := Folder{Path: filepath.Join(t.TempDir(), "none")}
	if err := f.Write(name, before, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := SyncDir(f.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := f.Sweep(); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestReadJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), name)
	var v struct{ A int }
	if err := ReadJSON(path, &v); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	for content, good := range map[string]bool{`{"A": 3}`: true, `{"A": `: false, ``: false, `{"A": "x"}`: false} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		v.A = 0
		err := ReadJSON(path, &v)
		if good && (err != nil || v.A != 3) || !good && (err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("%s cannot be read: ", path))) {
			t.Errorf("%q: %+v, %v", content, v, err)
		}
	}
}
