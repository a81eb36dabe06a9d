// Package sandbox runs work on untrusted input in a child process of this program, under resource limits, and says which limit ended it.
//
// CUE evaluation and git packs have no budget of their own and some of their failures (out of memory, stack overflow) cannot be
// recovered inside a process. The child therefore is this same program, started with a hidden verb that calls [Serve]; the parent
// holds a [Runner]. Request and reply are JSON over stdin and stdout, progress comes as JSON lines over descriptor 3. A child never
// outlives its parent, its deadline or its context, and neither do the processes it started.
package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Progress names what a task has begun.
type Progress struct {
	Phase string `json:"phase"`
	File  string `json:"file,omitempty"`
}

// Runner starts children. It is a value, safe for concurrent use; each Run is its own process.
type Runner struct {
	Command []string   // argv of the child: this program and its hidden verb, such as {"/proc/self/exe", "sandbox"}
	Limits  Limits     // zero fields mean [DefaultLimits]
	Env     []string   // added to the child's small environment, "NAME=value"
	Files   []*os.File // open in the child as well, from descriptor [FirstFile] on; the caller closes them when Run has returned
}

// FirstFile is the child's descriptor of the first of Runner.Files.
const FirstFile = 4

// Run has the child do task with request and stores its reply in reply, a pointer for [json.Unmarshal] that may be [Attached]. p, which may
// be nil, is called from one goroutine for each progress report and never after Run has returned.
//
// The error is a [*LimitError], a [*TaskError], a [*CrashError], the context's own error, or one that says why no child could be
// started. When it returns, the child and every process of its group are gone.
func (r Runner) Run(ctx context.Context, task string, request, reply any, p func(Progress)) error {
	if len(r.Command) == 0 {
		return fmt.Errorf("cannot start the evaluation process: no command is configured")
	}
	payload, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("cannot encode the request of task %s: %w", task, err)
	}
	limits := r.Limits.filled()
	head, err := json.Marshal(header{Task: task, Limits: limits, Size: len(payload)})
	if err != nil {
		return fmt.Errorf("cannot encode the request of task %s: %w", task, err)
	}
	// The parent-death signal belongs to the thread that forks, so that thread must live as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := r.start(limits, p)
	if err != nil {
		return fmt.Errorf("cannot start the evaluation process: %w", err)
	}
	return c.finish(ctx, append(head, '\n'), payload, reply)
}

func (r Runner) start(limits Limits, p func(Progress)) (*child, error) {
	cmd := exec.Command(r.Command[0], r.Command[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(environment(os.LookupEnv), r.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c := &child{cmd: cmd, limits: limits, report: p}
	theirs, err := c.pipes()
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the child has its own copies
		}
	}()
	cmd.ExtraFiles = append(cmd.ExtraFiles, r.Files...)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.closePipes()
		return nil, err
	}
	return c, nil
}

// environment is all that a child sees of ours: where programs are, how to reach the network, which certificates to trust, and
// settings that keep git and CUE from reading a person's configuration or asking anybody anything.
func environment(lookup func(string) (string, bool)) []string {
	env := []string{
		"CUE_REGISTRY=none", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_OPTIONAL_LOCKS=0", "LC_ALL=C", "GOTRACEBACK=single",
	}
	for _, name := range []string{
		"PATH", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	} {
		if v, ok := lookup(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
