package source

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// proxied names, in a process that TestThroughAProxy starts, the repository, the file of its authority and its tip.
const proxied = "STADO_TEST_PROXIED"

// An https remote is read through the proxy that the environment names: by this process, which lists, and by the child, which fetches. What
// the environment says is read once in a process, so the poll has one of its own.
func TestThroughAProxy(t *testing.T) {
	if words := strings.Fields(os.Getenv(proxied)); len(words) == 3 {
		g := poller(t, words[0])
		g.opts.Remote.CAFile = words[1]
		if o := poll(t, g, ""); o.Tip != words[2] || len(o.Steps) != 1 {
			t.Errorf("%+v", o)
		}
		return
	}
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	address, ca := server(t, backend(t, r))
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy, tunnels := tunnel(t, to.Host)
	cmd := exec.Command(os.Args[0], "-test.run=^TestThroughAProxy$")
	cmd.Env = append(os.Environ(), "HTTPS_PROXY="+proxy, "NO_PROXY=", proxied+"=https://example.com"+to.Path+" "+ca+" "+tip)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := tunnels.Load(); n < 2 {
		t.Errorf("%d connections went through the proxy, want one of each process", n)
	}
}

// tunnel is a proxy that leads to one server, wherever it is asked to lead, and counts.
func tunnel(t *testing.T, to string) (address string, tunnels *atomic.Int32) {
	t.Helper()
	tunnels = &atomic.Int32{}
	var carriers sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodConnect || req.Host != "example.com:443" {
			http.Error(w, "not to "+req.Host, http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", to)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			_ = there.Close()
			return
		}
		tunnels.Add(1)
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		for _, way := range []struct {
			to   net.Conn
			from io.Reader
		}{{there, buffered}, {here, there}} {
			carriers.Go(func() {
				_, _ = io.Copy(way.to, way.from)
				_ = way.to.Close()
			})
		}
	}))
	t.Cleanup(carriers.Wait)
	t.Cleanup(s.Close)
	return s.URL, tunnels
}
