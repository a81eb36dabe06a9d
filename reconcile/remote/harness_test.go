package remote_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onBoth runs a body against the server in this process and against a real OpenSSH.
func onBoth(t *testing.T, body func(t *testing.T, start func(remotetest.Config) *remotetest.Host)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		body(t, func(c remotetest.Config) *remotetest.Host { return remotetest.Memory(t, c).Host })
	})
	t.Run("openssh", func(t *testing.T) {
		t.Parallel()
		body(t, func(c remotetest.Config) *remotetest.Host { return remotetest.SSHD(t, c).Host })
	})
}

// options reach a host with the files that were made for it.
func options(h *remotetest.Host) remote.Options {
	return remote.Options{
		Host: "alpha", Paths: []remote.Path{{Name: "primary", Destination: h.Destination}}, KnownHosts: []string{h.KnownHosts},
		Identity: remote.Identity{File: h.Identity}, Dial: h.Dial, Deadlines: patient(),
	}
}

// patient deadlines are never met by a machine that is merely busy.
func patient() remote.Deadlines {
	return remote.Deadlines{Connect: time.Minute, Handshake: time.Minute, Authentication: time.Minute, Exec: time.Minute}
}

// run executes a command on a connection and gives what it wrote.
func run(t *testing.T, exec func(context.Context, string) (*remote.Session, error), command, input string) (string, remote.Exit) {
	t.Helper()
	s, err := exec(t.Context(), command)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Write([]byte(input))
	if err == nil {
		err = s.CloseWrite()
	}
	if err != nil && err != io.EOF { // a command may end before its input does
		t.Fatal(err)
	}
	out, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := s.Wait(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), exit
}

// refusal dials and gives the error, which must be of a kind and in a phase, and say words.
func refusal(t *testing.T, o remote.Options, phase remote.Phase, kind remote.Kind, says ...string) *remote.Error {
	t.Helper()
	c, err := remote.Dial(t.Context(), o)
	if err == nil {
		c.Close()
		t.Fatalf("there is a connection, want %s in %s", kind, phase)
	}
	return expect(t, err, phase, kind, says...)
}

func expect(t *testing.T, err error, phase remote.Phase, kind remote.Kind, says ...string) *remote.Error {
	t.Helper()
	e, ok := errors.AsType[*remote.Error](err)
	if !ok || e.Phase != phase || e.Kind != kind {
		t.Fatalf("got %#v (%v), want %s in %s", e, err, kind, phase)
	}
	for _, words := range says {
		if !strings.Contains(e.Error(), words) {
			t.Errorf("the error does not say %q: %v", words, e)
		}
	}
	where := e.Destination
	if where == "" { // there was none to go to
		where = e.Host
	}
	if !strings.HasPrefix(e.Error(), "SSH to "+where+": "+string(phase)+": ") || strings.Contains(e.Error(), "\n") {
		t.Errorf("the error is not one sentence about one destination: %q", e.Error())
	}
	return e
}

func put(t *testing.T, file, data string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// counter counts TCP connections and what goes over them.
type counter struct {
	mu    sync.Mutex
	dials int
}

func (c *counter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	c.dials++
	c.mu.Unlock()
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials
}
