package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stado.internal/stado/reconcile/sandbox/sandboxtest"
)

// forge is a bare repository behind git's own HTTP server, with clones that each belong to somebody.
type forge struct {
	t      *testing.T
	binary string
	dir    string
	url    string
	// beforePush, when set, is called before git says where the branch is to somebody who pushes, and again before it takes the pack.
	// The server already runs when a test sets it.
	beforePush atomic.Pointer[func(stage string)]
}

// onPush has do called at each stage of a push from now on.
func (f *forge) onPush(do func(stage string)) { f.beforePush.Store(&do) }

const (
	stageAdvertisement = "advertisement"
	stagePack          = "pack"
)

func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{t: t, binary: sandboxtest.Binary(t), dir: t.TempDir()}
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + f.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
		Stderr: io.Discard,
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := f.beforePush.Load()
		switch pushed := strings.HasSuffix(r.URL.Path, "/git-receive-pack"); {
		case before == nil:
		case pushed && r.Method == http.MethodPost:
			(*before)(stagePack)
		case r.URL.Query().Get("service") == "git-receive-pack":
			(*before)(stageAdvertisement)
		}
		backend.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	f.url = server.URL + "/fleet.git"

	seed := filepath.Join(f.dir, "seed")
	f.stado(f.dir, 0, "init", seed, "--host", "a1")
	f.write(seed, "policies.cue", "package fleet\n\nregistry: policies: generation_mode: \"stamped\"\n")
	f.identify(seed, "Ada")
	f.git(seed, "add", "--all")
	f.git(seed, "commit", "--quiet", "--amend", "--no-edit", "--reset-author")
	f.git(f.dir, "clone", "--quiet", "--bare", seed, "fleet.git")
	f.git(filepath.Join(f.dir, "fleet.git"), "config", "http.receivepack", "true")
	f.git(filepath.Join(f.dir, "fleet.git"), "config", "receive.autogc", "false")
	return f
}

// clone is somebody's work tree. Two people never make the same commit, even in one second.
func (f *forge) clone(who string) string {
	f.t.Helper()
	dir := filepath.Join(f.dir, who)
	f.git(f.dir, "clone", "--quiet", f.url, dir)
	f.identify(dir, who)
	return dir
}

func (f *forge) identify(dir, who string) {
	f.git(dir, "config", "user.name", who)
	f.git(dir, "config", "user.email", who+"@example.net")
	f.git(dir, "config", "commit.gpgsign", "false")
	f.git(dir, "config", "maintenance.auto", "false")
}

func (f *forge) git(dir string, args ...string) string {
	f.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Errorf("git %s in %s: %v\n%s", strings.Join(args, " "), dir, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (f *forge) write(dir, name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		f.t.Error(err)
	}
}

// land puts a change of the registry, which leaves the generation alone, on the branch without the server in between: it can be faster
// than a push that is under way.
func (f *forge) land(n int) {
	f.t.Helper()
	text := fmt.Sprintf("package fleet\n\nregistry: hosts: b%d: zone: \"z%d\"\n", n, n)
	subject := fmt.Sprintf("change %d", n)
	cmd := exec.Command("git", "-C", filepath.Join(f.dir, "fleet.git"), "fast-import", "--quiet", "--date-format=now")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("commit refs/heads/main\ncommitter Ada <Ada@example.net> now\ndata %d\n%s\nfrom refs/heads/main^0\nM 644 inline hosts/b%d.cue\ndata %d\n%s\n",
		len(subject), subject, n, len(text), text))
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Errorf("change %d does not land: %v\n%s", n, err, out)
	}
}

// stado runs the built program and wants an exit status.
func (f *forge) stado(dir string, want int, args ...string) (stdout, stderr string) {
	f.t.Helper()
	cmd := exec.Command(f.binary, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME="+f.dir)
	var out, story bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &story
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Error(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		f.t.Errorf("stado %s ends with %d, want %d\n%s%s", strings.Join(args, " "), got, want, &out, &story)
	}
	return out.String(), story.String()
}

func (f *forge) stamp(dir string) stampAnswer {
	f.t.Helper()
	out, _ := f.stado(dir, 0, "registry", "stamp", "--push", "--json")
	var answer stampAnswer
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		f.t.Errorf("%v: %s", err, out)
	}
	return answer
}

// on asks the bare repository.
func (f *forge) on(args ...string) string {
	f.t.Helper()
	return f.git(filepath.Join(f.dir, "fleet.git"), args...)
}

const generationLine = "registry: service_directory: generation: "

func (f *forge) number(commit string) string {
	f.t.Helper()
	_, number, ok := strings.Cut(f.on("show", commit+":generation.cue"), generationLine)
	if !ok {
		f.t.Errorf("commit %s gives no generation", commit)
	}
	return number
}

