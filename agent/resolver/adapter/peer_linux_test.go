package adapter

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestJudge(t *testing.T) {
	const finWait1, finWait2, lastAck = 4, 5, 9
	for _, tt := range []struct {
		name string
		diag diag
		want verdict
	}{
		{"no socket", diag{}, absent},
		{"connected", diag{found: true, state: tcpEstablished, inode: 1}, alive},
		{"waiting in an accept queue", diag{found: true, state: tcpEstablished}, alive},
		{"waiting in an accept queue after our end of stream", diag{found: true, state: tcpCloseWait}, alive},
		{"shut down sending", diag{found: true, state: finWait2, inode: 1, shutdown: sendShut}, halfClosed},
		{"shut down sending, data unsent", diag{found: true, state: finWait1, inode: 1, shutdown: sendShut}, halfClosed},
		{"closed", diag{found: true, state: finWait2}, gone},
		{"killed with data unsent", diag{found: true, state: finWait1}, gone},
		{"closed after our end of stream", diag{found: true, state: lastAck}, gone},
		{"shut down both", diag{found: true, state: finWait2, inode: 1, shutdown: sendShut | receiveShut}, gone},
		{"shut down receiving", diag{found: true, state: tcpEstablished, inode: 1, shutdown: receiveShut}, gone},
	} {
		if got := tt.diag.judge(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestJudgeUnix(t *testing.T) {
	for events, want := range map[int16]verdict{
		0: alive, unix.POLLRDHUP: halfClosed, unix.POLLRDHUP | unix.POLLHUP: gone, unix.POLLERR: gone,
	} {
		if got := judgeUnix(events); got != want {
			t.Errorf("events %#x: %d, want %d", events, got, want)
		}
	}
}

func TestLocal(t *testing.T) {
	a := netip.MustParseAddr
	own := []netip.Addr{a("192.0.2.1")}
	for _, tt := range []struct {
		peer, ours netip.Addr
		want       bool
	}{
		{a("127.0.0.1"), a("127.0.0.1"), true},
		{a("127.8.8.8"), a("127.0.0.1"), true},
		{a("::1"), a("::1"), true},
		{a("198.51.100.1"), a("198.51.100.1"), true},
		{a("192.0.2.1"), a("198.51.100.1"), true},
		{a("192.0.2.2"), a("192.0.2.1"), false},
	} {
		if got := local(tt.peer, tt.ours, own); got != tt.want {
			t.Errorf("%v to %v: %v", tt.peer, tt.ours, got)
		}
	}
}

// The kernel is asked about both families, mapped addresses and a connection that is not there.
func TestLookup(t *testing.T) {
	p, err := openPeers()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, tt := range []struct{ network, listen, dial string }{
		{"tcp4", "127.0.0.1:0", "127.0.0.1"},
		{"tcp6", "[::1]:0", "::1"},
		{"tcp", "[::]:0", "127.0.0.1"},
	} {
		l, err := net.Listen(tt.network, tt.listen)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		c, err := net.Dial("tcp", net.JoinHostPort(tt.dial, port))
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		server := newStream(s)
		if got := p.diagnose(server); got != alive {
			t.Errorf("%s: connected client: %d", tt.listen, got)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		if got := p.diagnose(server); got != halfClosed {
			t.Errorf("%s: half-closed client: %d", tt.listen, got)
		}
		_ = c.Close()
		if got := p.diagnose(server); got != gone {
			t.Errorf("%s: closed client: %d", tt.listen, got)
		}
		_ = s.Close()
		if got := p.diagnose(server); got != gone {
			t.Errorf("%s: our own end is closed: %d", tt.listen, got)
		}
		_ = l.Close()
	}
	d, err := p.lookup(netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2"))
	if err != nil || d.found {
		t.Errorf("a connection that is not there: %+v, %v", d, err)
	}
	p.close()
	if _, err := p.lookup(netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without netlink: %v", err)
	}
}

func FuzzParseDiag(f *testing.F) {
	peer, ours := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("[::1]:2")
	request := diagRequest(7, peer, ours)
	f.Add(request[:])
	f.Add([]byte{})
	answer := make([]byte, unix.SizeofNlMsghdr+diagMessageSize+8)
	answer[4] = unix.SOCK_DIAG_BY_FAMILY
	answer[unix.SizeofNlMsghdr+diagMessageSize] = 5
	answer[unix.SizeofNlMsghdr+diagMessageSize+2] = diagShutdownAttr
	answer[unix.SizeofNlMsghdr+diagMessageSize+4] = 3
	f.Add(answer)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, _, err := parseDiag(b)
		if err != nil && d.found {
			t.Error("found and failed")
		}
		if len(b) < unix.SizeofNlMsghdr && err == nil {
			t.Error("a short message is an answer")
		}
	})
}

func TestParseDiagReadsTheShutdown(t *testing.T) {
	answer := make([]byte, unix.SizeofNlMsghdr+diagMessageSize+8)
	answer[4] = unix.SOCK_DIAG_BY_FAMILY
	answer[8] = 9
	answer[unix.SizeofNlMsghdr+1] = 5
	answer[unix.SizeofNlMsghdr+diagInodeOffset] = 1
	attr := answer[unix.SizeofNlMsghdr+diagMessageSize:]
	attr[0], attr[2], attr[4] = 5, diagShutdownAttr, 2
	d, seq, err := parseDiag(answer)
	if err != nil || seq != 9 || d != (diag{found: true, state: 5, inode: 1, shutdown: 2}) {
		t.Errorf("%+v, %d, %v", d, seq, err)
	}
}
