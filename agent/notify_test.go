package agent

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stado.internal/stado/agent/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testOptions(t *testing.T) Options {
	return Options{
		Home: filepath.Join(t.TempDir(), "state"), Log: slog.New(slog.DiscardHandler), Child: []string{"/nonexistent", "sandbox"},
		Settings: config.Agent{Repository: "/nonexistent/fleet", Branch: "main", Host: "a1", Refresh: time.Hour, Drain: time.Second},
	}
}

// TestNotify runs an agent beside a real notification socket and reads what systemd would.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify.sock")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	a, err := New(testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	expect := func(want string) {
		t.Helper()
		buf := make([]byte, 4096)
		if err := socket.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := socket.Read(buf)
			if err != nil {
				t.Fatalf("systemd was never told %q: %v", want, err)
			}
			if strings.HasPrefix(string(buf[:n]), want) {
				return
			}
		}
	}
	expect("READY=1")
	expect("STATUS=")
	cancel()
	expect("STOPPING=1")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestOneAgentPerDirectory: the second is refused with the first one's pid, and the directory is free again after the first ended.
func TestOneAgentPerDirectory(t *testing.T) {
	opt := testOptions(t)
	a, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(opt); err == nil || !strings.Contains(err.Error(), "another agent (pid ") || !strings.Contains(err.Error(), opt.Home) {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	again, err := New(opt)
	if err != nil {
		t.Fatalf("after the first ended: %v", err)
	}
	if err := again.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedSettings(t *testing.T) {
	opt := testOptions(t)
	opt.Settings.Repository = ""
	if _, err := New(opt); err == nil || !strings.Contains(err.Error(), "give --repository URL") {
		t.Errorf("got %v", err)
	}
	opt.Settings.Repository = "ftp://example.net/fleet"
	if _, err := New(opt); err == nil || !strings.Contains(err.Error(), "ftp") {
		t.Errorf("got %v", err)
	}
	// A refusal after the lock was taken must give it back.
	opt.Settings.Repository = "/nonexistent/fleet"
	a, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
}
