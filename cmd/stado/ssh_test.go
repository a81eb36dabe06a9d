package main

import (
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"stado.internal/stado/reconcile/remote/remotetest"
)

// An agent reads its registry from a real sshd; when that is stopped in its tracks, a new agent says which read it waits on, serves what its
// store has after one refresh interval, names the phase that is silent, and takes the news when the sshd goes on.
func TestAgentOverSSH(t *testing.T) {
	t.Parallel()
	l := newLab(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	d := remotetest.SSHD(t, remotetest.Config{})
	l.read = []string{
		"--repository", "ssh://" + d.User + "@127.0.0.1:" + strconv.Itoa(d.Port) + l.repo, "--identity", d.Identity, "--known-hosts", d.KnownHosts,
	}
	r := l.start("SSH_AUTH_SOCK=")
	l.until("serving the first generation", func() bool { return r.serves(1) })
	l.refresh = 10 // time enough to ask what is waited on
	l.land("second")
	l.until("serving the second generation", func() bool { return r.serves(2) })
	r.stop()

	d.Freeze()
	l.land("third")
	r = l.start("SSH_AUTH_SOCK=")
	const read = "reading its first registry snapshot from the authority 127.0.0.1 before binding any port"
	l.until("a document of the new agent", func() bool { return l.state().PID == r.cmd.Process.Pid })
	if said := l.refuse(exitRefused, "resolver", "status"); !strings.Contains(said, " state=starting verdict=down ") || !strings.Contains(said, read) {
		t.Errorf("the status while the first read stands: %s", said)
	}
	if said := l.refuse(exitRefused, "service", "directory", "connect", "hello", "--consumer", "curl"); said != "stado: the resolver of this host holds no listener: "+read+"\n" {
		t.Errorf("connect while the first read stands: %s", said)
	}
	l.until("serving from the store", func() bool { return r.holds(2) })
	const recovery = "stado resolver recovery: the registry authority's first snapshot did not answer ("
	if out := r.output(); !strings.Contains(out, recovery) || !strings.Contains(out, "serving generation 2 from the registry store immediately while authority retries continue") {
		t.Errorf("the agent said\n%s", out)
	}
	if got, err := exec.Command("curl", "--silent", l.url(l.adapter)).Output(); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	l.until("a sentence about the silent phase", func() bool {
		return strings.Contains(r.output(), "handshake: the server took the connection and sent no SSH greeting within 10s (asked again at the next refresh)")
	})
	d.Thaw()
	l.until("serving the third generation", func() bool { return r.serves(3) })
	r.stop()
}
