package source

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stado.internal/stado/porttest"
)

// backend serves a repository with git's own HTTP server.
func backend(t *testing.T, r repo) http.Handler {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
		Logger: nil,
		Stderr: io.Discard,
	}
}

// server gives a TLS server, its address of the repository and a file with its certificate.
func server(t *testing.T, h http.Handler) (address, caFile string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	put(t, caFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return s.URL + "/registry/.git", caFile
}

// shortAt are the deadlines for a server that falls silent in a phase: the other phases get the time that a busy machine may need.
func shortAt(phase string) Deadlines {
	d := long()
	for of, field := range map[string]*time.Duration{
		PhaseHandshake: &d.Handshake, PhaseAuthentication: &d.Authentication, PhaseExec: &d.Exec, PhaseAdvertisement: &d.Advertisement, PhasePack: &d.Pack,
	} {
		if of == phase {
			*field = time.Second
		}
	}
	return d
}

func TestPollOverHTTPS(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.commit("1", registry(1))
	var busy atomic.Int32
	git := backend(t, r)
	address, ca := server(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		switch {
		case user != "agent" || password != "canary":
			http.Error(w, "who are you", http.StatusUnauthorized)
		case busy.Add(1)%3 != 0: // two of three requests meet a server that restarts
			w.Header().Set("Retry-After", "1")
			http.Error(w, "restarting", http.StatusServiceUnavailable)
		default:
			git.ServeHTTP(w, req)
		}
	}))
	g := poller(t, address)
	g.opts.Remote.CAFile = ca
	g.opts.Remote.CredentialFile = filepath.Join(t.TempDir(), "credential")
	put(t, g.opts.Remote.CredentialFile, "agent:canary\n")
	if o := poll(t, g, ""); o.Tip != first || o.Steps[0].Findings.Refuses() {
		t.Fatalf("%+v", o)
	}
	if o := poll(t, g, ""); !o.Unchanged {
		t.Errorf("%+v", o)
	}
	second := r.commit("2", generation(2))
	if o := poll(t, g, first); len(o.Steps) != 1 || o.Steps[0].Commit != second {
		t.Errorf("%+v", o)
	}

	// The credential is read anew at every poll, and never shown.
	put(t, g.opts.Remote.CredentialFile, "agent:stolen-canary\n")
	_, err := g.Poll(t.Context(), Anchor{Commit: second})
	want := "cannot read the registry from " + address + ": authentication: the remote wants other credentials (401) " +
		"(check the credential file and what it may read at the remote)"
	if kindOf(err) != KindAuthentication || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := os.Chmod(g.opts.Remote.CredentialFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Poll(t.Context(), Anchor{}); kindOf(err) != KindAuthentication || !strings.Contains(err.Error(), "mode 0644") {
		t.Errorf("error is %v", err)
	}
}

func TestServersThatRefuse(t *testing.T) {
	t.Parallel()
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	for _, tc := range []struct {
		name  string
		h     http.Handler
		kind  Kind
		phase string
		says  string
	}{
		{"403", status(403), KindAuthentication, PhaseAuthentication, "refuses these credentials (403)"},
		{"404", status(404), KindNotFound, PhaseAdvertisement, "(404)"},
		{"500", status(500), KindServer, PhaseAdvertisement, "the remote answers 500 Internal Server Error"},
		{"503 for ever", status(503), KindServer, PhaseAdvertisement, "the remote answers 503 Service Unavailable"},
		{
			"not git", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>welcome</html>") }),
			KindProtocol, PhaseAdvertisement, "check that the address is a git repository's",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			address, ca := server(t, tc.h)
			g := poller(t, address)
			g.opts.Remote.CAFile = ca
			_, err := g.Poll(t.Context(), Anchor{})
			var e *Error
			if !errors.As(err, &e) || e.Kind != tc.kind || e.Phase != tc.phase || !strings.Contains(e.Error(), tc.says) {
				t.Errorf("got %+v", err)
			}
		})
	}
}

func TestUnknownCertificate(t *testing.T) {
	t.Parallel()
	address, _ := server(t, http.NotFoundHandler())
	_, err := poller(t, address).Poll(t.Context(), Anchor{})
	if kindOf(err) != KindCertificate || !strings.Contains(err.Error(), "handshake: ") || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("error is %v", err)
	}
}

func TestRedirectsDoNotCarryCredentials(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(elsewhere.Close)
	address, ca := server(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, elsewhere.URL+"/other.git"+strings.TrimPrefix(req.URL.Path, "/registry/.git")+"?"+req.URL.RawQuery, http.StatusFound)
	}))
	g := poller(t, address)
	g.opts.Remote.CAFile = ca
	g.opts.Remote.CredentialFile = filepath.Join(t.TempDir(), "credential")
	put(t, g.opts.Remote.CredentialFile, "canary")
	_, err := g.Poll(t.Context(), Anchor{})
	want := "cannot read the registry from " + address + ": advertisement: the remote answers with a redirect to " + elsewhere.URL +
		"/other.git (redirects are not followed; configure that address if it is the registry's)"
	if kindOf(err) != KindRedirect || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if reached.Load() != 0 {
		t.Error("the redirect was followed")
	}
}

