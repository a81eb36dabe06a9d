package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"stado.internal/stado/porttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "0123456789abcdef"

func secretFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func hook(t testing.TB, o Options) *Hook {
	t.Helper()
	if o.SecretFile == "" {
		o.SecretFile = secretFile(t, secret+"\n")
	}
	if o.Bind == "" {
		o.Bind = "127.0.0.1:0"
	}
	if o.Trigger == nil {
		o.Trigger = func() {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func code(secret, body string) string {
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(body))
	return hex.EncodeToString(sum.Sum(nil))
}

// TestPosts: what is signed by the secret asks for a read, whatever else is in it; nothing else does.
func TestPosts(t *testing.T) {
	h := hook(t, Options{})
	const body = `{"ref":"refs/heads/main"}`
	good := code(secret, body)
	large := strings.Repeat("x", maxBody+1)
	for _, tc := range []struct {
		name, body string
		header     http.Header
		status     int
	}{
		{"GitHub", body, http.Header{"X-Hub-Signature-256": {"sha256=" + good}}, 202},
		{"Gitea", body, http.Header{"X-Gitea-Signature": {good}}, 202},
		{"Forgejo", body, http.Header{"X-Forgejo-Signature": {good}, "X-Gitea-Signature": {good}}, 202},
		{"Gogs", body, http.Header{"X-Gogs-Signature": {strings.ToUpper(good)}}, 202},
		{"no body", "", http.Header{"X-Gitea-Signature": {code(secret, "")}}, 202},
		{"the largest", large[1:], http.Header{"X-Gitea-Signature": {code(secret, large[1:])}}, 202},
		{"no signature", body, http.Header{}, 401},
		{"a token", body, http.Header{"X-Gitlab-Token": {secret}}, 401},
		{"another secret", body, http.Header{"X-Hub-Signature-256": {"sha256=" + code("another secret!!", body)}}, 401},
		{"another body", body + " ", http.Header{"X-Hub-Signature-256": {"sha256=" + good}}, 401},
		{"SHA-1", body, http.Header{"X-Hub-Signature": {"sha1=" + good[:40]}}, 401},
		{"no prefix", body, http.Header{"X-Hub-Signature-256": {good}}, 401},
		{"short", body, http.Header{"X-Gitea-Signature": {good[:62]}}, 401},
		{"long", body, http.Header{"X-Gitea-Signature": {good + "00"}}, 401},
		{"no digits", body, http.Header{"X-Gitea-Signature": {"zz" + good[2:]}}, 401},
		{"empty", body, http.Header{"X-Gitea-Signature": {""}}, 401},
		{"twice", body, http.Header{"X-Gitea-Signature": {good, good}}, 401},
		{"a good one behind a bad one", body, http.Header{"X-Hub-Signature-256": {"sha256=00"}, "X-Gitea-Signature": {good}}, 401},
		{"too large", large, http.Header{"X-Gitea-Signature": {code(secret, large)}}, 413},
	} {
		r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(tc.body))
		r.Header = tc.header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.status {
			t.Errorf("%s: %d, want %d: %s", tc.name, w.Code, tc.status, w.Body)
		}
		select {
		case <-h.asked:
			if tc.status != 202 {
				t.Errorf("%s asks for a read", tc.name)
			}
		default:
			if tc.status == 202 {
				t.Errorf("%s asks for nothing", tc.name)
			}
		}
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s: the answer has the secret", tc.name)
		}
	}
}

// TestUnreadBody: the body of a post without a signature is not read at all.
func TestUnreadBody(t *testing.T) {
	h := hook(t, Options{})
	r := httptest.NewRequest(http.MethodPost, Path, iotestReader(func([]byte) (int, error) {
		t.Error("the body is read")
		return 0, io.EOF
	}))
	h.ServeHTTP(httptest.NewRecorder(), r)
	broken := httptest.NewRequest(http.MethodPost, Path, iotestReader(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }))
	broken.Header.Set("X-Gitea-Signature", code(secret, ""))
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, broken); w.Code != http.StatusBadRequest {
		t.Errorf("a cut body: %d", w.Code)
	}
}

type iotestReader func([]byte) (int, error)

func (r iotestReader) Read(p []byte) (int, error) { return r(p) }

// TestPace: ten thousand posts are a read at once and one in every gap; the last one is not lost.
func TestPace(t *testing.T) {
	file := secretFile(t, secret)
	synctest.Test(t, func(t *testing.T) {
		var reads []time.Duration
		began := time.Now()
		h := hook(t, Options{SecretFile: file, Trigger: func() { reads = append(reads, time.Since(began)) }})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.trigger(ctx) })
		post := func() {
			r := httptest.NewRequest(http.MethodPost, Path, http.NoBody)
			r.Header.Set("X-Gitea-Signature", code(secret, ""))
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		for range 10_000 {
			post()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []time.Duration{0, Gap, 2 * Gap}
		if len(reads) != len(want) {
			t.Fatalf("read at %v", reads)
		}
		for i, at := range want {
			if d := reads[i] - at; d < 0 || d > 10*time.Millisecond {
				t.Errorf("read at %v, want %v", reads, want)
			}
		}
		post()
		synctest.Wait()
		if len(reads) != 4 {
			t.Errorf("after a pause: read at %v", reads)
		}
		post()
		stop() // a read that waits for its time ends with the hook
		running.Wait()
	})
}

