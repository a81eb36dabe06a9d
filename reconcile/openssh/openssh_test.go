package openssh_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/openssh"
	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
)

func TestArgs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		c    openssh.Channel
		to   fleet.Destination
		want []string // a part of the command line
		says string
	}{
		{name: "no port", to: "ops@a1.example.net", want: []string{"--", "ops@a1.example.net", "-v"}},
		{name: "port", to: "ops@[a1.example.net]:2222", want: []string{"--", "ssh://ops@a1.example.net:2222", "-v"}},
		{name: "ipv6 with port", to: "ops@[2001:db8::7]:2222", want: []string{"--", "ssh://ops@[2001:db8::7]:2222", "-v"}},
		{name: "no port at all", to: "ops@[a1]:x", says: `SSH destination ops@[a1]:x names port "x", which is not a port`},
		{name: "learns", to: "a1", want: []string{"-o", "StrictHostKeyChecking=accept-new"}},
		{
			name: "never learns", to: "a1", c: openssh.Channel{KnownHosts: "/srv/the keys%1"},
			want: []string{"-o", "StrictHostKeyChecking=yes", "-o", "UpdateHostKeys=no", "-o", `UserKnownHostsFile="/srv/the keys%%1"`, "-o", "GlobalKnownHostsFile=/dev/null"},
		},
		{name: "strict", to: "a1", c: openssh.Channel{Strict: true}, want: []string{"-o", "StrictHostKeyChecking=yes", "-o", "UpdateHostKeys=no"}},
		{name: "one key", to: "a1", c: openssh.Channel{Identity: "/srv/id"}, want: []string{"-o", `IdentityFile="/srv/id"`, "-o", "IdentitiesOnly=yes"}},
		{name: "a file that ssh would expand", to: "a1", c: openssh.Channel{Identity: "/srv/${HOME}"}, says: `the file name "/srv/${HOME}" cannot be given to ssh`},
		{name: "configuration", to: "a1", c: openssh.Channel{Config: "/srv/conf"}, want: []string{"-F", "/srv/conf"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.c.Args(remote.Path{Name: "primary", Destination: tc.to}, "-v")
			switch {
			case tc.says != "":
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error is %v, want %q", err, tc.says)
				}
			case err != nil || !contains(got, tc.want):
				t.Errorf("got %q, %v, want %q in it", got, err, tc.want)
			default:
				if git, err := tc.c.Git(); err != nil || !slices.Equal(append(git, got[len(got)-3:]...), got) {
					t.Errorf("for git it is %q, %v, without the last three words of %q", git, err, got)
				}
			}
		})
	}
}

