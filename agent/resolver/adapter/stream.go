package adapter

import (
	"net"
	"syscall"
	"time"
)

// stream is one end of a relay. raw is set only for plain sockets: it is how a direction waits for readability without holding anything,
// and how bytes move without passing through this process.
type stream struct {
	net.Conn
	raw syscall.RawConn
}

func newStream(c net.Conn) *stream {
	s := &stream{Conn: c}
	var plain syscall.Conn
	switch c := c.(type) {
	case *net.TCPConn:
		plain = c
	case *net.UnixConn:
		plain = c
	default:
		return s
	}
	if raw, err := plain.SyscallConn(); err == nil {
		s.raw = raw
	}
	return s
}

// closeWrite passes on the end of the other side's stream, where the connection can tell its ends apart.
func (s *stream) closeWrite() {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // a peer that is gone cannot be told
	}
}

// abort closes so that a TCP peer sees a reset instead of an orderly end.
func (s *stream) abort() {
	if c, ok := s.Conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0) // then the close is orderly, which is the most that can be had
	}
	_ = s.Close()
}

// Keepalive of a client on another machine: the only way to hear of one that vanished.
const keepAlive = 15 * time.Second

func (s *stream) keepAlive() {
	if c, ok := s.Conn.(*net.TCPConn); ok {
		_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 4})
	}
}
