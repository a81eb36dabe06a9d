package porttest

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestKeep(t *testing.T) {
	for _, at := range []struct{ network, host string }{
		{"tcp4", "127.0.0.1"}, {"tcp4", "0.0.0.0"}, {"tcp6", "::1"}, {"tcp6", "::"}, {"tcp", ""},
	} {
		port := strconv.Itoa(Keep(t))
		reach := at.host
		if strings.Trim(reach, "0.:") == "" { // any address
			reach = map[string]string{"tcp4": "127.0.0.1", "tcp6": "::1", "tcp": "127.0.0.1"}[at.network]
		}
		reach = net.JoinHostPort(reach, port)
		for range 3 {
			if _, err := net.Dial("tcp", reach); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatalf("before anybody listens at %q: %v", at.host, err)
			}
			l, err := net.Listen(at.network, net.JoinHostPort(at.host, port))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := net.Listen(at.network, net.JoinHostPort(at.host, port)); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("a second one listens at %q: %v", at.host, err)
			}
			c, err := net.Dial("tcp", reach)
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			for _, end := range []interface{ Close() error }{l, s, c} { // the port is left in TIME_WAIT
				_ = end.Close()
			}
		}
	}
}

// Whoever wants any port does not get one that is kept, though all that the kernel may give are asked for.
func TestKeptPortsAreGivenToNobody(t *testing.T) {
	limits, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(limits))
	first, _ := strconv.Atoi(f[0])
	last, _ := strconv.Atoi(f[1])
	kept := map[int]bool{}
	for range 200 {
		kept[Keep(t)] = true
	}
	given := 0
	for range 4 * (last - first) / 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []net.Addr{l.Addr(), c.LocalAddr()} {
			if kept[a.(*net.TCPAddr).Port] {
				given++
			}
		}
		_ = c.Close()
		_ = l.Close()
	}
	if given > 0 {
		t.Errorf("%d kept ports were given away", given)
	}
}
