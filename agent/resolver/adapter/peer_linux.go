package adapter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// peers looks up the other ends of connections on this machine. Its netlink socket is open from the start, so that it works when
// descriptors have run out.
type peers struct {
	own atomic.Pointer[[]netip.Addr] // addresses of this machine's interfaces

	mu  sync.Mutex
	fd  int // -1: the kernel or a sandbox refused it
	seq uint32
	buf [4096]byte
}

// openPeers never fails to give a usable value: without netlink the peers of TCP connections stay unknown.
func openPeers() (*peers, error) {
	p := &peers{fd: -1}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return p, err
	}
	// The kernel answers within the send; the limit only keeps a surprise from stopping the caller for good.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return p, errors.Join(err, unix.Close(fd))
	}
	p.fd = fd
	return p, nil
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd >= 0 {
		_ = unix.Close(p.fd)
		p.fd = -1
	}
}

// diagnose tells what became of the program at the other end.
func (p *peers) diagnose(s *stream) verdict {
	if s.raw == nil {
		return unknown
	}
	events, err := poll(s.raw, unix.POLLRDHUP)
	if err != nil {
		return gone // our own end is closed
	}
	if _, isUnix := s.Conn.(*net.UnixConn); isUnix {
		return judgeUnix(events)
	}
	if events&(unix.POLLERR|unix.POLLHUP) != 0 {
		return gone // a reset came in
	}
	peer, ours, ok := endpoints(s.Conn)
	var own []netip.Addr
	if known := p.own.Load(); known != nil {
		own = *known
	}
	if !ok || peer.Addr().Zone() != "" || !local(peer.Addr(), ours.Addr(), own) {
		return unknown
	}
	d, err := p.lookup(peer, ours)
	if err != nil {
		return unknown
	}
	return d.judge()
}

// judgeUnix: the kernel marks both ends of a socket whose peer closed, and only the receiving one when it shut down its sending side.
func judgeUnix(events int16) verdict {
	switch {
	case events&(unix.POLLERR|unix.POLLHUP) != 0:
		return gone
	case events&unix.POLLRDHUP != 0:
		return halfClosed
	}
	return alive
}

// unread counts the bytes that came and were not read, unsent those that were written and not taken by the peer's end. Both are 0 where
// that cannot be told.
func (s *stream) unread() int { return s.queue(unix.SIOCINQ) }
func (s *stream) unsent() int { return s.queue(unix.SIOCOUTQ) }

func (s *stream) queue(which uint) (n int) {
	if s.raw != nil {
		_ = s.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), which) }) // a closed socket has no queue
	}
	return n
}

// Layout of the messages (linux/inet_diag.h).
const (
	diagRequestSize  = unix.SizeofNlMsghdr + 56
	diagMessageSize  = 72
	diagInodeOffset  = 68
	diagShutdownAttr = 8 // INET_DIAG_SHUTDOWN
	diagAllStates    = 0xffffffff
)

// lookup asks for the one socket whose own end is peer and whose other end is ours.
func (p *peers) lookup(peer, ours netip.AddrPort) (diag, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd < 0 {
		return diag{}, errors.ErrUnsupported
	}
	p.seq++
	request := diagRequest(p.seq, peer, ours)
	if err := unix.Sendto(p.fd, request[:], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return diag{}, err
	}
	for {
		n, _, err := unix.Recvfrom(p.fd, p.buf[:], 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return diag{}, err
		}
		d, seq, err := parseDiag(p.buf[:n])
		if err == nil && seq != p.seq {
			continue // a late answer to an earlier question
		}
		return d, err
	}
}

func diagRequest(seq uint32, peer, ours netip.AddrPort) [diagRequestSize]byte {
	var b [diagRequestSize]byte
	native := binary.NativeEndian
	native.PutUint32(b[0:], diagRequestSize)
	native.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	native.PutUint32(b[8:], seq)
	body := b[unix.SizeofNlMsghdr:]
	body[0] = unix.AF_INET
	if peer.Addr().Is6() {
		body[0] = unix.AF_INET6
	}
	body[1] = unix.IPPROTO_TCP
	body[2] = 1 << (diagShutdownAttr - 1)
	native.PutUint32(body[4:], diagAllStates)
	binary.BigEndian.PutUint16(body[8:], peer.Port())
	binary.BigEndian.PutUint16(body[10:], ours.Port())
	copy(body[12:28], peer.Addr().AsSlice())
	copy(body[28:44], ours.Addr().AsSlice())
	native.PutUint32(body[48:], 0xffffffff) // no cookie
	native.PutUint32(body[52:], 0xffffffff)
	return b
}

// parseDiag reads the answer to a lookup.
func parseDiag(b []byte) (d diag, seq uint32, err error) {
	native := binary.NativeEndian
	if len(b) < unix.SizeofNlMsghdr {
		return d, 0, errors.New("netlink message is too short")
	}
	kind, seq := native.Uint16(b[4:]), native.Uint32(b[8:])
	body := b[unix.SizeofNlMsghdr:]
	switch {
	case kind == unix.NLMSG_ERROR && len(body) >= 4:
		errno := unix.Errno(-int32(native.Uint32(body)))
		if errno == unix.ENOENT {
			return d, seq, nil
		}
		return d, seq, errno
	case kind != unix.SOCK_DIAG_BY_FAMILY || len(body) < diagMessageSize:
		return d, seq, fmt.Errorf("netlink message of type %d with %d bytes", kind, len(body))
	}
	d = diag{found: true, state: body[1], inode: native.Uint32(body[diagInodeOffset:])}
	for attrs := body[diagMessageSize:]; len(attrs) >= unix.SizeofRtAttr; {
		size, of := int(native.Uint16(attrs)), native.Uint16(attrs[2:])
		if size < unix.SizeofRtAttr || size > len(attrs) {
			break
		}
		if of == diagShutdownAttr && size > unix.SizeofRtAttr {
			d.shutdown = attrs[unix.SizeofRtAttr]
		}
		attrs = attrs[min((size+3)&^3, len(attrs)):]
	}
	return d, seq, nil
}

// clientName is how operators know a client: its address, or the process behind a unix socket.
func clientName(s *stream) string {
	if _, isUnix := s.Conn.(*net.UnixConn); !isUnix || s.raw == nil {
		return s.RemoteAddr().String()
	}
	name := "unix"
	_ = s.raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			name = fmt.Sprintf("unix pid %d uid %d", cred.Pid, cred.Uid)
		}
	})
	return name
}
