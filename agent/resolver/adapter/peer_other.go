//go:build !linux

package adapter

import (
	"net"
	"net/netip"
	"sync/atomic"
)

// peers can tell nothing here: a client that half-closed stays unproven until its reset.
type peers struct{ own atomic.Pointer[[]netip.Addr] }

func openPeers() (*peers, error)            { return &peers{}, nil }
func (p *peers) close()                     {}
func (p *peers) diagnose(s *stream) verdict { return unknown }

// unread and unsent cannot be told here.
func (s *stream) unread() int { return 0 }
func (s *stream) unsent() int { return 0 }

func clientName(s *stream) string {
	if _, isUnix := s.Conn.(*net.UnixConn); isUnix {
		return "unix"
	}
	return s.RemoteAddr().String()
}