func contains(all, part []string) bool {
	for i := range all {
		if len(all)-i >= len(part) && slices.Equal(all[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// channel leads to a real sshd, and reads nothing of whoever runs the test.
func channel(t *testing.T, d *remotetest.Daemon) openssh.Channel {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config")
	// A name without a port, as an operator's own configuration knows it.
	text := "Host named\n  HostName " + d.Name + "\n  HostKeyAlias [" + d.Name + "]:" + strconv.Itoa(d.Port) + "\n  Port " + strconv.Itoa(d.Port) + "\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return openssh.Channel{
		Host: "a1", Paths: []remote.Path{{Name: "primary", Destination: d.Destination}},
		Identity: d.Identity, KnownHosts: d.KnownHosts, Config: config,
	}
}

// nowhere is a destination where nobody listens.
const nowhere = "ops@[127.0.0.1]:1"

func TestRun(t *testing.T) {
	t.Parallel()
	d := remotetest.SSHD(t, remotetest.Config{})
	through := func(names ...string) []remote.Path {
		var out []remote.Path
		for _, n := range names {
			to := map[string]fleet.Destination{"nowhere": nowhere, "port": d.Destination, "no-port": fleet.Destination(d.User + "@named"), "bad": "a@[b]:0"}[n]
			out = append(out, remote.Path{Name: n, Destination: to})
		}
		return out
	}
	for _, tc := range []struct {
		name, line     string
		paths          []remote.Path
		stdin          string
		status         int
		path           string
		stdout, stderr string
		signaled       bool
		says           []string
		lost           bool
	}{
		{name: "streams", line: "cat; echo err >&2", paths: through("port"), stdin: "in", path: "port", stdout: "in", stderr: "err\n"},
		{name: "no port", line: "echo out", paths: through("no-port"), path: "no-port", stdout: "out\n"},
		{name: "status", line: "exit 7", paths: through("port", "no-port"), status: 7, path: "port"},
		{name: "status of the command like that of ssh", line: "echo once; exit 255", paths: through("port", "no-port"), status: 255, path: "port", stdout: "once\n"},
		{name: "signal", line: "kill -9 $$", paths: through("port", "no-port"), status: 255, path: "port", signaled: true},
		{name: "next path", line: "cat", paths: through("nowhere", "no-port"), stdin: "all of it", path: "no-port", stdout: "all of it"},
		{
			name: "no path", line: "echo never", paths: through("nowhere", "bad"),
			says: []string{
				"host a1: no registry SSH connection path answered (nowhere: ssh: connect to host 127.0.0.1 port 1: Connection refused; ",
				`bad: SSH destination a@[b]:0 names port "0", which is not a port); nothing was run`,
			},
		},
		{name: "no declared path", line: "echo never", says: []string{"host a1 has no SSH path (declare hosts.a1.ssh)"}},
		{
			name: "lost", line: "kill -9 $PPID", paths: through("port", "no-port"), lost: true,
			says: []string{"host a1: the connection along the path port ended before the command did", "whether it has done its work is not known"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := channel(t, d)
			c.Paths = tc.paths
			var stdout, stderr bytes.Buffer
			exit, err := c.Run(t.Context(), openssh.Command{
				Line: tc.line, Stdin: func() io.Reader { return strings.NewReader(tc.stdin) }, Stdout: &stdout, Stderr: &stderr,
			})
			if len(tc.says) > 0 {
				var lost *openssh.Lost
				var unreachable *openssh.Unreachable
				for _, s := range tc.says {
					if err == nil || !strings.Contains(err.Error(), s) {
						t.Errorf("error is %v, want %q", err, s)
					}
				}
				if errors.As(err, &lost) != tc.lost || errors.As(err, &unreachable) == tc.lost {
					t.Errorf("error is a %T", err)
				}
			} else if err != nil || exit.Status != tc.status || exit.Path != tc.path || exit.Signaled != tc.signaled || len(exit.Notes) > 0 {
				t.Errorf("got %+v, %v", exit, err)
			}
			if stdout.String() != tc.stdout || !tc.lost && stderr.String() != tc.stderr {
				t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
			}
		})
	}
}

// The host's key is judged before anything runs, and a file that was named is never written.
func TestHostKey(t *testing.T) {
	t.Parallel()
	d := remotetest.SSHD(t, remotetest.Config{})
	other := remotetest.NewKey(t, "ed25519")
	for _, tc := range []struct{ name, known, says string }{
		{"unknown", "", "Host key verification failed."},
		{"another", d.Line(other.PublicKey()) + "\n", "/known:1; Host key verification failed."},
		{"known", d.Line(d.HostKeys[0].PublicKey()) + "\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := channel(t, d)
			c.KnownHosts = filepath.Join(t.TempDir(), "known")
			if err := os.WriteFile(c.KnownHosts, []byte(tc.known), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := c.Run(t.Context(), openssh.Command{Line: "true"})
			if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("error is %v, want %q", err, tc.says)
			}
			if got, err := os.ReadFile(c.KnownHosts); err != nil || string(got) != tc.known {
				t.Errorf("the file has become %q, %v", got, err)
			}
		})
	}
}

// A host that takes connections and is silent is given up, and the next path is looked at.
func TestSilent(t *testing.T) {
	t.Parallel()
	d := remotetest.SSHD(t, remotetest.Config{})
	d.Freeze()
	c := channel(t, d)
	c.Paths = append(c.Paths, remote.Path{Name: "other", Destination: d.Destination})
	c.Deadline = time.Second
	c.Avoid = func(p remote.Path) string { return map[string]string{"other": "not now"}[p.Name] }
	_, err := c.Run(t.Context(), openssh.Command{Line: "true"})
	if err == nil || !strings.Contains(err.Error(), "(primary: the host did not let us in within 1s; other: not now)") {
		t.Errorf("error is %v", err)
	}
}

func TestAvoid(t *testing.T) {
	t.Parallel()
	d := remotetest.SSHD(t, remotetest.Config{})
	c := channel(t, d)
	c.Avoid = func(p remote.Path) string { return "not " + p.Name }
	if _, err := c.Run(t.Context(), openssh.Command{Line: "true"}); err == nil || !strings.Contains(err.Error(), "(primary: not primary)") {
		t.Errorf("error is %v", err)
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	exit, err := openssh.Channel{Host: "a1", Local: true}.Run(t.Context(), openssh.Command{Line: "pwd; exit 3", Stdout: &out})
	home, homeErr := os.UserHomeDir()
	if err != nil || homeErr != nil || exit.Status != 3 || exit.Path != "local" || out.String() != home+"\n" {
		t.Errorf("got %+v, %v, %q", exit, err, out.String())
	}
	exit, err = openssh.Channel{Local: true}.Run(t.Context(), openssh.Command{Line: "kill -9 $$"})
	if err != nil || exit.Status != 255 || !exit.Signaled {
		t.Errorf("got %+v, %v", exit, err)
	}
}
