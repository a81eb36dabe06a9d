// Command child is the program that the sandbox's tests start: one task for each way in which untrusted work goes wrong.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stado.internal/stado/reconcile/sandbox"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "parent" {
		parent()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM) // as stado does
	code := sandbox.Serve(ctx, tasks())
	stop()
	os.Exit(code)
}

// parent runs a sleeping child of its own and is killed by the test.
func parent() {
	r := sandbox.Runner{Command: []string{"/proc/self/exe", "sandbox"}, Limits: sandbox.Limits{Wall: time.Minute}}
	err := r.Run(context.Background(), "sleep", nil, nil, func(p sandbox.Progress) { fmt.Println(p.File) })
	fmt.Println("ended:", err)
}

type request struct {
	N    int
	Text string
}

func tasks() map[string]sandbox.Task {
	return map[string]sandbox.Task{
		"echo": with(func(r request, p func(sandbox.Progress)) (any, error) {
			p(sandbox.Progress{Phase: "echo", File: "<a>&b"})
			return map[string]any{"text": r.Text, "raw": json.RawMessage(`{"html":"<&>"}`)}, nil
		}),
		"given": func(ctx context.Context, _ json.RawMessage, _ func(sandbox.Progress)) (any, error) {
			data, err := io.ReadAll(sandbox.Files(ctx)[0])
			return string(data), err
		},
		"pid": with(func(request, func(sandbox.Progress)) (any, error) { return os.Getpid(), nil }),
		"burn": with(func(request, func(sandbox.Progress)) (any, error) {
			var used unix.Rusage
			for used.Utime.Nano()+used.Stime.Nano() < int64(time.Second) {
				if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
					return nil, err
				}
			}
			return os.Getpid(), nil
		}),
		"chatter": with(func(request, func(sandbox.Progress)) (any, error) {
			pid := fmt.Sprint(os.Getpid())
			reply := append([]byte{'r', 0, 0, 0, 0, 0, 0, 0, byte(len(pid)), 16: 0}, pid...)
			_, err := os.Stdout.Write(append(reply, reply...)) // at once, as far as a pipe is concerned
			time.Sleep(time.Hour)
			return nil, err
		}),
		"env": with(func(request, func(sandbox.Progress)) (any, error) { return os.Environ(), nil }),
		"fail": with(func(request, func(sandbox.Progress)) (any, error) {
			return nil, fmt.Errorf("wrapped: %w", &sandbox.TaskError{Kind: "not-found", Phase: "advertisement", Remote: "file:///x", Message: "there is nothing"})
		}),
		"memory": with(func(_ request, p func(sandbox.Progress)) (any, error) {
			p(sandbox.Progress{Phase: "evaluation", File: "hosts/hog.cue"})
			var hog [][]byte
			for {
				b := make([]byte, 16<<20)
				for i := range b {
					b[i] = 1
				}
				hog = append(hog, b)
			}
		}),
		"spin": with(func(_ request, p func(sandbox.Progress)) (any, error) {
			p(sandbox.Progress{Phase: "evaluation", File: "hosts/spin.cue"})
			for n := 0; ; n++ {
				_ = n
			}
		}),
		"sleep": with(func(_ request, p func(sandbox.Progress)) (any, error) {
			p(sandbox.Progress{Phase: "connect", File: fmt.Sprint(os.Getpid())})
			time.Sleep(time.Hour)
			return nil, nil
		}),
		"flood": with(func(r request, p func(sandbox.Progress)) (any, error) {
			p(sandbox.Progress{Phase: "evaluation", File: "big.cue"})
			return strings.Repeat("x", r.N), nil
		}),
		"raw": with(func(request, func(sandbox.Progress)) (any, error) {
			for {
				if _, err := os.Stdout.Write(make([]byte, 64<<10)); err != nil {
					return nil, err
				}
			}
		}),
		"babble": with(func(_ request, p func(sandbox.Progress)) (any, error) {
			p(sandbox.Progress{Phase: "before", File: strings.Repeat("y", 64<<10)})
			for range 1000 {
				fmt.Fprintln(os.Stderr, strings.Repeat("z", 1000))
			}
			panic("babbled")
		}),
		"panic": with(func(_ request, p func(sandbox.Progress)) (any, error) {
			p(sandbox.Progress{Phase: "evaluation", File: "hosts/odd.cue"})
			panic("index out of range")
		}),
		"stack": with(func(_ request, p func(sandbox.Progress)) (any, error) {
			p(sandbox.Progress{Phase: "evaluation", File: "hosts/deep.cue"})
			return descend(1), nil
		}),
		"file": with(func(_ request, p func(sandbox.Progress)) (any, error) {
			p(sandbox.Progress{Phase: "pack", File: "file:///remote"})
			f, err := os.CreateTemp("", "stado-file-limit-")
			if err != nil {
				return nil, err
			}
			defer os.Remove(f.Name())
			for {
				if _, err := f.Write(make([]byte, 64<<10)); err != nil {
					return nil, fmt.Errorf("cannot write: %w", err)
				}
			}
		}),
		"grandchild": with(func(_ request, p func(sandbox.Progress)) (any, error) {
			c := exec.Command("sleep", "3600")
			c.Stdout, c.Stderr = os.Stdout, os.Stderr // holds the pipes open, as git would
			if err := c.Start(); err != nil {
				return nil, err
			}
			p(sandbox.Progress{Phase: "pack", File: fmt.Sprint(c.Process.Pid)})
			time.Sleep(time.Hour)
			return nil, nil
		}),
		"attach": with(func(r request, p func(sandbox.Progress)) (any, error) {
			p(sandbox.Progress{Phase: "evaluation", File: "big.cue"})
			return &attached{Text: r.Text, beside: []byte(strings.Repeat("<\x00", r.N))}, nil
		}),
		"leave": with(func(_ request, p func(sandbox.Progress)) (any, error) {
			c := exec.Command("sleep", "3600")
			c.Stdout = os.Stdout
			if err := c.Start(); err != nil {
				return nil, err
			}
			return c.Process.Pid, nil
		}),
	}
}

type attached struct {
	Text   string
	beside []byte
}

func (a *attached) Attachment() *[]byte { return &a.beside }

func descend(n int) int { return n + descend(n+1) }

func with(f func(request, func(sandbox.Progress)) (any, error)) sandbox.Task {
	return func(_ context.Context, raw json.RawMessage, p func(sandbox.Progress)) (any, error) {
		var r request
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, err
		}
		return f(r, p)
	}
}
