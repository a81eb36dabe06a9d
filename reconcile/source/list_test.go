package source

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

var (
	idA = strings.Repeat("a1", 20)
	idB = strings.Repeat("b2", 20)
)

// packets writes lines as git does; an empty one is a flush.
func packets(lines ...string) string {
	var b bytes.Buffer
	e := pktline.NewEncoder(&b)
	for _, line := range lines {
		if line == "" {
			_ = e.Flush() // into memory
			continue
		}
		_ = e.EncodeString(line) // into memory
	}
	return b.String()
}

const service = "# service=git-upload-pack\n"

// listings are what a remote may say, with the tip or the kind of the error.
func listings() map[string][2]string {
	none := strings.Repeat("0", 40)
	return map[string][2]string{
		"over ssh":              {packets(idA+" HEAD\x00side-band-64k agent=git/2.39.5\n", idA+" refs/heads/main\n", ""), idA},
		"over http":             {packets(service, "", idA+" HEAD\x00thin-pack\n", idA+" refs/heads/main\n", ""), idA},
		"no capabilities":       {packets(idA+" refs/heads/main", ""), idA},
		"first":                 {packets(idA+" refs/heads/main\x00thin-pack", idB+" refs/heads/other\n", ""), idA},
		"version 1":             {packets("version 1\n", idA+" refs/heads/main\x00thin-pack", ""), idA},
		"a tag and what it is":  {packets(idA+" HEAD\x00", idA+" refs/heads/main\n", idB+" refs/tags/v1\n", idA+" refs/tags/v1^{}\n", ""), idA},
		"another branch":        {packets(idA+" refs/heads/mainly\x00", idB+" refs/remotes/origin/main\n", ""), string(KindMissingBranch)},
		"a shallow repository":  {packets(idA+" refs/heads/main\x00", "shallow "+idB, ""), string(KindShallow)},
		"no references":         {packets(none+" capabilities^{}\x00thin-pack\n", ""), string(KindEmpty)},
		"nothing at all":        {packets(""), string(KindEmpty)},
		"nothing over http":     {packets(service, "", ""), string(KindEmpty)},
		"words instead":         {packets("ERR upload-pack: not here\n"), string(KindServer)},
		"cut in a line":         {packets(idA+" HEAD\x00", idA+" refs/heads/main\n")[:100], string(KindProtocol)},
		"cut behind a line":     {packets(idA + " refs/heads/main\x00"), string(KindProtocol)},
		"no packets":            {"<html>welcome</html>", string(KindProtocol)},
		"nothing said":          {"", string(KindProtocol)},
		"a size that is none":   {"0004", string(KindProtocol)},
		"an id that is none":    {packets("main refs/heads/main\x00", ""), string(KindProtocol)},
		"an id of another kind": {packets(strings.Repeat("a1", 32)+" refs/heads/main\x00", ""), string(KindProtocol)},
		"a service only":        {packets(service, idA+" refs/heads/main\x00", ""), string(KindProtocol)},
	}
}

func TestBranchTip(t *testing.T) {
	t.Parallel()
	for name, tc := range listings() {
		tip, err := branchTip(strings.NewReader(tc[0]), Remote{URL: "https://h/r", Branch: "main"})
		if err != nil {
			failed, ok := taskFailure(err)
			if !ok {
				t.Fatalf("%s: error is %v", name, err)
			}
			tip = failed.Kind
		}
		if tip != tc[1] {
			t.Errorf("%s: got %s, %v; want %s", name, tip, err, tc[1])
		}
	}
}

// What a tip is read from is what the git library reads it from too.
func FuzzBranchTip(f *testing.F) {
	for _, tc := range listings() {
		f.Add([]byte(tc[0]))
	}
	r := Remote{URL: "https://h/r", Branch: "main"}
	f.Fuzz(func(t *testing.T, data []byte) {
		tip, err := branchTip(bytes.NewReader(data), r)
		if err != nil {
			if _, ok := taskFailure(err); !ok {
				t.Fatalf("error is %v", err)
			}
			return
		}
		if !objectID(tip) || !bytes.Contains(data, []byte(tip)) {
			t.Fatalf("tip is %q", tip)
		}
		adv := packp.NewAdvRefs()
		if adv.Decode(bytes.NewReader(data)) == nil && adv.References[r.reference().String()].String() != tip {
			t.Errorf("tip is %s, the library reads %v", tip, adv.References)
		}
	})
}

