package adapter

import (
	"net"
	"net/netip"
	"slices"
)

// verdict is what became of the program at the other end of a connection.
type verdict uint8

const (
	unknown    verdict = iota // only a reset can tell
	alive                     // it may still send
	halfClosed                // it sends no more and waits for the answer
	gone                      // nobody holds that end any more
	absent                    // there is no such end on this machine
)

// left reports that nobody is at the other end of a client's connection.
func (v verdict) left() bool { return v == gone || v == absent }

// diag is what the kernel says of the socket at the other end.
type diag struct {
	found    bool
	state    uint8
	inode    uint32 // 0: no program holds the socket
	shutdown uint8  // receiveShut and sendShut
}

// TCP states of the kernel in which a socket without an owner still waits for one: it sits in an accept queue.
const (
	tcpEstablished = 1
	tcpSynRecv     = 3
	tcpCloseWait   = 8
)

// Bits of diag.shutdown.
const (
	receiveShut = 1
	sendShut    = 2
)

// judge reads a diagnosis: closing and shutting down look the same on our socket, but not on theirs.
func (d diag) judge() verdict {
	switch {
	case !d.found:
		return absent
	case d.inode == 0 && d.state != tcpEstablished && d.state != tcpSynRecv && d.state != tcpCloseWait:
		return gone
	case d.shutdown&receiveShut != 0:
		return gone
	case d.shutdown&sendShut != 0:
		return halfClosed
	}
	return alive
}

// local reports whether the peer of a connection runs on this machine, so that its socket can be looked up here. Calling a foreign
// address local would find no socket and call a living client gone, hence only loopback, our own end's address and known interfaces.
func local(peer, ours netip.Addr, own []netip.Addr) bool {
	return peer.IsLoopback() || peer == ours || slices.Contains(own, peer)
}

// endpoints are the unmapped addresses of a TCP connection.
func endpoints(c net.Conn) (peer, ours netip.AddrPort, ok bool) {
	r, okR := c.RemoteAddr().(*net.TCPAddr)
	l, okL := c.LocalAddr().(*net.TCPAddr)
	if !okR || !okL {
		return peer, ours, false
	}
	unmap := func(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
	return unmap(r.AddrPort()), unmap(l.AddrPort()), true
}