// Two jobs stamp at once, over and over: one of them wins, the number rises by one, and nothing that landed is lost.
func TestStampRace(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	jobs := []string{f.clone("one"), f.clone("two")}
	rounds := 20
	if os.Getenv("STADO_SOAK") != "" {
		rounds = 50
	}
	won := map[string]int{}
	for round := range rounds {
		f.land(round)
		landed := f.on("rev-parse", "main")
		answers := make([]stampAnswer, len(jobs))
		var both sync.WaitGroup
		for i, dir := range jobs {
			both.Go(func() { answers[i] = f.stamp(dir) })
		}
		both.Wait()
		tip, parent, _ := strings.Cut(f.on("rev-parse", "main", "main^"), "\n")
		winners := 0
		for i, a := range answers {
			if a.Stamped {
				winners++
				won[filepath.Base(jobs[i])]++
				if a.Commit != tip || int(a.Before) != round+1 || int(a.After) != round+2 {
					t.Errorf("round %d: the winner says %+v, the branch is at %s", round, a, tip)
				}
			} else if int(a.After) != round+2 {
				t.Errorf("round %d: the other one says %+v", round, a)
			}
		}
		if winners != 1 {
			t.Fatalf("round %d has %d winners: %+v", round, winners, answers)
		}
		if number := f.number("main"); parent != landed || number != fmt.Sprint(round+2) {
			t.Fatalf("round %d: generation %s stands on %s, not on the change %s", round, number, parent, landed)
		}
		if files := f.on("diff", "--name-only", "main^", "main"); files != "generation.cue" {
			t.Fatalf("round %d: the stamp changes %s", round, files)
		}
	}
	if got, want := f.on("rev-list", "--count", "main"), fmt.Sprint(1+2*rounds); got != want {
		t.Errorf("the branch has %s commits, want %s", got, want)
	}
	reader := f.clone("reader")
	f.stado(reader, 0, "vet")
	for n := range rounds {
		if _, err := os.Stat(filepath.Join(reader, "hosts", fmt.Sprintf("b%d.cue", n))); err != nil {
			t.Errorf("change %d is lost: %v", n, err)
		}
	}
	t.Logf("rounds won: %v", won)
}

// A branch that moves under a push, before or after git has said where it is, is looked at again. What moved it is covered by the same
// stamp, and stays.
func TestStampLosesAndRetries(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	job := f.clone("job")
	f.land(1)
	stages := []string{stageAdvertisement, stagePack, stageAdvertisement}
	var lost atomic.Int32
	f.onPush(func(stage string) {
		if n := int(lost.Load()); n < len(stages) && stage == stages[n] {
			f.land(100 + n)
			lost.Add(1)
		}
	})
	answer := f.stamp(job)
	if !answer.Stamped || answer.Attempts != len(stages)+1 || answer.After != 2 || f.number("main") != "2" {
		t.Errorf("got %+v, the branch has %s", answer, f.number("main"))
	}
	want := []string{"registry: generation 2", "change 102", "change 101", "change 100", "change 1"}
	if got := f.on("log", "--format=%s", fmt.Sprintf("-%d", len(want)), "main"); got != strings.Join(want, "\n") {
		t.Errorf("the branch is\n%s", got)
	}
	if again := f.stamp(job); again.Stamped || again.After != 2 {
		t.Errorf("stamping again: %+v", again)
	}
}

// Whoever loses every race says so with the status for it, and leaves the branch as others made it.
func TestStampLosesEveryRace(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	job := f.clone("job")
	f.land(1)
	var pushes atomic.Int32
	f.onPush(func(stage string) {
		if stage == stageAdvertisement {
			f.land(100 + int(pushes.Add(1)))
		}
	})
	_, story := f.stado(job, exitConflict, "registry", "stamp", "--push")
	if want := "cannot stamp branch main of origin: somebody else was faster every time, in 8 attempts"; !strings.Contains(story, want) {
		t.Errorf("it says %s", story)
	}
	if n := pushes.Load(); n != stampAttempts || f.number("main") != "1" || f.on("rev-list", "--count", "main") != fmt.Sprint(2+n) {
		t.Errorf("%d pushes, generation %s, %s commits", n, f.number("main"), f.on("rev-list", "--count", "main"))
	}
}

// A forge that says no, or nothing, is not a race.
func TestStampRefusedByTheForge(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	job := f.clone("job")
	f.land(1)
	hook := filepath.Join(f.dir, "fleet.git", "hooks", "pre-receive")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho 'the branch is protected' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, story := f.stado(job, exitRefused, "registry", "stamp", "--push")
	if !strings.Contains(story, "origin refuses the stamp of branch main: [remote rejected] (pre-receive hook declined)") || !strings.Contains(story, "the branch is protected") {
		t.Errorf("it says %s", story)
	}
	if _, story := f.stado(job, exitRefused, "registry", "stamp", "--push", "--branch", "trunk"); !strings.Contains(story, "origin has no branch trunk") {
		t.Errorf("it says %s", story)
	}
	if _, story := f.stado(job, exitTransient, "registry", "stamp", "--push", "--remote", "http://127.0.0.1:1/fleet.git"); !strings.Contains(story, "git fetch failed") {
		t.Errorf("it says %s", story)
	}
}
