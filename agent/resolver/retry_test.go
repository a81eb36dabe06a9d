package resolver

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
)

// network is what a fake machine does about listeners, in fake time.
type network struct {
	start  time.Time
	mu     sync.Mutex
	tries  []time.Duration // of the adapter's bind
	refuse int             // how many tries of it fail
	accept []error         // what its next accepts fail with
}

const fakeBind = "127.0.0.1:9000"

func (n *network) listen(_ context.Context, _, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &fakeListener{closed: make(chan struct{})}
	if address != fakeBind {
		return l, nil
	}
	n.tries = append(n.tries, time.Since(n.start))
	if len(n.tries) <= n.refuse {
		return nil, &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	if len(n.accept) > 0 {
		l.err, n.accept = n.accept[0], n.accept[1:]
	}
	return l, nil
}

type fakeListener struct {
	err    error
	once   sync.Once
	closed chan struct{}
}

func (l *fakeListener) Accept() (net.Conn, error) {
	if l.err != nil {
		return nil, l.err
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *fakeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *fakeListener) Addr() net.Addr { return &net.TCPAddr{} }

// run applies one adapter and lets fake time pass; look sees the document at every given instant.
func (n *network) run(t *testing.T, total time.Duration, at map[time.Duration]func(status.Resolver)) []time.Duration {
	synctest.Test(t, func(t *testing.T) {
		n.start = time.Now()
		r := New(Options{Log: slog.New(slog.DiscardHandler), Listen: n.listen})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		r.Apply(registry{
			generation: 1, api: "127.0.0.1:7700", adapters: []fleet.Adapter{adapterOf("web", fakeBind)},
			endpoints: map[fleet.ServiceName]string{"web": "http://127.0.0.1:8000"},
		}.snapshot(), "a1")
		for passed := time.Duration(0); passed < total; passed += 500 * time.Millisecond {
			synctest.Wait()
			if look := at[passed]; look != nil {
				var doc status.Resolver
				r.Fill(&doc)
				look(doc)
			}
			time.Sleep(500 * time.Millisecond)
		}
		cancel()
		running.Wait()
	})
	return n.tries
}

func TestUnboundIsTriedEveryRefresh(t *testing.T) {
	n := &network{refuse: 3}
	got := n.run(t, 5*time.Minute, map[time.Duration]func(status.Resolver){
		80 * time.Second: func(doc status.Resolver) {
			if doc.Listening || doc.Adapters[0].Problem == "" || !doc.API.Listening {
				t.Errorf("%+v", doc)
			}
		},
		100 * time.Second: func(doc status.Resolver) {
			if !doc.Listening || doc.Adapters[0].Problem != "" {
				t.Errorf("%+v", doc)
			}
		},
	})
	if diff := cmp.Diff([]time.Duration{0, 30 * time.Second, 60 * time.Second, 90 * time.Second}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAcceptFailureListensAgain(t *testing.T) {
	accept := func(errno syscall.Errno) error {
		return &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", errno)}
	}
	t.Run("that says nothing of its length", func(t *testing.T) {
		n := &network{accept: []error{accept(syscall.EPERM), accept(syscall.EPERM)}}
		got := n.run(t, time.Minute, map[time.Duration]func(status.Resolver){
			500 * time.Millisecond: func(doc status.Resolver) {
				if doc.State == status.StateFailed || doc.Adapters[0].Listening || doc.Adapters[0].Problem != fakeBind+" accept failed: operation not permitted; the resolver listens again shortly" {
					t.Errorf("%+v", doc)
				}
			},
		})
		if diff := cmp.Diff([]time.Duration{0, time.Second, 2 * time.Second}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("out of descriptors with nothing to shed", func(t *testing.T) {
		n := &network{accept: []error{accept(syscall.EMFILE)}}
		const sentence = fakeBind + " accept failed: Too many open files; no relay older than the 30s refresh interval could be shed " +
			"(0 held wait(s) stand on channels still opening), so the descriptors are held by something this adapter cannot free"
		got := n.run(t, time.Minute, map[time.Duration]func(status.Resolver){
			10 * time.Second: func(doc status.Resolver) {
				if doc.State != status.StateFailed || doc.Reason != sentence {
					t.Errorf("%+v", doc)
				}
			},
			40 * time.Second: func(doc status.Resolver) {
				if doc.State == status.StateFailed || !doc.Listening {
					t.Errorf("%+v", doc)
				}
			},
		})
		if diff := cmp.Diff([]time.Duration{0, 30 * time.Second}, got); diff != "" {
			t.Error(diff)
		}
	})
}
