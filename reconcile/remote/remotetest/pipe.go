package remotetest

import (
	"net"
	"sync"
	"time"
)

// mailbox is the end of a pipe whose writes do not wait for the other side. Both sides of an SSH connection write before they read, which
// over a bare pipe is for ever.
type mailbox struct {
	net.Conn

	mu     sync.Mutex
	news   *sync.Cond
	queue  []byte
	closed bool
}

func newMailbox(c net.Conn) *mailbox {
	m := &mailbox{Conn: c}
	m.news = sync.NewCond(&m.mu)
	return m
}

// carry writes what was posted until the end is closed, and then closes the pipe.
func (m *mailbox) carry() {
	defer func() { _ = m.Conn.Close() }()
	for {
		m.mu.Lock()
		for len(m.queue) == 0 && !m.closed {
			m.news.Wait()
		}
		next := m.queue
		m.queue = nil
		m.mu.Unlock()
		if len(next) == 0 {
			return
		}
		if _, err := m.Conn.Write(next); err != nil {
			return
		}
	}
}

func (m *mailbox) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, net.ErrClosed
	}
	m.queue = append(m.queue, p...)
	m.news.Signal()
	return len(p), nil
}

// lingering is how long a reader may take for what was posted before the end was closed.
const lingering = time.Second

func (m *mailbox) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.news.Signal()
	_ = m.SetReadDeadline(time.Unix(1, 0))
	return m.SetWriteDeadline(time.Now().Add(lingering))
}
