package remote_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/porttest"
	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, start func(remotetest.Config) *remotetest.Host) {
		c, err := remote.Dial(t.Context(), options(start(remotetest.Config{})))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if out, exit := run(t, c.Exec, "cat; echo; echo done", "some input"); out != "some input\ndone\n" || exit != (remote.Exit{}) {
			t.Errorf("got %q, %+v", out, exit)
		}
		if out, exit := run(t, c.Exec, "echo out; echo err >&2; exit 3", ""); out != "out\n" || exit != (remote.Exit{Status: 3, Words: "err\n"}) {
			t.Errorf("got %q, %+v", out, exit)
		}
		long := strings.Repeat("x", 3<<20) // beyond every window
		if out, exit := run(t, c.Exec, "head -c 3145728 /dev/zero | tr '\\000' x; seq 1 5000 >&2", ""); out != long || len(exit.Words) != 4<<10 {
			t.Errorf("got %d bytes and %d of words", len(out), len(exit.Words))
		}
	})
}

func TestPathsInOrder(t *testing.T) {
	t.Parallel()
	s := remotetest.Listen(t, remotetest.Config{})
	o := options(s.Host)
	closed := fleet.Destination("ops@[127.0.0.1]:" + strconv.Itoa(porttest.Keep(t)))
	o.KnownHosts = append(o.KnownHosts, o.KnownHosts[0])
	o.Paths = remote.Paths(fleet.Host{SSH: closed, SSHFallbacks: []fleet.SSHFallback{{Name: "lan", Destination: s.Destination}}})
	c, err := remote.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()

	o.Paths = append(o.Paths[:1], remote.Path{Name: "bad", Destination: "ops@[127.0.0.1]:none"})
	e := refusal(t, o, remote.PhaseConnect, remote.KindDestination, `no SSH path of alpha answered (primary: connect: dial tcp `,
		`connection refused; bad: connect: SSH destination ops@[127.0.0.1]:none names port "none", which is not a port)`)
	if !e.Stalled() {
		t.Error("a destination that somebody must correct is no matter of waiting")
	}
	o.Paths = nil
	_, err = remote.Dial(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "the registry gives alpha no SSH destination") {
		t.Errorf("without a path: %v", err)
	}
}

// The caller's end closes a connection wherever it stands.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	for stage := remotetest.Accept; stage <= remotetest.Exec; stage++ {
		synctest.Test(t, func(t *testing.T) {
			s := remotetest.Memory(t, remotetest.Config{})
			s.Behave(remotetest.Behavior{Stop: stage})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			c, err := remote.Dial(ctx, options(s.Host))
			if err == nil {
				defer c.Close()
				_, err = c.Exec(ctx, "true")
			}
			e, ok := errors.AsType[*remote.Error](err)
			if !ok || e.Kind != remote.KindTimeout || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
				t.Errorf("stage %d: after %v: %v", stage, time.Since(began), err)
			}
			again, err := remote.Dial(canceled(t), options(s.Host))
			if e, ok := errors.AsType[*remote.Error](err); !ok || e.Kind != remote.KindCanceled || !errors.Is(err, context.Canceled) {
				t.Errorf("stage %d: with nobody waiting: %v, %v", stage, again, err)
			}
		})
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A session that falls silent is found by its keepalives and closed, and whatever waits on it returns.
func TestKeepalive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := remotetest.Memory(t, remotetest.Config{})
		s.Behave(remotetest.Behavior{Command: remotetest.Hang})
		o := options(s.Host)
		o.Keepalive = remote.Keepalive{Interval: 15 * time.Second, Misses: 3}
		c, err := remote.Dial(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		session, err := c.Exec(t.Context(), "hang")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute) // answered all the time
		s.Freeze(true)
		began := time.Now()
		if _, err := session.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("reading says %v", err)
		}
		if took := time.Since(began); took < 45*time.Second || took > time.Minute {
			t.Errorf("the end came after %v", took)
		}
		_, err = session.Wait(t.Context(), time.Minute)
		expect(t, err, remote.PhaseExec, remote.KindUnreachable, "no answer to 3 keepalives, in 45s")
	})
}
