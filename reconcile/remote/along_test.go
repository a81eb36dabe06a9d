package remote_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
)

// reach makes one connection to a host, as those do who come once and those who come back.
var reach = map[string]func(context.Context, remote.Options) error{
	"once": func(ctx context.Context, o remote.Options) error {
		c, err := remote.Dial(ctx, o)
		if err != nil {
			return err
		}
		c.Close()
		return nil
	},
	"client": func(ctx context.Context, o remote.Options) error {
		c := remote.NewClient(o)
		defer c.Close()
		s, err := c.Exec(ctx, "true")
		if err != nil {
			return err
		}
		_, err = s.Wait(ctx, time.Minute)
		return err
	},
}

// What ends connections before they begin on one path, a dead forwarder as much as a server with a crowd before it, does not keep the next
// path waiting; it is come back to when every path was tried.
func TestTurnedAwayOnOnePath(t *testing.T) {
	t.Parallel()
	for name, connect := range reach {
		synctest.Test(t, func(t *testing.T) {
			forwarder, good := remotetest.Memory(t, remotetest.Config{}), remotetest.Memory(t, remotetest.Config{})
			good.Behave(remotetest.Behavior{Command: func(string, ssh.Channel) int { return 0 }})
			forwarder.Behave(remotetest.Behavior{Stop: remotetest.Accept, Cut: true})
			o := options(good.Host)
			o.Paths = []remote.Path{{Name: "primary", Destination: "ops@[forwarder.example.net]:22"}, {Name: "lan", Destination: good.Destination}}
			var lan atomic.Int64 // connections on the second path
			var up atomic.Int64  // from which one on the second path is served
			o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if strings.HasPrefix(address, "forwarder") {
					return forwarder.Dial(ctx, network, address)
				}
				if lan.Add(1) < up.Load() {
					return forwarder.Dial(ctx, network, address)
				}
				return good.Dial(ctx, network, address)
			}
			began := time.Now()
			if err := connect(t.Context(), o); err != nil || time.Since(began) > 0 || lan.Load() != 1 || forwarder.Conns.Load() != 1 {
				t.Errorf("%s: %v after %s, %d and %d connections", name, err, time.Since(began), forwarder.Conns.Load(), lan.Load())
			}
			lan.Store(0)
			up.Store(3)
			forwarder.Conns.Store(0)
			if err := connect(t.Context(), o); err != nil || lan.Load() != 3 || forwarder.Conns.Load() != 3+2 {
				t.Errorf("%s: %v; %d connections on the second path", name, err, lan.Load())
			}
			lan.Store(0)
			up.Store(100)
			err := connect(t.Context(), o)
			expect(t, err, remote.PhaseHandshake, remote.KindUnreachable, "no SSH path of alpha answered (primary: handshake: ", "; lan: handshake: ")
			if lan.Load() != 5 {
				t.Errorf("%s: %d connections on the second path", name, lan.Load())
			}
			began = time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := connect(ctx, o); err == nil || time.Since(began) != 50*time.Millisecond {
				t.Errorf("%s: the caller's end is seen after %s: %v", name, time.Since(began), err)
			}
		})
	}
}
