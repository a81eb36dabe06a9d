package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"stado.internal/stado/reconcile/remote/remotetest"
	"stado.internal/stado/reconcile/sandbox/sandboxtest"
)

// sshConfig knows a server by the name `named` too, for destinations without a port.
func sshConfig(d *remotetest.Daemon) []byte {
	port := strconv.Itoa(d.Port)
	return []byte("Host named\n  HostName 127.0.0.1\n  HostKeyAlias [127.0.0.1]:" + port + "\n  Port " + port + "\n")
}

// testValue is the key of the running test among a script's values.
type testValue struct{}

// sshd starts a real OpenSSH server for the rest of the script and sets SSHUSER, SSHPORT, SSHKEY and SSHKNOWN. The file ssh-config then
// knows it by the name `named` too; with it nothing of whoever runs the test is read.
func scriptSSHD(ts *testscript.TestScript, _ bool, args []string) {
	t, ok := ts.Value(testValue{}).(testing.TB)
	if !ok || len(args) > 0 {
		ts.Fatalf("usage: sshd")
	}
	d := remotetest.SSHD(t, remotetest.Config{})
	for name, value := range map[string]string{"SSHUSER": d.User, "SSHPORT": strconv.Itoa(d.Port), "SSHKEY": d.Identity, "SSHKNOWN": d.KnownHosts} {
		ts.Setenv(name, value)
	}
	ts.Check(os.WriteFile(ts.MkAbs("ssh-config"), sshConfig(d), 0o600))
}

// endagent LOCKFILE says that the agent of a lock file ends with the script at the latest.
func scriptEndAgent(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: endagent lockfile")
	}
	lock := ts.MkAbs(args[0])
	ts.Defer(func() {
		text, err := os.ReadFile(lock)
		if err != nil {
			return // none was started
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		ts.Check(err)
		program, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
		if err == nil && strings.HasPrefix(program, ts.MkAbs(".")) { // else it has ended, and another process has its number
			ts.Check(syscall.Kill(pid, syscall.SIGKILL))
		}
	})
}

// Every verb of the host channel gives ssh the ssh:// URI for a destination that names a port, and user@host for one that does not. The
// ssh is the real one behind a note of its arguments, and leads to a real server.
func TestHostVerbs(t *testing.T) {
	t.Parallel()
	d := remotetest.SSHD(t, remotetest.Config{})
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	real, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatalf("%v (install openssh-client)", err)
	}
	file("bin/ssh", "#!/bin/sh\nfor word; do echo \"$word\" >>\"$SSH_NOTES\"; done\nexec "+real+" \"$@\"\n", 0o755)
	file("ssh-config", string(sshConfig(d)), 0o600)
	binary, fleet := sandboxtest.Binary(t), filepath.Join(dir, "fleet")
	stado := func(notes string, args ...string) string {
		t.Helper()
		x := exec.Command(binary, args...)
		x.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "SSH_NOTES="+notes, "STADO_HOME="+filepath.Join(dir, "state"))
		var stderr bytes.Buffer
		x.Stderr = &stderr
		out, err := x.Output()
		if err != nil {
			t.Fatalf("stado %q: %v\n%s", args, err, stderr.String())
		}
		return string(out)
	}
	stado(os.DevNull, "init", fleet, "--host", "a1")
	file("fleet/hosts/port.cue", "package fleet\n\nregistry: hosts: port: ssh: \""+string(d.Destination)+"\"\n", 0o644)
	file("fleet/hosts/plain.cue", "package fleet\n\nregistry: hosts: plain: ssh: \""+d.User+"@named\"\n", 0o644)
	flags := []string{"--registry", fleet, "--ssh-key", d.Identity, "--ssh-known-hosts", d.KnownHosts, "--ssh-config", filepath.Join(dir, "ssh-config")}
	verbs := map[string][]string{
		"exec":      {"--", "true"},
		"account":   {"--dry-run", "--key", filepath.Join(dir, "key.pub")},
		"bootstrap": {"--dry-run", "--init", "none", "--root", filepath.Join(dir, "root"), "--repository", "https://git.example.net/fleet.git"},
		"recover":   {"--dry-run", "--root", filepath.Join(dir, "box")},
	}
	if os.Geteuid() == 0 { // else it is refused
		verbs["reboot"] = []string{"--dry-run"}
	}
	remotetest.WritePublic(t, filepath.Join(dir, "key.pub"), d.Key.PublicKey())
	file("box/usr/local/bin/stado", "", 0o644)
	file("box/var/lib/stado/agent.cue", "", 0o644)
	for host, want := range map[string]string{
		"port":  "ssh://" + d.User + "@127.0.0.1:" + strconv.Itoa(d.Port),
		"plain": d.User + "@named",
	} {
		for verb, more := range verbs {
			t.Run(verb+" "+host, func(t *testing.T) {
				t.Parallel()
				notes := filepath.Join(t.TempDir(), "notes")
				out := stado(notes, append(append([]string{"host", verb, host}, flags...), more...)...)
				if verb == "reboot" && !regexp.MustCompile(`^found      .+\nreboot     `+host+` \((systemctl )?reboot\)\n$`).MatchString(out) {
					t.Errorf("what would be done is told as %q", out)
				}
				got, err := os.ReadFile(notes)
				if err != nil || strings.Count(string(got), "\n--\n"+want+"\n") != 1 {
					t.Errorf("%v; ssh was not given %s:\n%s", err, want, got)
				}
			})
		}
	}
}

// A path that leads through an adapter of this host which holds a connection unanswered is not taken: a session would stand behind it.
func TestHostHeld(t *testing.T) {
	t.Parallel()
	l := newLab(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	l.file("hosts/b1.cue", "package fleet\n\nregistry: hosts: b1: ssh: \"ops@[127.0.0.1]:%d\"\n", l.adapter)
	l.land("a host behind the adapter")
	r := l.start()
	l.until("serving", func() bool { return r.serves(2) })
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(l.adapter))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: hello\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	want := "host b1: no registry SSH connection path answered (primary: the adapter at 127.0.0.1:" + strconv.Itoa(l.adapter) +
		" holds connections unanswered longer than the 1s refresh interval"
	l.until("the refusal", func() bool {
		x := exec.Command(l.binary, "--home", l.home, "host", "exec", "b1", "--ssh-config", os.DevNull, "--ssh-known-hosts", os.DevNull, "--", "true")
		out, err := x.CombinedOutput()
		return err != nil && x.ProcessState.ExitCode() == exitTransient && strings.Contains(string(out), want)
	})
	r.kill()
}
