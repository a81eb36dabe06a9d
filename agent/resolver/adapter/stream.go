package adapter

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// stream is one end of a relay. raw is set only for plain sockets: it is how a direction waits for readability without holding anything,
// and how bytes move without passing through this process.
type stream struct {
	net.Conn
	raw syscall.RawConn

	writing sync.Mutex // one write, together with keeping its error
	failed  error      // of the first write that failed
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

// resets reports whether the peer can tell an abort from an orderly close.
func (s *stream) resets() bool {
	_, ok := s.Conn.(*net.TCPConn)
	return ok
}

// keep remembers why a write failed; the caller holds writing.
func (s *stream) keep(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// severed tells the end of a stream from a connection that broke. A socket reports a reset once: when a write gets it, the reader finds
// an end that looks orderly. EPIPE says that the end came first, so that the stream is whole.
func (s *stream) severed() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if errors.Is(s.failed, syscall.EPIPE) {
		return nil
	}
	return s.failed
}

// Keepalive of a client on another machine: the only way to hear of one that vanished.
const keepAlive = 15 * time.Second

func (s *stream) keepAlive() {
	if c, ok := s.Conn.(*net.TCPConn); ok {
		_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 4})
	}
}
