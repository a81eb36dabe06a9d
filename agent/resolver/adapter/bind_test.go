package adapter

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/porttest"
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
	_ = l.(*socket).UnixListener.Close()
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

// While one process binds, its socket looks dead to others: they must not remove it.
func TestBindUnixLeavesASocketThatIsBeingBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.sock")
	unlock, err := lockSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	bind := fleet.Bind{Network: "unix", Address: path}
	if _, err := Bind(context.Background(), bind, DefaultMode, nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("bound beside it: %v", err)
	}
	if err := syscall.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := Bind(context.Background(), bind, DefaultMode, nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("bound over it: %v", err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the socket is gone: %v", err)
	}
	_ = c.Close()
}

// Of several that find the same dead socket one takes its place, and keeps it.
func TestBindUnixIsWonByOne(t *testing.T) {
	bind := fleet.Bind{Network: "unix", Address: filepath.Join(t.TempDir(), "web.sock")}
	for range 200 {
		const many = 4
		won := make(chan net.Listener, many)
		var binding sync.WaitGroup
		for range many {
			binding.Go(func() {
				if l, err := Bind(context.Background(), bind, DefaultMode, nil); err == nil {
					won <- l
				} else if !errors.Is(err, syscall.EADDRINUSE) {
					t.Error(err)
				}
			})
		}
		binding.Wait()
		close(won)
		if len(won) != 1 {
			t.Fatalf("%d listen on one path", len(won))
		}
		c, err := net.Dial("unix", bind.Address)
		if err != nil {
			t.Fatalf("the one that won cannot be reached: %v", err)
		}
		_ = c.Close()
		_ = (<-won).(*socket).UnixListener.Close() // dies
	}
}

// The file of another process, which took the path meanwhile, is not ours to remove.
func TestCloseKeepsTheSocketOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.sock")
	ours, err := Bind(context.Background(), fleet.Bind{Network: "unix", Address: path}, DefaultMode, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	theirs, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// An address of one family is not one of the other, also when it stands for all.
func TestBindKeepsToItsFamily(t *testing.T) {
	for raw, reached := range map[string][2]bool{ // over 127.0.0.1, over ::1
		"0.0.0.0": {true, false}, "127.0.0.1": {true, false}, "::": {false, true}, "::1": {false, true},
	} {
		t.Run(raw, func(t *testing.T) {
			port := strconv.Itoa(porttest.Keep(t))
			bind, err := fleet.ParseBind(net.JoinHostPort(raw, port))
			if err != nil {
				t.Fatal(err)
			}
			l, err := Bind(context.Background(), bind, DefaultMode, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for i, host := range []string{"127.0.0.1", "::1"} {
				c, err := net.Dial("tcp", net.JoinHostPort(host, port))
				if err == nil {
					_ = c.Close()
				}
				if (err == nil) != reached[i] {
					t.Errorf("%s over %s: %v", raw, host, err)
				}
			}
		})
	}
	// Both families can be had side by side.
	port := strconv.Itoa(porttest.Keep(t))
	for _, raw := range []string{"0.0.0.0", "::"} {
		bind, err := fleet.ParseBind(net.JoinHostPort(raw, port))
		if err != nil {
			t.Fatal(err)
		}
		l, err := Bind(context.Background(), bind, DefaultMode, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
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
