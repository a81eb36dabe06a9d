package sandbox_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"stado.internal/stado/reconcile/sandbox"
)

// kept asks one Keeper.
type kept struct {
	*sandbox.Keeper
	t *testing.T
}

func keep(t *testing.T, idle time.Duration) kept {
	k := kept{&sandbox.Keeper{For: idle}, t}
	t.Cleanup(k.Close)
	return k
}

// pid is the process that does a task which says so.
func (k kept) pid(task string, l sandbox.Limits) int {
	k.t.Helper()
	var pid int
	if err := k.Run(k.t.Context(), runner(k.t, l), task, request{}, &pid, nil); err != nil {
		k.t.Fatal(err)
	}
	return pid
}

func TestKeptChildWorksOn(t *testing.T) {
	t.Parallel()
	k := keep(t, time.Hour)
	first := k.pid("pid", sandbox.Limits{})
	if again := k.pid("pid", sandbox.Limits{Wall: time.Minute, Output: 1 << 20}); again != first {
		t.Errorf("the second task ran in %d, the first in %d", again, first)
	}
	var got string
	if err := k.Run(t.Context(), given(t, "by the third"), "given", request{}, &got, nil); err != nil || got != "by the third" {
		t.Errorf("got %q, %v", got, err)
	}
	if again := k.pid("pid", sandbox.Limits{}); again != first {
		t.Errorf("the fourth task ran in %d, the first in %d", again, first)
	}
	var failed *sandbox.TaskError
	if err := k.Run(t.Context(), runner(t, sandbox.Limits{}), "fail", request{}, nil, nil); !errors.As(err, &failed) || failed.Kind != "not-found" {
		t.Errorf("error is %v", err)
	}
	awaitGone(t, first) // with whatever its failure has left
	first = k.pid("pid", sandbox.Limits{})
	k.Close()
	awaitGone(t, first)
	last := k.pid("pid", sandbox.Limits{})
	if last == first {
		t.Error("a closed keeper asks a child that has ended")
	}
	awaitGone(t, last)
}

// given is a runner whose file holds text.
func given(t *testing.T, text string) sandbox.Runner {
	t.Helper()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	if _, err := ours.WriteString(text); err != nil {
		t.Fatal(err)
	}
	_ = ours.Close()
	r := runner(t, sandbox.Limits{})
	r.Files = []*os.File{theirs}
	return r
}

func TestKeptChildIsReplaced(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		task   string // after which another child is asked
		limits sandbox.Limits
		then   func(pid int)
	}{
		{"other limits", "pid", sandbox.Limits{Data: 256 << 20}, nil},
		{"a child that was killed", "pid", sandbox.Limits{}, func(pid int) { _ = unix.Kill(pid, unix.SIGKILL) }},
		{"a child that was told to end", "pid", sandbox.Limits{}, func(pid int) {
			_ = unix.Kill(pid, unix.SIGTERM)
			awaitGone(t, pid)
		}},
		{"a child that is worn", "burn", sandbox.Limits{CPU: 4 * time.Second}, nil},
		{"a child that says more than was asked", "chatter", sandbox.Limits{}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k := keep(t, time.Hour)
			first := k.pid(tc.task, tc.limits)
			if tc.then != nil {
				tc.then(first)
			}
			then := tc.limits
			then.Data = 0 // the default
			if second := k.pid("pid", then); second == first {
				t.Error("it is asked again")
			}
			awaitGone(t, first)
		})
	}
}

// A verdict is that of a process which has done nothing else.
func TestKeptChildGivesNoVerdict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		task     string
		limits   sandbox.Limits
		sentence string
	}{
		{"spin", sandbox.Limits{CPU: 2 * time.Second}, "evaluation limit: cpu, 2 s, in phase evaluation, last begun hosts/spin.cue"},
		{"memory", sandbox.Limits{Data: 256 << 20}, "evaluation limit: memory, 256 MiB, in phase evaluation, last begun hosts/hog.cue"},
		{"panic", sandbox.Limits{}, "the evaluation process ended without a reply (exit status 2), in phase evaluation, last begun hosts/odd.cue: panic: index out of range"},
	} {
		t.Run(tc.task, func(t *testing.T) {
			t.Parallel()
			k, begun := keep(t, time.Hour), 0
			var heard []error
			k.Ended = func(err error) { heard = append(heard, err) }
			first := k.pid("pid", tc.limits)
			err := k.Run(t.Context(), runner(t, tc.limits), tc.task, request{}, nil, func(sandbox.Progress) { begun++ })
			if err == nil || err.Error() != tc.sentence {
				t.Errorf("error is %v", err)
			}
			if begun != 2 || len(heard) != 1 || heard[0].Error() != tc.sentence {
				t.Errorf("begun %d times, want once in each child; heard %v", begun, heard)
			}
			awaitGone(t, first)
		})
	}
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		k := keep(t, time.Hour)
		first := k.pid("pid", sandbox.Limits{})
		r := given(t, "")
		if err := k.Run(t.Context(), r, "panic", request{}, nil, nil); !errors.Is(err, sandbox.ErrAgain) {
			t.Errorf("error is %v", err)
		}
		awaitGone(t, first)
		var crash *sandbox.CrashError
		if err := k.Run(t.Context(), r, "panic", request{}, nil, nil); !errors.As(err, &crash) || errors.Is(err, sandbox.ErrAgain) {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("a deadline", func(t *testing.T) {
		t.Parallel()
		k := keep(t, time.Hour)
		first, begun := k.pid("pid", sandbox.Limits{}), 0
		ctx, cancel := context.WithCancel(t.Context())
		err := k.Run(ctx, runner(t, sandbox.Limits{}), "sleep", request{}, nil, func(p sandbox.Progress) {
			begun++
			if pid, _ := strconv.Atoi(p.File); pid != first {
				t.Errorf("asked in %s, not in %d", p.File, first)
			}
			cancel()
		})
		if !errors.Is(err, context.Canceled) || begun != 1 {
			t.Errorf("error is %v after %d beginnings", err, begun)
		}
		awaitGone(t, first)
	})
}

func TestKeptChildEnds(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	awaitGone(t, keep(t, 10*time.Millisecond).pid("pid", sandbox.Limits{}))
	awaitGone(t, keep(t, 0).pid("pid", sandbox.Limits{}))

	k := keep(t, time.Hour)
	// A task that finds the kept child at work has its own, which stays when it ends first.
	var inner int
	if err := k.Run(t.Context(), runner(t, sandbox.Limits{}), "pid", request{}, &inner, nil); err != nil {
		t.Fatal(err)
	}
	first, ended := inner, false
	var reply struct{ Text string }
	err := k.Run(t.Context(), runner(t, sandbox.Limits{}), "echo", request{}, &reply, func(sandbox.Progress) {
		if !ended {
			inner, ended = k.pid("pid", sandbox.Limits{}), true
		}
	})
	if err != nil || inner == first {
		t.Errorf("both ran in %d, %v", first, err)
	}
	awaitGone(t, first)
	if again := k.pid("pid", sandbox.Limits{}); again != inner {
		t.Errorf("%d was kept, and %d works", inner, again)
	}
	k.Close()
	awaitGone(t, inner)
}
