package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stado.internal/stado/agent/status"
	"stado.internal/stado/reconcile/sandbox/sandboxtest"
)

// lab is one host's fleet on this machine: a registry repository, a state directory, and the ports that the registry names.
type lab struct {
	t                  *testing.T
	binary             string
	home, repo         string
	api, adapter, side int
	service            *httptest.Server
	generation         int
	read               []string // flags that say how the agent reads the repository; nil: from its directory
	host               string   // empty: a1
	refresh            int      // seconds that the registry declares; 0: one
}

func newLab(t *testing.T, service http.Handler) *lab {
	t.Helper()
	dir := t.TempDir()
	l := &lab{t: t, binary: sandboxtest.Binary(t), home: filepath.Join(dir, "state"), repo: filepath.Join(dir, "fleet")}
	l.service = httptest.NewServer(service)
	t.Cleanup(l.service.Close)
	ports := freeLoopbackPorts(t, 3)
	l.api, l.adapter, l.side = ports[0], ports[1], ports[2]
	l.command("init", l.repo, "--host", "a1")
	l.git("config", "user.name", "Ada")
	l.git("config", "user.email", "ada@example.net")
	l.land("first")
	return l
}

func freeLoopbackPorts(t *testing.T, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		var err error
		if ports[i], err = nextPort(); err != nil {
			t.Fatal(err)
		}
	}
	return ports
}

// land commits the next generation. Every part of the document carries its number, so that a mixture of two would show.
func (l *lab) land(subject string) {
	l.t.Helper()
	l.generation++
	g := l.generation
	l.file("generation.cue", "package fleet\n\nregistry: service_directory: generation: %d\n", g)
	l.file("hosts/a1.cue", `package fleet

registry: hosts: a1: {
	ssh: "stado@127.0.0.3"
	labels: mark: "g%d"
	service_resolver: {
		api_bind:          "127.0.0.1:%d"
		refresh_seconds:   %d
		max_stale_seconds: 3600
		adapters: [
			{service: "hello", consumer: "curl", bind: "127.0.0.1:%d"},
			{service: "hello", consumer: "side", bind: "127.0.0.1:%d"},
		]
	}
}
`, g, l.api, max(l.refresh, 1), l.adapter, l.side)
	l.file("services/hello.cue", `package fleet

registry: service_directory: services: hello: {
	active_hosts: ["a1"]
	endpoints: a1: url: "http://%s"
	consumers: {
		curl: capabilities: ["g%d"]
		side: {}
	}
}
`, l.service.Listener.Addr(), g)
	l.commit(subject)
}

func (l *lab) commit(subject string) {
	l.t.Helper()
	l.git("add", "--all")
	l.git("commit", "--quiet", "--message", subject)
}

func (l *lab) file(name, format string, args ...any) {
	l.t.Helper()
	path := filepath.Join(l.repo, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) git(args ...string) {
	l.t.Helper()
	if _, err := git(l.repo, args...); err != nil {
		l.t.Fatal(err)
	}
}

// command runs one command line of the built binary to its end.
func (l *lab) command(args ...string) string {
	l.t.Helper()
	cmd := exec.Command(l.binary, append([]string{"--home", l.home}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		l.t.Fatalf("stado %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

// running is one agent process.
type running struct {
	l    *lab
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
}

func (l *lab) start(env ...string) *running {
	l.t.Helper()
	log, err := os.CreateTemp(l.t.TempDir(), "agent.*.log")
	if err != nil {
		l.t.Fatal(err)
	}
	read := l.read
	if read == nil {
		read = []string{"--repository", "file://" + l.repo}
	}
	cmd := exec.Command(l.binary, append([]string{"--home", l.home, "agent", "run", "--host", cmp.Or(l.host, "a1"), "--refresh", "1s"}, read...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	r := &running{l: l, cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		_ = cmd.Wait()
	}()
	l.t.Cleanup(r.kill)
	return r
}

func (r *running) kill() {
	_ = r.cmd.Process.Kill()
	<-r.done
}

func (r *running) stop() {
	r.l.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.l.t.Fatal(err)
	}
	<-r.done
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		r.l.t.Fatalf("the agent ended with %d:\n%s", code, r.output())
	}
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *running) output() string {
	data, err := os.ReadFile(r.log.Name())
	if err != nil {
		r.l.t.Fatal(err)
	}
	return string(data)
}

// until asks again and again, under a deadline far above what it waits for.
func (l *lab) until(what string, ok func() bool) {
	l.t.Helper()
	l.within(eventuallyBound, what, ok)
}

// within asks again and again until a deadline.
func (l *lab) within(bound time.Duration, what string, ok func() bool) {
	l.t.Helper()
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			l.t.Fatalf("%s did not come to pass within %s; state: %+v", what, bound, l.state())
		case <-tick.C:
		}
	}
}

// state is the published document, zero while there is none.
func (l *lab) state() status.Resolver {
	var doc status.Resolver
	if data, err := os.ReadFile(filepath.Join(l.home, status.ResolverFile)); err == nil {
		if err := json.Unmarshal(data, &doc); err != nil {
			l.t.Fatalf("a published document was torn: %v", err)
		}
	}
	return doc
}

// serves reports whether the running agent serves a generation.
func (r *running) serves(generation int) bool {
	return r.holds(generation) && r.l.state().State == status.StateServing
}

// holds reports whether the running agent's listeners are those of a generation, whatever its authority says.
func (r *running) holds(generation int) bool {
	st := r.l.state()
	return st.PID == r.cmd.Process.Pid && int(st.Generation) == generation && st.Listening
}

func (l *lab) url(port int) string { return fmt.Sprintf("http://127.0.0.1:%d/", port) }
