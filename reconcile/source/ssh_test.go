package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"golang.org/x/crypto/ssh"

	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
	"stado.internal/stado/reconcile/sandbox"
)

// meter counts the connections to a server, and what goes over them in either direction.
type meter struct {
	dials, bytes atomic.Int64
}

func (m *meter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	m.dials.Add(1)
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	return meteredConn{c, m}, err
}

type meteredConn struct {
	net.Conn
	m *meter
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.m.bytes.Add(int64(n))
	return n, err
}

func (c meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.m.bytes.Add(int64(n))
	return n, err
}

// sshPoller reads a repository through a server.
func sshPoller(t *testing.T, h *remotetest.Host, path string, d Deadlines) (*Git, *meter) {
	t.Helper()
	address := (&url.URL{Scheme: "ssh", User: url.User(h.User), Host: net.JoinHostPort(h.Name, strconv.Itoa(h.Port)), Path: path}).String()
	r, err := ParseRemote(address, "")
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{}
	g := New(Options{
		Store: filepath.Join(t.TempDir(), "registry.git"), Remote: r, Runner: runner(t), Keep: time.Hour, Deadlines: d,
		SSH: remote.Options{KnownHosts: []string{h.KnownHosts}, Identity: remote.Identity{File: h.Identity}, Dial: m.dial},
	})
	t.Cleanup(g.Close)
	return g, m
}

// long deadlines are met by a busy machine.
func long() Deadlines {
	return Deadlines{
		Connect: time.Minute, Handshake: time.Minute, Authentication: time.Minute, Exec: time.Minute, Advertisement: time.Minute, Pack: time.Minute,
	}
}

// maxIdlePoll is what a poll that brings nothing may cost on the wire, in both directions.
const maxIdlePoll = 1 << 10