// Polls without news share one connection, and a CA file that changes ends its use.
func TestListingKeepsItsConnection(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(backend(t, r))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	g := poller(t, s.URL+"/registry/.git")
	t.Cleanup(g.Close)
	for range 5 {
		if got, err := g.list(t.Context()); err != nil || got != tip {
			t.Fatalf("got %s, %v", got, err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
	g.opts.Remote.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	put(t, g.opts.Remote.CAFile, "none\n")
	if _, err := g.list(t.Context()); kindOf(err) != KindCertificate || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("error is %v", err)
	}
}

// A local branch is read where git has plainly written it down, and by git in the child where it has not.
func TestLocalTip(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("1", registry(1))
	tip := r.commit("2", generation(2))
	bare := filepath.Join(t.TempDir(), "bare.git")
	r.git("clone", "-q", "--bare", r.dir, bare)
	linked := filepath.Join(t.TempDir(), "linked")
	r.git("worktree", "add", "-q", "-b", "side", linked)
	empty := newRepo(t)
	for name, tc := range map[string]struct {
		dir, branch string
		plain       bool
	}{
		"loose":                       {r.dir, "main", true},
		"packed, bare":                {bare, "main", true},
		"another branch":              {r.dir, "side", true},
		"a branch that is not there":  {r.dir, "nowhere", false},
		"a linked work tree":          {linked, "main", false},
		"a repository without commit": {empty.dir, "main", false},
		"no repository":               {t.TempDir(), "main", false},
	} {
		if got, ok := localTip(tc.dir, tc.branch); ok != tc.plain || ok && got != tip {
			t.Errorf("%s: got %q, %t", name, got, ok)
		}
	}
	if got, err := poller(t, linked).list(t.Context()); err != nil || got != tip {
		t.Errorf("got %s, %v", got, err)
	}
	r.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
	if got, ok := localTip(r.dir, "alias"); ok {
		t.Errorf("got %q for another branch's name", got)
	}
	pipe := filepath.Join(r.dir, ".git", "refs", "heads", "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := localTip(r.dir, "pipe"); ok {
		t.Errorf("got %q out of a pipe", got)
	}
	if err := os.WriteFile(filepath.Join(r.dir, ".git", "refs", "heads", "long"), []byte(tip+"\n"+tip+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := localTip(r.dir, "long"); ok {
		t.Errorf("got %q out of a file that is no reference", got)
	}
}

// forgetful passes connections on to a server, until what is on the way forgets those there are: it says nothing on them any more, and
// nobody is told.
type forgetful struct {
	net.Listener
	to string

	mu    sync.Mutex
	conns []*mutable
}

func (f *forgetful) serve() {
	var carried sync.WaitGroup
	defer carried.Wait()
	for {
		near, err := f.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", f.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		c := &mutable{Conn: far}
		f.mu.Lock()
		f.conns = append(f.conns, c)
		f.mu.Unlock()
		carried.Go(func() { _, _ = io.Copy(c, near); _ = far.Close() })
		carried.Go(func() { _, _ = io.Copy(near, c); _ = near.Close() })
	}
}

func (f *forgetful) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.mute.Store(true)
	}
}

// mutable is a connection that can be made to take everything and pass nothing on.
type mutable struct {
	net.Conn
	mute atomic.Bool
}

func (m *mutable) Write(p []byte) (int, error) {
	if m.mute.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

// A kept connection that died without a word costs a poll a part of its time and one more connection, over both kinds of HTTP. A remote
// that is slow only loses nothing by it.
func TestListingOverAForgottenConnection(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var slow atomic.Bool
			git := backend(t, r)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Proto != version {
					t.Errorf("the request is %s", req.Proto)
				}
				if slow.Swap(false) {
					<-req.Context().Done() // longer than anybody waits on a kept connection
				}
				git.ServeHTTP(w, req)
			}))
			s.EnableHTTP2 = version != "HTTP/1.1"
			s.StartTLS()
			t.Cleanup(s.Close)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			way := &forgetful{Listener: l, to: s.Listener.Addr().String()}
			var serving sync.WaitGroup
			serving.Go(way.serve)
			g := poller(t, "https://"+l.Addr().String()+"/registry/.git")
			g.opts.Remote.CAFile = filepath.Join(t.TempDir(), "ca.pem")
			put(t, g.opts.Remote.CAFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
			g.opts.Deadlines = long()
			g.opts.Deadlines.Advertisement = 2 * time.Second // with what connecting may take, a list has two minutes
			t.Cleanup(func() {
				g.Close()
				s.CloseClientConnections()
				_ = l.Close()
				serving.Wait()
			})
			list := func() (connections int) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if got, err := g.list(ctx); err != nil || got != tip {
					t.Fatalf("got %s, %v", got, err)
				}
				way.mu.Lock()
				defer way.mu.Unlock()
				return len(way.conns)
			}
			before := list()
			way.forget()
			after := list()
			slow.Store(true)
			if last := list(); after <= before || last <= after {
				t.Errorf("there were %d, %d and %d connections", before, after, last)
			}
		})
	}
}
