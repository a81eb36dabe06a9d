package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// exhaust takes every descriptor that the process may still have, and gives them back with the test.
func exhaust(t *testing.T) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = min(before.Cur, 256)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var taken []int
	t.Cleanup(func() {
		for _, fd := range taken {
			_ = syscall.Close(fd)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	})
	for {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if errors.Is(err, syscall.EMFILE) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, fd)
	}
}

func TestReadyNeedsNoDescriptor(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprintf("sync %v", sync), func(t *testing.T) {
			f := folder(t)
			r := f.Ready(name, 0o600, sync)
			if err := r.Prepare(); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var errs [4]error
			t.Run("without descriptors", func(t *testing.T) {
				exhaust(t)
				for i := range errs[:3] {
					errs[i] = r.Write(fmt.Appendf(nil, "content %d", i))
				}
				errs[3] = f.Replace(name, after, 0o600)
			})
			if err := errors.Join(errs[:3]...); err != nil {
				t.Error(err)
			}
			if !errors.Is(errs[3], syscall.EMFILE) {
				t.Errorf("there were descriptors left: %v", errs[3])
			}
			want(t, f, []byte("content 2"))
		})
	}
}

func TestReadySteps(t *testing.T) {
	f := folder(t)
	var seen []string
	f.Fault = func(point string) error { seen = append(seen, strings.TrimPrefix(point, name+":")); return nil }
	for sync, want := range map[bool][]string{
		true:  {StepCreate, StepWrite, StepSync, StepRename, StepCreate, StepSyncDir},
		false: {StepCreate, StepWrite, StepRename, StepCreate},
	} {
		seen = nil
		r := f.Ready(name, 0o600, sync)
		if err := errors.Join(r.Write(after), r.Close()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Error(diff)
		}
	}
}

// A write that fails leaves the old content and nothing else, and the next one is not harmed by it.
func TestReadyFault(t *testing.T) {
	broken := errors.New("broken")
	for _, step := range []string{StepCreate, StepWrite, StepSync, StepRename} {
		t.Run(step, func(t *testing.T) {
			f := folder(t)
			failing := true
			f.Fault = func(point string) error {
				if failing && point == name+":"+step {
					return broken
				}
				return nil
			}
			r := f.Ready(name, 0o600, true)
			if err := r.Write(after); !errors.Is(err, broken) || !strings.Contains(err.Error(), filepath.Join(f.Path, name)) {
				t.Errorf("error %v", err)
			}
			want(t, f, before)
			failing = false
			if err := r.Write(after); err != nil {
				t.Error(err)
			}
			want(t, f, after)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{name}, files(t, f)); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}

// A sweep of the folder takes the file that is kept for the next write.
func TestReadyAfterASweep(t *testing.T) {
	f := folder(t)
	r := f.Ready(name, 0o600, false)
	if err := errors.Join(r.Prepare(), f.Sweep(), r.Write(after)); err != nil {
		t.Fatal(err)
	}
	want(t, f, after)
	if err := errors.Join(os.RemoveAll(f.Path), r.Close()); err != nil {
		t.Error(err)
	}
	if err := r.Write(before); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
