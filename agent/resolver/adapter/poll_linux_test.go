package adapter

import (
	"net"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// storm sends this thread the signal that the Go runtime preempts with, as fast as it can, until the test ends.
func storm(t *testing.T) {
	runtime.LockOSThread()
	thread := unix.Gettid()
	over := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
			}
		}
	})
	t.Cleanup(func() {
		close(over)
		sender.Wait()
		runtime.UnlockOSThread()
	})
}

// A signal that arrives while the kernel is asked about a connection must not make a living client one that is gone, or an adapter one
// that somebody waits for.
func TestSignalsWhileAsking(t *testing.T) {
	l := listen(t, "")
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s := newStream(conn)
	defer s.Close()
	p, err := openPeers()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	storm(t)
	for i := range 20_000 {
		if v := p.diagnose(s); v != alive {
			t.Fatalf("after %d questions a living client is %d", i, v)
		}
		if waitedFor(l) {
			t.Fatalf("after %d questions somebody seems to wait", i)
		}
	}
}