func TestPollOverSSH(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.commit("1", registry(1))
	g, m := sshPoller(t, remotetest.SSHD(t, remotetest.Config{}).Host, r.dir, long())
	if o := poll(t, g, ""); o.Tip != first || len(o.Steps) != 1 || o.Steps[0].Findings.Refuses() {
		t.Fatalf("%+v", o)
	}
	second := r.commit("2", generation(2))
	third := r.commit("3", generation(3))
	if o := poll(t, g, first); strings.Join(commits(o), " ") != second+" "+third {
		t.Fatalf("%+v", o)
	}
	if o := poll(t, g, third); o.Tip != third || len(o.Steps) != 0 {
		t.Fatalf("%+v", o)
	}
	before := m.bytes.Load()
	if o := poll(t, g, third); !o.Unchanged {
		t.Errorf("%+v", o)
	}
	cost := m.bytes.Load() - before
	t.Logf("a poll without news costs %d bytes on the wire", cost)
	if cost > maxIdlePoll {
		t.Errorf("a poll without news costs %d bytes on the wire, want at most %d", cost, maxIdlePoll)
	}
	if n := m.dials.Load(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

// A path is one word of the host's shell, whatever is in it.
func TestPathsOverSSH(t *testing.T) {
	t.Parallel()
	h := remotetest.SSHD(t, remotetest.Config{}).Host
	for _, name := range []string{"a b", "it's", "wow!", `back\slash`, "$(touch x)", "`id`", "-x", "ümlaut", "per%cent"} {
		r := newRepo(t)
		tip := r.commit("1", registry(1))
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Rename(r.dir, dir); err != nil {
			t.Fatal(err)
		}
		g, _ := sshPoller(t, h, dir, long())
		if o, err := g.list(t.Context()); err != nil || o != tip {
			t.Errorf("%s: got %s, %v", name, o, err)
		}
	}
	if got := uploadPack("/~ops/r.git"); got != "git-upload-pack '~ops/r.git'" {
		t.Errorf("got %s", got)
	}
}

func TestRefusalsOverSSH(t *testing.T) {
	t.Parallel()
	h := remotetest.SSHD(t, remotetest.Config{}).Host
	r := newRepo(t)
	for _, tc := range []struct {
		name, path string
		prepare    func(t *testing.T, g *Git)
		phase      string
		kind       Kind
		says       []string
	}{
		{name: "no repository", path: "/nowhere/r.git", phase: PhaseAdvertisement, kind: KindNotFound, says: []string{
			"there is no such repository, or it is hidden from this identity: '/nowhere/r.git' does not appear to be a git repository (check the address)",
		}},
		{name: "empty", path: r.dir, phase: PhaseAdvertisement, kind: KindEmpty, says: []string{"commit a registry there and push it"}},
		{name: "no key", path: r.dir, phase: PhaseAuthentication, kind: KindIdentity, says: []string{"there is no identity (name a key file"}, prepare: func(_ *testing.T, g *Git) {
			g.opts.SSH.Identity = remote.Identity{}
		}},
		{name: "a refused key", path: r.dir, phase: PhaseAuthentication, kind: KindIdentity, says: []string{"was refused for " + h.User + "; no unrelated identity was offered"}, prepare: func(t *testing.T, g *Git) {
			g.opts.SSH.Identity.File = filepath.Join(t.TempDir(), "wrong")
			remotetest.NewKey(t, "ed25519").Write(t, g.opts.SSH.Identity.File, "")
		}},
		{name: "an unknown host", path: r.dir, phase: PhaseHandshake, kind: KindHostKey, says: []string{"the host key of [127.0.0.1]:" + strconv.Itoa(h.Port) + " is not known: "}, prepare: func(t *testing.T, g *Git) {
			g.opts.SSH.KnownHosts = []string{filepath.Join(t.TempDir(), "known_hosts")}
			put(t, g.opts.SSH.KnownHosts[0], "")
		}},
		{name: "nobody listens", path: r.dir, phase: PhaseConnect, kind: KindUnreachable, says: []string{"refused for the test (asked again at the next refresh)"}, prepare: func(_ *testing.T, g *Git) {
			g.opts.SSH.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("refused for the test")
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g, _ := sshPoller(t, h, tc.path, long())
			if tc.prepare != nil {
				tc.prepare(t, g)
				g.ssh = newSSHHost(g.opts, g.log)
			}
			_, err := g.Poll(t.Context(), Anchor{})
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Phase != tc.phase || e.Kind != tc.kind || !strings.HasPrefix(e.Error(), "cannot read the registry from "+g.opts.Remote.URL+": "+tc.phase+": ") {
				t.Fatalf("got %+v, want %s in %s", err, tc.kind, tc.phase)
			}
			for _, words := range tc.says {
				if !strings.Contains(e.Error(), words) {
					t.Errorf("the error does not say %q: %v", words, e)
				}
			}
		})
	}
}

func TestLastWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status int
		words  string
		kind   Kind
		says   string
	}{
		{128, "fatal: '/r' does not appear to be a git repository\n", KindNotFound, "'/r' does not appear to be a git repository"},
		{1, "ERROR: Repository not found.\nfatal: Could not read from remote repository.\n", KindNotFound, "Repository not found."},
		{1, "remote: ERROR: The project you were looking for could not be found or you don't have permission to view it.\n", KindNotFound, "The project you were"},
		{128, "fatal: detected dubious ownership in repository at '/r'\nTo add an exception…\n", KindOwnership, "belongs to another user"},
		{127, "bash: line 1: git-upload-pack: command not found\n", KindNoGit, "bash: line 1: git-upload-pack: command not found"},
		{1, "deploy key: access denied\n", KindIdentity, "deploy key: access denied"},
		{128, "warning: something\nfatal: bad object HEAD\n", KindServer, "the remote's git ended with status 128: bad object HEAD"},
		{1, "", KindServer, "the remote's git ended with status 1"},
	} {
		kind, cause := lastWords(remote.Exit{Status: tc.status, Words: tc.words})
		if kind != tc.kind || !strings.Contains(cause, tc.says) {
			t.Errorf("%q: %s: %s", tc.words, kind, cause)
		}
	}
}

// silentGit serves a repository through the installed git, and stops where it is told to.
func silentGit(at string) func(string, ssh.Channel) int {
	return func(command string, c ssh.Channel) int {
		if at == PhaseAdvertisement {
			return remotetest.Hang(command, c)
		}
		cmd := exec.Command("/bin/sh", "-c", command)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
		out, err := cmd.StdoutPipe()
		if err != nil {
			return 1
		}
		in, err := cmd.StdinPipe()
		if err != nil || cmd.Start() != nil {
			return 1
		}
		_, _ = io.CopyN(c, out, 4) // the first line's size
		_ = out.Close()
		_ = in.Close()
		_ = cmd.Wait()
		return remotetest.Hang(command, c)
	}
}

