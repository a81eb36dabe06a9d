package remote_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
)

func TestClientKeepsOneConnection(t *testing.T) {
	t.Parallel()
	s := remotetest.Listen(t, remotetest.Config{})
	var said bytes.Buffer
	o := options(s.Host)
	o.Log = slog.New(slog.NewTextHandler(&said, nil))
	c := remote.NewClient(o)
	defer c.Close()
	var all sync.WaitGroup
	for range 20 { // all at once: one of them connects
		all.Go(func() { run(t, c.Exec, "echo", "") })
	}
	all.Wait()
	if n := s.Conns.Load(); n != 1 {
		t.Fatalf("there were %d connections", n)
	}
	s.HangUp()
	for range 2 {
		if out, _ := run(t, c.Exec, "echo again", ""); out != "again\n" {
			t.Errorf("got %q", out)
		}
	}
	if n := s.Conns.Load(); n != 2 {
		t.Errorf("there were %d connections", n)
	}
	if !strings.Contains(said.String(), "the SSH session to "+string(s.Destination)+" is over and is opened anew: ") {
		t.Errorf("said %s", said.String())
	}
	c.Close()
	_, err := c.Exec(t.Context(), "echo")
	expect(t, err, remote.PhaseConnect, remote.KindCanceled)
}

// A handshake that is not answered is asked for once, however often it is waited for, and serves when the server wakes up.
func TestParkedHandshake(t *testing.T) {
	t.Parallel()
	d := remotetest.SSHD(t, remotetest.Config{})
	dials := &counter{}
	o := options(d.Host)
	o.Dial = dials.dial
	o.Deadlines.Handshake = 300 * time.Millisecond
	c := remote.NewClient(o)
	defer c.Close()
	d.Freeze()
	for range 5 {
		_, err := c.Exec(t.Context(), "echo")
		expect(t, err, remote.PhaseHandshake, remote.KindTimeout, "sent no SSH greeting within ")
	}
	if n := dials.count(); n != 1 {
		t.Fatalf("there were %d connections to a server that counts them", n)
	}
	d.Thaw()
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := c.Exec(t.Context(), "true")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if n := dials.count(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

// A path that is silent keeps its one handshake, while another path serves; the handshake of ten minutes is given up.
func TestParkedBesideAnotherPath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent, good := remotetest.Memory(t, remotetest.Config{}), remotetest.Memory(t, remotetest.Config{})
		silent.Behave(remotetest.Behavior{Stop: remotetest.Accept})
		good.Behave(remotetest.Behavior{Command: func(string, ssh.Channel) int { return 0 }})
		o := options(good.Host)
		o.Paths = []remote.Path{{Name: "primary", Destination: "ops@[silent.example.net]:22"}, {Name: "lan", Destination: good.Destination}}
		o.Deadlines = remote.Deadlines{}
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "silent") {
				return silent.Dial(ctx, network, address)
			}
			return good.Dial(ctx, network, address)
		}
		c := remote.NewClient(o)
		defer c.Close()
		began := time.Now()
		exec := func() {
			t.Helper()
			s, err := c.Exec(t.Context(), "true")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Wait(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		exec()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the silent path took %v", took)
		}
		good.HangUp()
		synctest.Wait()
		exec() // the parked path is not waited for again
		if took := time.Since(began); took != 10*time.Second || silent.Conns.Load() != 1 {
			t.Errorf("the second connection took %v, the silent path %d connections", took, silent.Conns.Load())
		}
		time.Sleep(11 * time.Minute)
		good.HangUp()
		synctest.Wait()
		exec()
		if n := silent.Conns.Load(); n != 2 {
			t.Errorf("the silent path had %d connections", n)
		}
		good.HangUp()
		good.Behave(remotetest.Behavior{Stop: remotetest.Authentication})
		synctest.Wait()
		_, err := c.Exec(t.Context(), "true")
		expect(t, err, remote.PhaseHandshake, remote.KindTimeout, "no SSH path of alpha answered (primary: handshake: ", "; lan: authentication: no answer within 10s)")
	})
}

// Whoever gives up leaves the handshake to the next one.
func TestGivingUpOnTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := remotetest.Memory(t, remotetest.Config{})
		s.Behave(remotetest.Behavior{Stop: remotetest.KeyExchange})
		c := remote.NewClient(options(s.Host))
		defer c.Close()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := c.Exec(ctx, "true")
			cancel()
			if e := expect(t, err, remote.PhaseHandshake, remote.KindTimeout); !errors.Is(e, context.DeadlineExceeded) {
				t.Errorf("got %v", e)
			}
		}
		if n := s.Conns.Load(); n != 1 {
			t.Errorf("there were %d connections", n)
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := c.Exec(t.Context(), "true")
			expect(t, err, remote.PhaseHandshake, remote.KindCanceled)
		})
		synctest.Wait()
		c.Close()
		waiting.Wait()
	})
}
