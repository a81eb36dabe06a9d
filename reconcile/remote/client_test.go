package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"stado.internal/stado/fleet"
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

// A path that lets this host in and answers nothing after that is left for the next one, at once when it does not start a command, and else
// when it is asked again; a path that ended begins anew.
func TestSilentAfterTheHandshake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := remotetest.Memory(t, remotetest.Config{})
		known, err := os.OpenFile(s.KnownHosts, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = fmt.Fprintln(known, knownhosts.Line([]string{"first.example.net"}, s.HostKeys[0].PublicKey())); err != nil {
			t.Fatal(err)
		}
		if err := known.Close(); err != nil {
			t.Fatal(err)
		}
		o := options(s.Host)
		o.Paths = []remote.Path{{Name: "primary", Destination: fleet.Destination(s.User + "@first.example.net")}, {Name: "lan", Destination: s.Destination}}
		o.Deadlines = remote.Deadlines{}
		var paths [2]struct {
			conns    int
			behavior remotetest.Behavior
		}
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			p := &paths[1]
			if strings.HasPrefix(address, "first") {
				p = &paths[0]
			}
			p.conns++
			s.Behave(p.behavior)
			return s.Dial(ctx, network, address)
		}
		answers, hangs, mute := remotetest.Behavior{Command: func(string, ssh.Channel) int { return 0 }}, remotetest.Behavior{Command: remotetest.Hang}, remotetest.Behavior{Stop: remotetest.Exec}
		c := remote.NewClient(o)
		defer c.Close()
		exec := func(first, second int) error {
			t.Helper()
			paths[0].conns, paths[1].conns = 0, 0
			session, err := c.Exec(t.Context(), "true")
			if err == nil {
				_, err = session.Wait(t.Context(), time.Minute)
			}
			if paths[0].conns != first || paths[1].conns != second {
				t.Errorf("%d and %d connections, want %d and %d; %v", paths[0].conns, paths[1].conns, first, second, err)
			}
			return err
		}
		paths[0].behavior, paths[1].behavior = mute, answers
		if err := exec(1, 1); err != nil {
			t.Error(err)
		}
		if err := exec(0, 0); err != nil { // it is kept
			t.Error(err)
		}
		s.HangUp() // it did not fall silent, so the paths are tried in order
		paths[0].behavior = hangs
		synctest.Wait()
		expect(t, exec(1, 0), remote.PhaseExec, remote.KindTimeout)
		if err := exec(0, 1); err != nil {
			t.Error(err)
		}
		s.HangUp()
		paths[0].behavior, paths[1].behavior = mute, mute
		synctest.Wait()
		expect(t, exec(1, 1), remote.PhaseExec, remote.KindTimeout)
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