// TestRefusalsAreCounted: a flood of bad posts is a line a minute.
func TestRefusalsAreCounted(t *testing.T) {
	file := secretFile(t, secret)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := hook(t, Options{SecretFile: file, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 10_000 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, Path, http.NoBody))
			time.Sleep(10 * time.Millisecond)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "a post to the webhook was refused, from 192.0.2.1:1234: the post has no signature") ||
			!strings.Contains(log.String(), "6000 posts to the webhook were refused, the last one from ") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}

// TestSecret: what cannot be used is refused at the start, and named without its content; one that changes is taken at the next post.
func TestSecret(t *testing.T) {
	open := secretFile(t, secret)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		secretFile(t, "short\n"):               "is not one line of at least 16 characters",
		secretFile(t, secret+"\n"+secret+"\n"): "is not one line",
		secretFile(t, ""):                      "is not one line",
		open:                                   "can be used by others (mode 0644; run: chmod 0600",
		filepath.Join(t.TempDir(), "no-such-secret"): "cannot read the secret of the webhook",
	} {
		if _, err := New(Options{Bind: "127.0.0.1:1", SecretFile: file}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
	file := secretFile(t, secret)
	for _, bind := range []string{":1", "host:1", "127.0.0.1", "127.0.0.1:99999"} {
		if _, err := New(Options{Bind: bind, SecretFile: file}); err == nil || !strings.Contains(err.Error(), "which is no address with a port") {
			t.Errorf("%q: %v", bind, err)
		}
	}
	for _, o := range []Options{{Bind: "127.0.0.1:1"}, {SecretFile: file}} {
		if _, err := New(o); !errors.Is(err, errHalf) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	h := hook(t, Options{SecretFile: file})
	status := func(secret string) int {
		r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader("x"))
		r.Header.Set("X-Gitea-Signature", code(secret, "x"))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	const next = "fedcba9876543210"
	if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, b := status(secret), status(next); a != 401 || b != 202 {
		t.Errorf("rotated: %d, %d", a, b)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	h.opts.Log, h.tally = slog.New(slog.NewTextHandler(&log, nil)), tally{}
	r := httptest.NewRequest(http.MethodPost, Path, http.NoBody)
	r.Header.Set("X-Gitea-Signature", code(next, ""))
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 500 || strings.Contains(w.Body.String(), file) || !strings.Contains(log.String(), file) {
		t.Errorf("without a secret: %d %s, the log says %s", w.Code, w.Body, log.String())
	}
}

// TestRun listens on a real socket: an address that is taken is a problem that goes by itself, connections are bounded, other paths and
// methods are nobody's, and nothing is left at the end.
func TestRun(t *testing.T) {
	taken, err := net.Listen("tcp", porttest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	bind := taken.Addr().String()
	changed, read := make(chan struct{}, 8), make(chan struct{}, 8)
	h := hook(t, Options{Bind: bind, Changed: func() { changed <- struct{}{} }, Trigger: func() { read <- struct{}{} }})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	<-changed
	if p, _ := h.Problem(); !strings.Contains(p, "the webhook does not listen on "+bind+": listen tcp "+bind+": bind: address already in use") {
		t.Errorf("problem %q", p)
	}
	stop()
	if err := errors.Join(<-done, taken.Close()); err != nil {
		t.Fatal(err)
	}

	ctx, stop = context.WithCancel(t.Context())
	go func() { done <- h.Run(ctx) }()
	<-changed // listens
	var idle []net.Conn
	for range maxConnections - 1 {
		c, err := net.Dial("tcp", bind)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	do := func(method, path string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+bind+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Gitea-Signature", code(secret, "x"))
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if a, b, c := do("POST", Path), do("GET", Path), do("POST", "/"); a != 202 || b != 405 || c != 404 {
		t.Errorf("%d, %d, %d", a, b, c)
	}
	<-read
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, c := range idle {
		_ = c.Close()
	}
}

// FuzzSignature: a header is a code of the right length or an error, and only the code of the body under the secret passes.
func FuzzSignature(f *testing.F) {
	good := code(secret, "body")
	for _, seed := range []string{"", "sha256=", "sha256=" + good, good, strings.ToUpper(good), "sha1=" + good, good + "\x00", " " + good, "sha256=sha256=" + good} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, hub, gitea string) {
		header := http.Header{}
		if hub != "" {
			header["X-Hub-Signature-256"] = []string{hub}
		}
		header["X-Gitea-Signature"] = []string{gitea}
		mac, err := signatureOf(header)
		if (err == nil) != (len(mac) == sha256.Size) {
			t.Fatalf("%q, %q: %x, %v", hub, gitea, mac, err)
		}
		counts := gitea
		if hub != "" {
			counts = strings.TrimPrefix(hub, "sha256=")
		}
		if err == nil && signed([]byte(secret), []byte("body"), mac) != strings.EqualFold(counts, good) {
			t.Fatalf("%q, %q pass", hub, gitea)
		}
	})
}