// Every stage at which a remote can fall silent ends at its deadline, and the sentence names the phase.
func TestSilentServers(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("1", registry(1))
	hang := func(done <-chan struct{}) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			select {
			case <-done:
			case <-req.Context().Done():
			}
		})
	}
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	git := backend(t, r)
	for _, tc := range []struct {
		name, phase string
		start       func(t *testing.T) (address, ca string)
	}{
		{"after TCP", PhaseHandshake, func(t *testing.T) (string, string) { return "https://" + silentListener(t) + "/r.git", "" }},
		{"after TLS", PhaseAdvertisement, func(t *testing.T) (string, string) { return server(t, hang(done)) }},
		{"in plain HTTP", PhaseAdvertisement, func(t *testing.T) (string, string) { return "http://" + silentListener(t) + "/r.git", "" }},
		{"in the list of branches", PhaseAdvertisement, func(t *testing.T) (string, string) {
			return server(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
				fmt.Fprint(w, "001e# service=git-upload-pack\n0000")
				_ = http.NewResponseController(w).Flush()
				hang(done).ServeHTTP(w, req)
			}))
		}},
		{"before the pack", PhasePack, func(t *testing.T) (string, string) {
			return server(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodPost {
					_, _ = io.Copy(io.Discard, req.Body)
					hang(done).ServeHTTP(w, req)
					return
				}
				git.ServeHTTP(w, req)
			}))
		}},
		{"in the pack", PhasePack, func(t *testing.T) (string, string) {
			return server(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Method != http.MethodPost {
					git.ServeHTTP(w, req)
					return
				}
				rec := httptest.NewRecorder()
				git.ServeHTTP(rec, req)
				w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
				_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
				_ = http.NewResponseController(w).Flush()
				hang(done).ServeHTTP(w, req)
			}))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			address, ca := tc.start(t)
			g := poller(t, address)
			g.opts.Remote.CAFile, g.opts.Deadlines = ca, shortAt(tc.phase)
			if tc.phase == PhaseAdvertisement { // which over HTTP may use what the phases before it left
				g.opts.Deadlines.Connect, g.opts.Deadlines.Handshake = 5*time.Second, 5*time.Second
			}
			began := time.Now()
			_, err := g.Poll(t.Context(), Anchor{})
			var e *Error
			if !errors.As(err, &e) || e.Kind != KindTimeout || e.Phase != tc.phase || !strings.Contains(e.Error(), ": "+tc.phase+": ") {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > 45*time.Second {
				t.Errorf("the poll took %v", took)
			}
		})
	}
}

// silentListener accepts connections and says nothing.
func silentListener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String() // the kernel completes the connections
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	_, err := poller(t, "https://"+porttest.Address(t)+"/r.git").Poll(t.Context(), Anchor{})
	if kindOf(err) != KindUnreachable || !strings.Contains(err.Error(), ": connect: ") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error is %v", err)
	}
}

// A pack that is cut leaves nothing in the store that a later poll trips over.
func TestCutPack(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	var whole atomic.Bool
	git := backend(t, r)
	address, ca := server(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost || whole.Load() {
			git.ServeHTTP(w, req)
			return
		}
		rec := httptest.NewRecorder()
		git.ServeHTTP(rec, req)
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		w.Header().Set("Content-Length", fmt.Sprint(rec.Body.Len()))
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
	}))
	g := poller(t, address)
	g.opts.Remote.CAFile = ca
	if _, err := g.Poll(t.Context(), Anchor{}); kindOf(err) != KindUnreachable || !strings.Contains(err.Error(), "pack: the pack was cut") {
		t.Fatalf("error is %v", err)
	}
	whole.Store(true)
	if o := poll(t, g, ""); o.Tip != tip || o.Steps[0].Findings.Refuses() {
		t.Errorf("%+v", o)
	}
}

// A remote that wants to be left alone for longer than a poll waits is not asked again before that, and at most for some minutes.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	var asked atomic.Int32
	var after atomic.Value
	after.Store("")
	git := backend(t, r)
	address, ca := server(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		if wait := after.Load().(string); wait != "" {
			w.Header().Set("Retry-After", wait)
			http.Error(w, "slowly", http.StatusTooManyRequests)
			return
		}
		git.ServeHTTP(w, req)
	}))
	for _, wait := range []string{"120", "99999999999999999999", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)} {
		g := poller(t, address)
		g.opts.Remote.CAFile = ca
		after.Store(wait)
		before := asked.Load()
		for range 3 {
			_, err := g.Poll(t.Context(), Anchor{})
			if kindOf(err) != KindWait || !strings.Contains(err.Error(), "advertisement: the remote answers 429 Too Many Requests, and wants no question before 2") {
				t.Errorf("%s: error is %v", wait, err)
			}
		}
		if n := asked.Load() - before; n != 1 {
			t.Errorf("%s: the remote was asked %d times", wait, n)
		}
		after.Store("")
		if left := time.Until(g.http.quiet); left > maxRetryAfter {
			t.Errorf("%s: it is left alone for %s", wait, left)
		}
		g.http.quiet = time.Now() // it is over
		if o := poll(t, g, ""); o.Tip != tip {
			t.Errorf("%+v", o)
		}
	}
}