// A remote that is silent once git runs there, and one that is stopped before: the poll ends at its deadline, names the phase, and the
// next one starts anew.
func TestSilentGitOverSSH(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	for _, tc := range []struct {
		name, phase string
		behavior    remotetest.Behavior
	}{
		{name: "TCP", phase: PhaseHandshake, behavior: remotetest.Behavior{Stop: remotetest.Accept}},
		{name: "greeting", phase: PhaseHandshake, behavior: remotetest.Behavior{Stop: remotetest.Greeting}},
		{name: "key exchange", phase: PhaseHandshake, behavior: remotetest.Behavior{Stop: remotetest.KeyExchange}},
		{name: "authentication", phase: PhaseAuthentication, behavior: remotetest.Behavior{Stop: remotetest.Authentication}},
		{name: "exec", phase: PhaseExec, behavior: remotetest.Behavior{Stop: remotetest.Exec}},
		{name: "advertisement", phase: PhaseAdvertisement, behavior: remotetest.Behavior{Command: silentGit(PhaseAdvertisement)}},
		{name: "in the advertisement", phase: PhaseAdvertisement, behavior: remotetest.Behavior{Command: silentGit("")}},
		{name: "pack", phase: PhasePack, behavior: remotetest.Behavior{Command: advertiseOnly}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := remotetest.Listen(t, remotetest.Config{})
			s.Behave(tc.behavior)
			g, _ := sshPoller(t, s.Host, r.dir, shortAt(tc.phase))
			began := time.Now()
			_, err := g.Poll(t.Context(), Anchor{})
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Kind != KindTimeout || e.Phase != tc.phase || !strings.Contains(e.Error(), ": "+tc.phase+": ") || !strings.Contains(e.Error(), "within 1s") {
				t.Fatalf("got %v", err)
			}
			if took := time.Since(began); took > 45*time.Second {
				t.Errorf("the poll took %v", took)
			}
			s.HangUp()
			s.Behave(remotetest.Behavior{})
			g.opts.Deadlines = long()
			g.Close()
			g.ssh = newSSHHost(g.opts, g.log)
			if o := poll(t, g, ""); o.Tip != tip {
				t.Errorf("%+v", o)
			}
		})
	}
}

// advertiseOnly lets git say what it has, and then nothing.
func advertiseOnly(command string, c ssh.Channel) int {
	out, err := exec.Command("/bin/sh", "-c", command+" </dev/null").Output()
	if len(out) == 0 {
		fmt.Fprintln(c.Stderr(), err)
		return 1
	}
	_, _ = c.Write(out)
	return remotetest.Hang(command, c)
}

// Whatever becomes of a poll, its descriptors come back.
func TestDescriptorsOverSSH(t *testing.T) { // not parallel: it counts them
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	s := remotetest.Listen(t, remotetest.Config{})
	d := long()
	d.Advertisement = 500 * time.Millisecond
	g, _ := sshPoller(t, s.Host, r.dir, d)
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	s.Behave(remotetest.Behavior{Command: remotetest.Hang})
	base := 0
	for i := range 4 {
		if _, err := g.Poll(t.Context(), Anchor{}); kindOf(err) != KindTimeout {
			t.Fatalf("error is %v", err)
		}
		g.Close()
		s.HangUp()
		if i == 0 {
			base = count()
		}
		g.opts.Deadlines = d
		g.ssh = newSSHHost(g.opts, g.log)
	}
	for deadline := time.Now().Add(time.Minute); count() > base+2; { // the server closes its ends behind the answers
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors after one silent read, %d after four", base, count())
		}
	}
	s.Behave(remotetest.Behavior{})
	g.opts.Deadlines = long()
	g.ssh = newSSHHost(g.opts, g.log)
	if o := poll(t, g, ""); o.Tip != tip {
		t.Errorf("%+v", o)
	}
}

