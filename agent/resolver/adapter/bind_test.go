package adapter

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"stado.internal/stado/fleet"
)

func TestBindUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.sock")
	bind := fleet.Bind{Network: "unix", Address: path}
	open := func(mode fs.FileMode) (net.Listener, error) { return Bind(context.Background(), bind, mode, nil) }
	for _, mode := range []fs.FileMode{DefaultMode, 0o666} {
		l, err := open(mode)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if _, err := open(mode); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a live socket is taken over: %v", err)
		}
		_ = l.Close()
	}
	// A dead process leaves its file behind.
	l, err := open(DefaultMode)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if l, err = open(DefaultMode); err != nil {
		t.Fatalf("a stale socket stands in the way: %v", err)
	}
	_ = l.Close()
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(DefaultMode); !errors.Is(err, errNotSocket) {
		t.Errorf("a file is taken for a socket: %v", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "data" {
		t.Error("the file is gone")
	}
}

// The permission holds from the first instant: it is the socket's before it has a name.
func TestBindUnixIsNeverWider(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.sock")
	var seen fs.FileMode
	_, err := Bind(context.Background(), fleet.Bind{Network: "unix", Address: path}, 0o600, func(ctx context.Context, network, address string) (net.Listener, error) {
		config := net.ListenConfig{Control: fileMode(0o600)}
		l, err := config.Listen(ctx, network, address)
		if err != nil {
			return nil, err
		}
		info, err := os.Lstat(path)
		seen = info.Mode().Perm()
		return nil, errors.Join(err, l.Close(), errors.New("seen"))
	})
	if err == nil || seen != 0o600 {
		t.Errorf("mode %v before the change of mode, %v", seen, err)
	}
}

func TestParseMode(t *testing.T) {
	for in, want := range map[string]fs.FileMode{"": 0o600, "0660": 0o660, "666": 0o666} {
		if got, err := ParseMode(in); err != nil || got != want {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"rw", "0999", "01777", "-1"} {
		if _, err := ParseMode(in); err == nil {
			t.Errorf("%q is a mode", in)
		}
	}
}
