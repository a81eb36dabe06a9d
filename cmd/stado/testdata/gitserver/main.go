// Command gitserver serves a folder of repositories over https with git's own HTTP server, as a process of its own, so that a benchmark
// can tell its work from the reader's. It prints its address, another one that says how many bytes have gone over connections to the
// first, and the file with its certificate.
package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
)

type listener struct {
	net.Listener
	bytes *atomic.Int64
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return conn{c, l.bytes}, err
}

type conn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

func main() {
	folder := os.Args[1]
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		log.Fatal(err)
	}
	var bytes atomic.Int64
	git := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + folder, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null"},
	}
	s := httptest.NewUnstartedServer(git)
	s.Listener = listener{s.Listener, &bytes}
	s.StartTLS()
	ca := filepath.Join(folder, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		log.Fatal(err)
	}
	count := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, bytes.Load()) }))
	fmt.Println(s.URL, count.URL, ca)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark ends
}