// A real sshd that is stopped in its tracks, and goes on.
func TestFrozenSSHD(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	d := remotetest.SSHD(t, remotetest.Config{})
	g, m := sshPoller(t, d.Host, r.dir, long())
	if o := poll(t, g, ""); o.Tip != tip {
		t.Fatalf("%+v", o)
	}
	g.opts.Deadlines.Handshake = time.Second // of a server that is stopped; the one that goes on has time for the rest
	g.Close()
	g.ssh = newSSHHost(g.opts, g.log)
	d.Freeze()
	for range 3 {
		if _, err := g.Poll(t.Context(), Anchor{}); kindOf(err) != KindTimeout || !strings.Contains(err.Error(), ": handshake: the server took the connection and sent no SSH greeting within ") {
			t.Fatalf("error is %v", err)
		}
	}
	d.Thaw()
	g.opts.Deadlines = long()
	for deadline := time.Now().Add(time.Minute); ; {
		o, err := g.Poll(t.Context(), Anchor{Commit: tip})
		if err == nil && o.Tip == tip {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if n := m.dials.Load(); n != 2 {
		t.Errorf("there were %d connections to a server that counts the abandoned ones", n)
	}
}

// What a remote may send instead of git, and a pack that is cut: each is the remote's, and leaves nothing that a later poll trips over.
func TestHostileGitOverSSH(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	s := remotetest.Listen(t, remotetest.Config{})
	g, _ := sshPoller(t, s.Host, r.dir, long())
	says := func(words string) func(string, ssh.Channel) int {
		return func(_ string, c ssh.Channel) int { _, _ = io.WriteString(c, words); return 0 }
	}
	for _, tc := range []struct {
		name    string
		command func(string, ssh.Channel) int
		kind    Kind
		phase   string
		says    string
	}{
		{"a login banner", says("Welcome!\n"), KindProtocol, PhaseAdvertisement, "the list of branches cannot be read"},
		{"nothing", says(""), KindProtocol, PhaseAdvertisement, "the list of branches cannot be read"},
		{"a cut list", says("00b1" + tip + " HEAD\x00"), KindProtocol, PhaseAdvertisement, "the list of branches cannot be read"},
		{"a shell that is missing", func(string, ssh.Channel) int { return 127 }, KindNoGit, PhaseAdvertisement, "there is no git-upload-pack on the host"},
		{"no pack", func(command string, c ssh.Channel) int {
			out, _ := exec.Command("/bin/sh", "-c", command+" </dev/null").Output()
			_, _ = c.Write(out)
			_, _ = io.CopyN(io.Discard, c, 60)
			return 0
		}, KindProtocol, PhasePack, "the pack cannot be read"},
	} {
		s.Behave(remotetest.Behavior{Command: tc.command})
		_, err := g.Poll(t.Context(), Anchor{})
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Kind != tc.kind || e.Phase != tc.phase || !strings.Contains(e.Error(), tc.says) {
			t.Errorf("%s: got %+v", tc.name, err)
		}
		s.HangUp()
	}
	s.Behave(remotetest.Behavior{})
	if o := poll(t, g, ""); o.Tip != tip || o.Steps[0].Findings.Refuses() {
		t.Errorf("%+v", o)
	}
}

// The child's side against a parent that is silent, a hundred times over.
func TestSilentPipe(t *testing.T) {
	t.Parallel()
	req := packp.NewUploadPackRequest()
	req.Wants = []plumbing.Hash{plumbing.NewHash(strings.Repeat("a", 40))}
	for phase, ask := range map[string]func(context.Context, *pipeWire) error{
		PhaseAdvertisement: func(ctx context.Context, w *pipeWire) error { _, err := w.advertise(ctx); return err },
		PhasePack:          func(ctx context.Context, w *pipeWire) error { _, err := w.pack(ctx, req); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			for range 100 {
				ours, theirs := net.Pipe()
				w := &pipeWire{tracker: newTracker("ssh://h/r", func(sandbox.Progress) {}), conn: ours}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				began := time.Now()
				err := ask(ctx, w)
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Second || w.tracker.phase() != phase {
					t.Fatalf("%s: after %v, in %s: %v", phase, took, w.tracker.phase(), err)
				}
				cancel()
				w.leave()
				_ = theirs.Close()
			}
		})
	}
}
