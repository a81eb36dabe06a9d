package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"stado.internal/stado/reconcile/remote/remotetest"
)

// A crowd of agents that are started together read their registry from one sshd, which is configured as it is installed. None of their reads
// is refused, neither then nor in the rounds after it, and all of them serve what lands.
func TestCrowdOnOneSSHD(t *testing.T) {
	t.Parallel()
	agents, interval, rounds := 3, 2*time.Second, 1
	if os.Getenv("STADO_SOAK") != "" {
		agents, interval, rounds = 50, 20*time.Second, 3
	}
	l := newLab(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	d := remotetest.SSHD(t, remotetest.Config{MaxStartups: remotetest.InstalledStartups})
	dir := t.TempDir()
	crowd := make([]*lab, agents)
	for i, port := range freeLoopbackPorts(t, agents) {
		one := *l
		one.host, one.home = fmt.Sprintf("h%02d", i), filepath.Join(dir, strconv.Itoa(i))
		one.read = []string{"--repository", "ssh://" + d.User + "@127.0.0.1:" + strconv.Itoa(d.Port) + l.repo, "--identity", d.Identity, "--known-hosts", d.KnownHosts}
		l.file("hosts/"+one.host+".cue", "package fleet\n\nregistry: hosts: %s: service_resolver: {api_bind: \"127.0.0.1:%d\", refresh_seconds: %d, max_stale_seconds: 3600}\n",
			one.host, port, int(interval/time.Second))
		crowd[i] = &one
	}
	l.land("a crowd")
	running := make([]*running, agents)
	for i, one := range crowd {
		running[i] = one.start("SSH_AUTH_SOCK=")
	}
	all := func(what string, ok func(i int) bool) {
		t.Helper()
		for i, one := range crowd {
			one.until(what, func() bool { return ok(i) })
		}
	}
	all("serving what is there at the start", func(i int) bool { return running[i].serves(2) })
	for range rounds {
		began := time.Now()
		all("another read", func(i int) bool { at := crowd[i].state().LoadedAt; return at != nil && at.After(began) })
	}
	l.land("news")
	all("serving the news", func(i int) bool { return running[i].serves(3) })
	for i, r := range running {
		if said := r.output(); strings.Contains(said, "cannot read the registry") {
			t.Errorf("a read of agent %d of %d was refused:\n%s", i+1, agents, said)
		}
		r.stop()
	}
}
