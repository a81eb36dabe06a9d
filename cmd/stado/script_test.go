package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"stado.internal/stado/reconcile/sandbox/sandboxtest"
	"stado.internal/stado/schema/schematest"
)

// eventuallyBound is far above anything that the scripts wait for: they assert an order of events, not speeds.
const eventuallyBound = 60 * time.Second

// TestMain runs one test more at the same time than there are processors: tests wait for clocks of agents and for other programs. With more
// of them each takes longer, and its agents meanwhile ask each other more often: six tests of moves took 230 s of CPU four at a time, and
// 166 s two at a time.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(runtime.GOMAXPROCS(0)+1)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestScripts runs every session in testdata/script with the built binary, a real git and a real cue.
func TestScripts(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	if err := errors.Join(os.Symlink(sandboxtest.Binary(t), filepath.Join(bin, "stado")), os.Symlink(cueBinary(t), filepath.Join(bin, "cue"))); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Values[testValue{}] = e.T()
			root, err := filepath.Abs(filepath.Join("..", ".."))
			if err != nil {
				return err
			}
			path := strings.Join([]string{bin, os.Getenv("PATH")}, string(os.PathListSeparator))
			e.Vars = append(e.Vars,
				"PATH="+path, "HOME="+e.WorkDir, "STADO_HOME="+filepath.Join(e.WorkDir, "state"), "ROOT="+root,
				"CUE_CACHE_DIR="+filepath.Join(e.WorkDir, ".cue"), "CUE_REGISTRY=none",
				"GIT_CONFIG_GLOBAL="+filepath.Join(e.WorkDir, ".gitconfig"), "GIT_CONFIG_NOSYSTEM=1",
			)
			return os.WriteFile(filepath.Join(e.WorkDir, ".gitconfig"),
				[]byte("[user]\n\tname = Ada\n\temail = ada@example.net\n[init]\n\tdefaultBranch = main\n[commit]\n\tgpgsign = false\n[maintenance]\n\tauto = false\n"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"eventually": scriptEventually,
			"get":        scriptGet,
			"ports":      scriptPorts,
			"envfrom":    scriptEnvFrom,
			"fill":       scriptFill,
			"fleet":      scriptFleet,
			"replace":    scriptReplace,
			"serve":      scriptServe,
			"sshd":       scriptSSHD,
			"endagent":   scriptEndAgent,
		},
	})
}

// cueBinary is the plain cue command that the tools file pins: what a person would have installed.
func cueBinary(t testing.TB) string {
	t.Helper()
	return tool(t, "cuelang.org/go/cmd/cue")
}

// eventually COMMAND... runs a command again and again until it exits 0; ! eventually until it fails. Its last output becomes a file
// named eventually.out.
func scriptEventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: [!] eventually command [args...]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventuallyBound)
	defer cancel()
	pause := 100 * time.Millisecond
	for {
		var out bytes.Buffer
		ok := tryCommand(ctx, ts, args, &out)
		if ok != neg {
			ts.Check(os.WriteFile(ts.MkAbs("eventually.out"), out.Bytes(), 0o600))
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("%q did not come to pass within %s; its last output:\n%s", strings.Join(args, " "), eventuallyBound, out.String())
		case <-time.After(pause):
			pause = min(2*pause, 500*time.Millisecond) // starting a program takes the time that others wait for
		}
	}
}

func tryCommand(ctx context.Context, ts *testscript.TestScript, args []string, out *bytes.Buffer) bool {
	if args[0] == "get" {
		body, err := fetch(args[1])
		if err != nil {
			fmt.Fprintln(out, err)
			return false
		}
		out.WriteString(body)
		return true
	}
	if args[0] == "grep" {
		data, err := os.ReadFile(ts.MkAbs(args[2]))
		out.Write(data)
		return err == nil && regexp.MustCompile("(?m)"+args[1]).Match(data)
	}
	name, err := lookPath(ts, args[0])
	ts.Check(err)
	cmd := exec.CommandContext(ctx, name, args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), out, out
	cmd.Env = scriptEnv(ts)
	return cmd.Run() == nil
}

func lookPath(ts *testscript.TestScript, name string) (string, error) {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, name); isExecutable(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s is not on the script's PATH", name)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, k := range []string{"PATH", "HOME", "STADO_HOME", "CUE_CACHE_DIR", "CUE_REGISTRY", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"} {
		env = append(env, k+"="+ts.Getenv(k))
	}
	return env
}

// get URL asks once; any answer of status 200 passes. Its body becomes a file named get.out. ! get wants anything else.
func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] get url")
	}
	body, err := fetch(args[0])
	ts.Check(os.WriteFile(ts.MkAbs("get.out"), []byte(body), 0o600))
	if (err != nil) != neg {
		ts.Fatalf("get %s: %v\n%s", args[0], err, body)
	}
}

func fetch(url string) (string, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

// ports VAR... sets each variable to a loopback port that is free and that no other test of this run is given.
func scriptPorts(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		port, err := nextPort()
		ts.Check(err)
		ts.Setenv(name, strconv.Itoa(port))
	}
}

// lastPort is the newest port given out. The ports lie below those that the system gives to outgoing connections, so that nothing takes
// one between this look at it and its use.
var lastPort atomic.Int64

func nextPort() (int, error) {
	first := int64(11000 + os.Getpid()%200*100)
	lastPort.CompareAndSwap(0, first)
	for range 1000 {
		port := int(lastPort.Add(1))
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no loopback port is free")
}

// envfrom VAR REGEXP FILE sets a variable to the first group of a match.
func scriptEnvFrom(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: envfrom var regexp file")
	}
	m := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile(args[2]))
	if len(m) < 2 {
		ts.Fatalf("%s has nothing like %s:\n%s", args[2], args[1], ts.ReadFile(args[2]))
	}
	ts.Setenv(args[0], m[1])
}

// fill FILE... expands $VARIABLES of the script in files.
func scriptFill(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// fleet N DIR writes a generated registry of N hosts.
func scriptFleet(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: fleet n dir")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(writeFleet(ts.MkAbs(args[1]), n))
}

func writeFleet(dir string, n int) (err error) {
	schematest.Fleet(n, func(path, text string) {
		file := filepath.Join(dir, path)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644))
	})
	return err
}

// replace OLD NEW FILE changes every OLD and fails when there is none.
func scriptReplace(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: replace old new file")
	}
	text := ts.ReadFile(args[2])
	if !strings.Contains(text, args[0]) {
		ts.Fatalf("%s does not hold %q:\n%s", args[2], args[0], text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.ReplaceAll(text, args[0], args[1])), 0o600))
}

// serve PORT [TEXT] answers every request on a loopback port with a text until the script ends.
func scriptServe(ts *testscript.TestScript, _ bool, args []string) {
	text := "served\n"
	if len(args) > 1 {
		text = args[1] + "\n"
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	ts.Check(err)
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, text)
	})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	ts.Defer(func() {
		ts.Check(srv.Close())
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			ts.Check(err)
		}
	})
}
