package adapter

import (
	"io"
	"net"
	"sync"
	"testing"

	"stado.internal/stado/agent/resolver/route"
)

// The three ways to a service on this machine: no relay, this one, and a plain io.Copy each way.
func paths(b *testing.B, serve func(net.Conn)) map[string]func() net.Conn {
	g := newRig(b, rigOptions{quiet: true}, serve)
	return map[string]func() net.Conn{
		"direct": func() net.Conn { return connectTo(b, g.service.Addr()) },
		"relay":  func() net.Conn { return connectTo(b, g.adapter.listener.Addr()) },
		"iocopy": plainRelay(b, g.service.Addr()),
	}
}

func connectTo(b *testing.B, a net.Addr) net.Conn {
	c, err := net.Dial(a.Network(), a.String())
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func plainRelay(b *testing.B, service net.Addr) func() net.Conn {
	l := listen(b, "")
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				s, err := net.Dial(service.Network(), service.String())
				if err != nil {
					return
				}
				var both sync.WaitGroup
				both.Go(func() { _, _ = io.Copy(s, c); _ = s.(*net.TCPConn).CloseWrite() })
				_, _ = io.Copy(c, s)
				_ = c.(*net.TCPConn).CloseWrite()
				both.Wait()
				_ = c.Close()
				_ = s.Close()
			})
		}
	})
	b.Cleanup(func() { _ = l.Close(); conns.Wait() })
	return func() net.Conn { return connectTo(b, l.Addr()) }
}

func forEachPath(b *testing.B, serve func(net.Conn), run func(*testing.B, func() net.Conn)) {
	all := paths(b, serve)
	for _, name := range []string{"direct", "relay", "iocopy"} {
		b.Run(name, func(b *testing.B) { run(b, all[name]) })
	}
}

func BenchmarkBulkDown(b *testing.B) {
	forEachPath(b, func(c net.Conn) {
		buf := make([]byte, 256<<10)
		for {
			if _, err := c.Write(buf); err != nil {
				_ = c.Close()
				return
			}
		}
	}, func(b *testing.B, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		const chunk = 1 << 20
		buf := make([]byte, chunk)
		b.SetBytes(chunk)
		for b.Loop() {
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	forEachPath(b, answer1K, func(b *testing.B, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		request, reply := make([]byte, 128), make([]byte, 1024)
		b.ReportAllocs()
		for b.Loop() {
			if err := ask(c, request, reply); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkConnection(b *testing.B) {
	forEachPath(b, answer1K, func(b *testing.B, dial func() net.Conn) {
		request, reply := make([]byte, 128), make([]byte, 1024)
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c := dial()
				if err := ask(c, request, reply); err != nil {
					b.Error(err)
				}
				_ = c.Close()
			}
		})
	})
}

func ask(c net.Conn, request, reply []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	_, err := io.ReadFull(c, reply)
	return err
}

func answer1K(c net.Conn) {
	request, reply := make([]byte, 128), make([]byte, 1024)
	for {
		if _, err := io.ReadFull(c, request); err != nil {
			_ = c.Close()
			return
		}
		_, _ = c.Write(reply)
	}
}

// A look-up, a held check and nothing else stand between an accept and the dial.
func BenchmarkAdmission(b *testing.B) {
	g := newRig(b, rigOptions{}, echo)
	var found *route.Route
	b.ReportAllocs()
	for b.Loop() {
		if g.adapter.waits.Standing(g.relays.now()) {
			b.Fatal("held")
		}
		found = g.adapter.lookup()
	}
	_ = found
}
