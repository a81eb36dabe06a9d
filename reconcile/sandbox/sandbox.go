// Package sandbox runs work on untrusted input in a child process of this program, under resource limits, and says which limit ended it.
//
// CUE evaluation and git packs have no budget of their own and some of their failures (out of memory, stack overflow) cannot be
// recovered inside a process. The child therefore is this same program, started with a hidden verb that calls [Serve]; the parent
// holds a [Runner]. Requests go over a socket that is the child's stdin, progress and replies come as frames over its stdout. A child
// never outlives its parent, a deadline or the context of what it does, and neither do the processes it started.
package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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
	Files   []*os.File // a few, given to the task as well, see [Files]; the caller closes them when Run has returned
}

// Run has the child do task with request and stores its reply in reply, a pointer for [json.Unmarshal] that may be [Attached]. p, which may
// be nil, is called for each progress report, one at a time and never after Run has returned.
//
// The error is a [*LimitError], a [*TaskError], a [*CrashError], the context's own error, or one that says why no child could be
// started. A whole reply counts, however the process ends. When Run returns, the child and every process of its group are gone.
func (r Runner) Run(ctx context.Context, task string, request, reply any, p func(Progress)) error {
	q, err := r.question(task, request)
	if err != nil {
		return err
	}
	c, err := r.start()
	if err != nil {
		return err
	}
	defer c.end()
	_, err = c.ask(ctx, q, reply, p)
	return err
}

// question is a request as it is sent.
type question struct {
	head, payload []byte
	files         []*os.File
	limits        Limits
}

func (r Runner) question(task string, request any) (question, error) {
	q := question{files: r.Files, limits: r.Limits.filled()}
	var err error
	if q.payload, err = json.Marshal(request); err == nil {
		q.head, err = json.Marshal(header{Task: task, Limits: q.limits, Size: len(q.payload), Files: len(r.Files)})
	}
	if err == nil && len(r.Files) > maxFiles {
		err = fmt.Errorf("%d files are more than %d", len(r.Files), maxFiles)
	}
	if err != nil {
		return q, fmt.Errorf("cannot encode the request of task %s: %w", task, err)
	}
	q.head = append(q.head, '\n')
	return q, nil
}

func (r Runner) start() (*child, error) {
	if len(r.Command) == 0 {
		return nil, fmt.Errorf("cannot start the evaluation process: no command is configured")
	}
	cmd := exec.Command(r.Command[0], r.Command[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(environment(os.LookupEnv), r.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c := &child{cmd: cmd, done: make(chan struct{})}
	c.words.cap = r.Limits.filled().Stderr
	if err := c.start(); err != nil {
		return nil, fmt.Errorf("cannot start the evaluation process: %w", err)
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
