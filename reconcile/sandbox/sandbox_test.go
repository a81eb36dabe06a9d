package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/reconcile/sandbox/sandboxtest"
)

type request struct {
	N    int
	Text string
}

// runner has the limits that a test is about; a busy machine may take its time for the rest.
func runner(t *testing.T, l sandbox.Limits) sandbox.Runner {
	t.Helper()
	if l.Wall == 0 {
		l.Wall = 10 * time.Minute
	}
	return sandbox.Runner{Command: []string{sandboxtest.Build(t, "./testdata/child"), "sandbox"}, Limits: l}
}

func TestReplyAndProgressArriveUnchanged(t *testing.T) {
	t.Parallel()
	var seen []sandbox.Progress
	var reply struct {
		Text string
		Raw  rawJSON
	}
	// A request larger than a pipe's buffer must not block the child's start.
	text := strings.Repeat("long <&> ", 50_000)
	err := runner(t, sandbox.Limits{}).Run(t.Context(), "echo", request{Text: text}, &reply, func(p sandbox.Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	if reply.Text != text || string(reply.Raw) != `{"html":"<&>"}` {
		t.Errorf("reply changed on the way: %d bytes, raw %s", len(reply.Text), reply.Raw)
	}
	if want := []sandbox.Progress{{Phase: "echo", File: "<a>&b"}}; !cmp.Equal(seen, want) {
		t.Errorf("progress = %v, want %v", seen, want)
	}
}

type attached struct {
	Text   string
	beside []byte
}

func (a *attached) Attachment() *[]byte { return &a.beside }

func TestAttachmentArrivesUnchanged(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 300_000} { // the last is more than a pipe holds
		var reply attached
		if err := runner(t, sandbox.Limits{}).Run(t.Context(), "attach", request{N: n, Text: "beside"}, &reply, nil); err != nil {
			t.Fatal(err)
		}
		if reply.Text != "beside" || string(reply.beside) != strings.Repeat("<\x00", n) || (reply.beside == nil) != (n == 0) {
			t.Errorf("%d: reply changed on the way: %q, %d bytes", n, reply.Text, len(reply.beside))
		}
	}
	var ignored struct{ Text string }
	if err := runner(t, sandbox.Limits{}).Run(t.Context(), "attach", request{N: 1, Text: "alone"}, &ignored, nil); err != nil || ignored.Text != "alone" {
		t.Errorf("a reply that asks for no attachment: %q, %v", ignored.Text, err)
	}
}

type rawJSON []byte

func (r *rawJSON) UnmarshalJSON(b []byte) error { *r = append((*r)[:0], b...); return nil }

func TestFilesAreGiven(t *testing.T) {
	t.Parallel()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.WriteString("from here"); err != nil {
		t.Fatal(err)
	}
	_ = ours.Close()
	r := runner(t, sandbox.Limits{})
	r.Files = []*os.File{theirs}
	var got string
	if err := r.Run(t.Context(), "given", request{}, &got, nil); err != nil || got != "from here" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := theirs.Close(); err != nil {
		t.Error("the file was closed for its owner")
	}
}

func TestTaskErrorKeepsItsFields(t *testing.T) {
	t.Parallel()
	err := runner(t, sandbox.Limits{}).Run(t.Context(), "fail", request{}, nil, nil)
	var got *sandbox.TaskError
	if !errors.As(err, &got) {
		t.Fatalf("error is %T: %v", err, err)
	}
	want := sandbox.TaskError{Kind: "not-found", Phase: "advertisement", Remote: "file:///x", Message: "there is nothing"}
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
}

func TestLimitsNameWhatEndedTheWork(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		task     string
		limits   sandbox.Limits
		n        int
		limit    string
		sentence string
	}{
		{"memory", sandbox.Limits{Data: 128 << 20}, 0, sandbox.LimitMemory, "evaluation limit: memory, 128 MiB, in phase evaluation, last begun hosts/hog.cue"},
		{"stack", sandbox.Limits{Data: 128 << 20}, 0, sandbox.LimitMemory, "evaluation limit: memory (stack), 128 MiB, in phase evaluation, last begun hosts/deep.cue"},
		{"spin", sandbox.Limits{CPU: time.Second}, 0, sandbox.LimitCPU, "evaluation limit: cpu, 1 s, in phase evaluation, last begun hosts/spin.cue"},
		{"flood", sandbox.Limits{Output: 1 << 20}, 2 << 20, sandbox.LimitOutput, "evaluation limit: output, 1 MiB, in phase evaluation, last begun big.cue"},
		{"attach", sandbox.Limits{Output: 1 << 20}, 1 << 20, sandbox.LimitOutput, "evaluation limit: output, 1 MiB, in phase evaluation, last begun big.cue"},
		{"file", sandbox.Limits{File: 1 << 20}, 0, sandbox.LimitFile, "evaluation limit: file, 1 MiB, in phase pack, last begun file:///remote"},
	} {
		t.Run(tc.task, func(t *testing.T) {
			t.Parallel()
			err := runner(t, tc.limits).Run(t.Context(), tc.task, request{N: tc.n}, nil, nil)
			var got *sandbox.LimitError
			if !errors.As(err, &got) {
				t.Fatalf("error is %T: %v", err, err)
			}
			if got.Limit != tc.limit || got.Error() != tc.sentence {
				t.Errorf("got %s: %s\nwant %s: %s", got.Limit, got, tc.limit, tc.sentence)
			}
		})
	}
}

func TestDeadlineEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	var grandchild int
	err := runner(t, sandbox.Limits{Wall: 8 * time.Second}).Run(t.Context(), "grandchild", request{}, nil, func(p sandbox.Progress) {
		grandchild, _ = strconv.Atoi(p.File)
	})
	var got *sandbox.LimitError
	if !errors.As(err, &got) || got.Limit != sandbox.LimitTime || got.Phase != "pack" {
		t.Fatalf("error is %T: %v", err, err)
	}
	awaitGone(t, grandchild)
}

func TestNothingIsLeftBehindAfterAReply(t *testing.T) {
	t.Parallel()
	var grandchild int
	if err := runner(t, sandbox.Limits{}).Run(t.Context(), "leave", request{}, &grandchild, nil); err != nil {
		// The grandchild holds stdout, so the end of the reply is only seen once it is killed.
		t.Fatal(err)
	}
	awaitGone(t, grandchild)
}

func TestContextEndsTheChild(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var pid int
	err := runner(t, sandbox.Limits{}).Run(ctx, "sleep", request{}, nil, func(p sandbox.Progress) {
		pid, _ = strconv.Atoi(p.File)
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %T: %v", err, err)
	}
	awaitGone(t, pid)
}

func TestCrashesAreOurOwnFault(t *testing.T) {
	t.Parallel()
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		err := runner(t, sandbox.Limits{}).Run(t.Context(), "panic", request{}, nil, nil)
		var got *sandbox.CrashError
		if !errors.As(err, &got) {
			t.Fatalf("error is %T: %v", err, err)
		}
		want := "the evaluation process ended without a reply (exit status 2), in phase evaluation, last begun hosts/odd.cue: panic: index out of range"
		if got.Error() != want || !strings.Contains(got.Stderr, "goroutine 1") {
			t.Errorf("got %s\nstderr %s", got, got.Stderr)
		}
	})
	t.Run("much on stderr and an overlong progress line", func(t *testing.T) {
		t.Parallel()
		err := runner(t, sandbox.Limits{Stderr: 8 << 10}).Run(t.Context(), "babble", request{}, nil, nil)
		var got *sandbox.CrashError
		if !errors.As(err, &got) {
			t.Fatalf("error is %T: %v", err, err)
		}
		if n := len(got.Stderr); n < 8<<10 || n > 8<<10+16 {
			t.Errorf("kept %d bytes of stderr, want 8 KiB", n)
		}
		if !strings.HasPrefix(got.Stderr, "zzz") || !strings.Contains(got.Stderr, "main.go") {
			t.Error("stderr lost its start or its end")
		}
	})
	t.Run("garbage on stdout", func(t *testing.T) {
		t.Parallel()
		err := runner(t, sandbox.Limits{}).Run(t.Context(), "raw", request{}, nil, nil)
		if err == nil {
			t.Error("an endless reply was accepted")
		}
	})
	t.Run("no such program", func(t *testing.T) {
		t.Parallel()
		err := sandbox.Runner{Command: []string{"/nonexistent"}}.Run(t.Context(), "echo", request{}, nil, nil)
		if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "cannot start the evaluation process: ") {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("unknown task", func(t *testing.T) {
		t.Parallel()
		err := runner(t, sandbox.Limits{}).Run(t.Context(), "nonsense", request{}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), `unknown task "nonsense"`) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestEnvironmentIsSmall(t *testing.T) {
	t.Setenv("HOME", "/home/somebody")
	t.Setenv("GIT_DIR", "/elsewhere")
	t.Setenv("SECRET_TOKEN", "canary")
	t.Setenv("SSL_CERT_FILE", "/etc/ssl/mine.pem")
	var env []string
	if err := runner(t, sandbox.Limits{}).Run(t.Context(), "env", request{}, &env, nil); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(env, "\n") + "\n"
	for _, want := range []string{"CUE_REGISTRY=none\n", "SSL_CERT_FILE=/etc/ssl/mine.pem\n", "PATH=", "GIT_CONFIG_GLOBAL=/dev/null\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the child lacks %q", want)
		}
	}
	for _, refused := range []string{"canary", "HOME=", "GIT_DIR="} {
		if strings.Contains(got, refused) {
			t.Errorf("the child sees %q", refused)
		}
	}
}

// A parent that is killed leaves no child: the kernel kills it.
func TestKilledParentLeavesNoChild(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(sandboxtest.Build(t, "./testdata/child"), "parent")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the parent said %q", line)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	awaitGone(t, pid)
}

// awaitGone waits until a process has ended. A zombie, which an init that does not reap may leave, has ended.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no process id was reported (%d)", pid)
	}
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		if errors.Is(unix.Kill(pid, 0), unix.ESRCH) || zombie(pid) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs", pid)
		}
	}
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}
