package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"stado.internal/stado/reconcile/remote/remotetest"
)

// refuse runs one command line of the built binary that must fail with a code, and gives what it said.
func (l *lab) refuse(code int, args ...string) string {
	l.t.Helper()
	out, err := exec.Command(l.binary, append([]string{"--home", l.home}, args...)...).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != code {
		l.t.Errorf("stado %s: %v, want exit status %d\n%s", strings.Join(args, " "), err, code, out)
	}
	return string(out)
}

// authority commits who the authority is, and nothing else.
func (l *lab) authority(host, repository string, epoch int) {
	l.generation++
	l.file("generation.cue", "package fleet\n\nregistry: service_directory: generation: %d\n", l.generation)
	l.file("authority.cue", `package fleet

registry: service_directory: authority: {host: %q, repository: %q, command: "/usr/bin/stado", epoch: %d}
`, host, repository, epoch)
	l.commit("authority " + host)
}

// A registry is handed to a host whose authority, a real sshd, is stopped in its tracks: refused while it answers, taken by the running
// agent on a refresh, and from then on the authority that it names is asked.
func TestHandOver(t *testing.T) {
	t.Parallel()
	l := newLab(t, http.NotFoundHandler())
	d := remotetest.SSHD(t, remotetest.Config{})
	ssh := []string{"--identity", d.Identity, "--known-hosts", d.KnownHosts, "--host", "a1"}
	l.read = append([]string{"--repository", "ssh://" + d.User + "@127.0.0.1:" + strconv.Itoa(d.Port) + l.repo}, ssh[:4]...)
	l.file("hosts/a2.cue", "package fleet\n\nregistry: hosts: a2: ssh: %q\n", d.User+"@[127.0.0.1]:"+strconv.Itoa(d.Port))
	l.land("a second host") // generation 2
	l.authority("a2", l.repo, 1)
	push := func(args ...string) []string {
		return append(append([]string{"registry", "push"}, append(args, "--last-known-good")...), ssh...)
	}
	document := filepath.Join(t.TempDir(), "document.json")
	export := func() {
		t.Helper()
		if err := os.WriteFile(document, []byte(l.command("registry", "pull", "--repository", l.repo)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	export()
	if said := l.refuse(exitRefused, push(document)...); !strings.Contains(said, "this host, a1, keeps no last-known-good copy of the registry") {
		t.Errorf("without a copy: %s", said)
	}
	r := l.start("SSH_AUTH_SOCK=")
	l.until("serving the third generation", func() bool { return r.serves(3) })
	l.until("reading a2 over ssh", func() bool { a := l.state().Authority; return a.Host == "a2" && a.Source == "ssh" })
	for _, flag := range []string{"--force", "--allow-empty-fleet", "--if-generation=x", "--dry-run", "--sign", "--remote=origin", "--repository=."} {
		name, _, _ := strings.Cut(flag, "=")
		if said := l.refuse(exitUsage, push(document, flag)...); !strings.Contains(said, "--last-known-good cannot be combined with "+name+"\n") {
			t.Errorf("%s: %s", flag, said)
		}
	}
	answers := "the registry authority answers; a registry it would serve is pushed through it, without --last-known-good"
	if said := l.refuse(exitRefused, push(document, "--json")...); !strings.Contains(said, answers) {
		t.Errorf("an authority that answers: %s", said)
	}

	d.Freeze()
	own := filepath.Join(t.TempDir(), "authority.git")
	if said := l.refuse(exitRefused, push(document)...); !strings.Contains(said, "service directory generation 3 is not above the 3 this host's last-known-good copy holds; a copy is never rolled back") {
		t.Errorf("not above: %s", said)
	}
	l.land("for the air gap") // generation 4, as a document: the commit of the next one carries on from it
	export()
	if said := l.command(push(document)...); !strings.Contains(said, "handed "+document+" to this host's last-known-good copy at service directory generation 4; the authority did not answer: ") {
		t.Errorf("a document: %s", said)
	}
	l.until("serving the document", func() bool { return r.holds(4) })
	if version := l.state().StoreVersion; version != "handed-over" {
		t.Errorf("it is served as version %s; the agent said\n%s", version, r.output())
	}
	bare := l.command("registry", "show", "--json")
	if !strings.Contains(bare, "for the air gap") && !strings.Contains(bare, `"g4"`) {
		t.Errorf("the document says %s", bare)
	}

	l.authority("a1", own, 2) // generation 5
	bundle := filepath.Join(t.TempDir(), "moved.bundle")
	l.command("registry", "bundle", "create", bundle, "--repository", l.repo)
	l.command("authority", "init", own, "--from", l.repo)
	receipt := l.command(push(bundle, "--json")...)
	for _, part := range []string{`"state": "handed-over"`, `"directory_generation": 5`, `"authority_unanswered": "`, "handshake: the server took the connection and sent no SSH greeting"} {
		if !strings.Contains(receipt, part) {
			t.Errorf("the receipt lacks %s:\n%s", part, receipt)
		}
	}
	l.until("serving what was handed over", func() bool { return r.holds(5) })
	if out := r.output(); !strings.Contains(out, "stado resolver: the registry authority did not answer (") || !strings.Contains(out, "); adopting the newer registry this host was handed, directory generation 5") {
		t.Errorf("the agent said\n%s", out)
	}
	l.until("asking the authority that it names", func() bool { return r.serves(5) })
	l.until("reading its own repository", func() bool { a := l.state().Authority; return a.Host == "a1" && a.Source == "local" })
	if said := l.refuse(exitRefused, push(document)...); !strings.Contains(said, "this host, a1, is the registry authority") {
		t.Errorf("on the authority: %s", said)
	}
	l.land("sixth")
	l.git("push", "--quiet", own, "HEAD:main")
	l.until("serving its own branch", func() bool { return r.serves(6) })
	r.stop()
	if log := l.command("registry", "log"); strings.Count(log, "handed-over") != 2 {
		t.Errorf("the log says\n%s", log)
	}
}
