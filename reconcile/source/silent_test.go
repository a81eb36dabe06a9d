package source

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A server that falls silent while it is asked over HTTP costs its phase's time and nothing else, a hundred times over.
func TestSilentHTTPInMemory(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, address, phase string
		took                 time.Duration
		says                 string // before it is silent
	}{
		{"TLS", "https://h/r.git", PhaseHandshake, 10 * time.Second, ""},
		{"HTTP", "http://localhost/r.git", PhaseAdvertisement, 40 * time.Second, ""},
		{"the headers", "http://localhost/r.git", PhaseAdvertisement, 40 * time.Second, "HTTP/1.1 200 OK\r\n"},
		{"the list of branches", "http://localhost/r.git", PhaseAdvertisement, 40 * time.Second, "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n001e# service=git-upload-pack\n0000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			remote, err := ParseRemote(tc.address, "")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { // which ends only when every goroutine has
				g := New(Options{Remote: remote})
				defer g.Close()
				if err := g.http.renew(g.opts.Remote, g.opts.Deadlines); err != nil {
					t.Fatal(err)
				}
				transport, ok := g.http.client.HTTPClient.Transport.(*http.Transport)
				if !ok {
					t.Fatalf("the transport is %T", g.http.client.HTTPClient.Transport)
				}
				transport.Proxy = nil
				transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go func() {
						_, _ = theirs.Read(make([]byte, 4<<10)) // the request
						_, _ = io.WriteString(theirs, tc.says)
						_, _ = io.Copy(io.Discard, theirs) // to the client's end
						_ = theirs.Close()
					}()
					return ours, nil
				}
				for range 100 {
					began := time.Now()
					_, err := g.list(t.Context())
					e, ok := errors.AsType[*Error](err)
					if took := time.Since(began); !ok || e.Kind != KindTimeout || e.Phase != tc.phase || took != tc.took {
						t.Fatalf("after %v: %v", took, err)
					}
				}
			})
		})
	}
}

// The same over sockets: every descriptor comes back.
func TestDescriptorsOverHTTP(t *testing.T) { // not parallel: it counts them
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	silent := silentListener(t)
	runner(t) // keeps one
	base := count()
	for range 3 {
		for _, scheme := range []string{"https", "http"} {
			g := poller(t, scheme+"://"+silent+"/r.git")
			g.opts.Deadlines.Connect, g.opts.Deadlines.Handshake, g.opts.Deadlines.Advertisement = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
			if _, err := g.list(t.Context()); kindOf(err) != KindTimeout {
				t.Errorf("%s: %v", scheme, err)
			}
			g.Close()
		}
	}
	for deadline := time.Now().Add(time.Minute); count() > base; { // connections close behind the answer
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors before, %d after", base, count())
		}
	}
}
