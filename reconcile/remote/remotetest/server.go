package remotetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Stage is where a server in this process stops to take part.
type Stage int

// The stages, in order. Each is reached after the one before has gone well.
const (
	Never          Stage = iota
	Accept               // the connection is taken, nothing is said
	Greeting             // the greeting is sent, nothing after it
	KeyExchange          // the key exchange is begun and not finished
	Authentication       // the user's key is not answered
	Channel              // a channel is not opened
	Exec                 // a command is not answered
)

// Behavior is how a server treats connections.
type Behavior struct {
	Stop Stage // where it stops
	Cut  bool  // it then hangs up instead of falling silent
	// Command runs a command and gives its exit status; nil is the shell of this machine.
	Command func(command string, c ssh.Channel) int
}

// Server is an SSH server in this process.
type Server struct {
	*Host
	// Conns counts the connections that were made.
	Conns atomic.Int32

	config   Config
	settings *ssh.ServerConfig
	work     sync.WaitGroup

	mu       sync.Mutex
	behavior Behavior
	open     map[net.Conn]*line // nil when the server is closed
}

// Behave says how connections are treated from now on.
func (s *Server) Behave(b Behavior) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behavior = b
}

// Memory starts a server that is reached through its Dial alone, over pipes: it fits into a testing/synctest bubble.
func Memory(t testing.TB, c Config) *Server {
	t.Helper()
	s := newServer(t, c, newHost(t, c, "ops", "authority.example.net", 2222))
	s.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		ours, theirs := net.Pipe()
		box := newMailbox(theirs)
		s.work.Go(box.carry)
		s.take(box)
		return ours, nil
	}
	t.Cleanup(s.Close)
	return s
}

// Listen starts a server on a port of the loopback interface.
func Listen(t testing.TB, c Config) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, c, newHost(t, c, "ops", "127.0.0.1", l.Addr().(*net.TCPAddr).Port))
	s.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.take(conn)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.Close()
	})
	return s
}

func newServer(t testing.TB, c Config, h *Host) *Server {
	t.Helper()
	s := &Server{Host: h, config: c, open: map[net.Conn]*line{}}
	s.settings = &ssh.ServerConfig{PublicKeyCallback: s.judge}
	for _, k := range h.HostKeys {
		s.settings.AddHostKey(k.Signer)
	}
	if cert := c.hostCertificate(t, h); cert != nil {
		signer, err := ssh.NewCertSigner(cert, h.HostKeys[0].Signer)
		if err != nil {
			t.Fatal(err)
		}
		s.settings.AddHostKey(signer)
	}
	return s
}

// Close hangs up everywhere and waits for what the server has begun.
func (s *Server) Close() {
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.work.Wait()
}

// HangUp ends every connection.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Close()
	}
}

// Freeze silences every connection that is open now, or lets it speak again; what was to be said meanwhile is lost.
func (s *Server) Freeze(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.open {
		l.freeze(on)
	}
}

func (s *Server) take(conn net.Conn) {
	s.Conns.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		_ = conn.Close()
		return
	}
	l := &line{Conn: conn, behavior: s.behavior}
	s.open[conn] = l
	s.work.Go(func() {
		s.serve(l)
		_ = conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, conn)
	})
}

func (s *Server) judge(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	if cert, ok := key.(*ssh.Certificate); ok && s.config.UserAuthority != nil {
		checker := ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool { return same(k, s.config.UserAuthority.PublicKey()) }}
		return checker.Authenticate(meta, cert)
	}
	if s.config.UserAuthority == nil && same(key, s.Key.PublicKey()) {
		return &ssh.Permissions{}, nil
	}
	return nil, errors.New("who are you")
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// The writes of a server before its part of the key exchange: the greeting, and the list of its algorithms.
const (
	afterGreeting = 1
	afterProposal = 2
)

func (s *Server) serve(l *line) {
	settings := *s.settings
	switch l.behavior.Stop {
	case Accept:
		l.stop(0)
	case Greeting:
		l.stop(afterGreeting)
	case KeyExchange:
		l.stop(afterProposal)
	case Authentication:
		settings.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			l.stop(0)
			return nil, errors.New("nobody hears this")
		}
	default:
	}
	if !l.greet() {
		return
	}
	_, channels, requests, err := ssh.NewServerConn(l, &settings)
	if err != nil {
		_, _ = io.Copy(io.Discard, l.Conn) // silence lasts until the client leaves
		return
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { ssh.DiscardRequests(requests) })
	for c := range channels {
		if l.behavior.Stop == Channel {
			l.stop(0)
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			continue
		}
		work.Go(func() { l.session(channel, requests) })
	}
}

func (l *line) session(c ssh.Channel, requests <-chan *ssh.Request) {
	var work sync.WaitGroup
	defer work.Wait()
	for r := range requests {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		if l.behavior.Stop == Exec {
			l.stop(0)
			continue
		}
		var payload struct{ Command string }
		_ = ssh.Unmarshal(r.Payload, &payload)
		_ = r.Reply(true, nil)
		run := l.behavior.Command
		if run == nil {
			run = shell
		}
		work.Go(func() {
			status := run(payload.Command, c)
			_, _ = c.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
			_ = c.Close()
		})
	}
}

func shell(command string, c ssh.Channel) int {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr = c, c.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 127
	}
	var feeding sync.WaitGroup
	feeding.Go(func() {
		_, _ = io.Copy(in, c)
		_ = in.Close()
	})
	err = cmd.Wait()
	_ = c.CloseWrite()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// Hang is a command that says nothing for as long as the client stays.
func Hang(_ string, c ssh.Channel) int {
	_, _ = io.Copy(io.Discard, c)
	return 0
}

// line is the server's end of a connection, which can fall silent: writes then go nowhere.
type line struct {
	net.Conn
	behavior Behavior
	in       *bufio.Reader

	mu      sync.Mutex
	limited bool
	left    int // writes that still go out
}

// stop silences the line after so many more writes.
func (l *line) stop(after int) {
	l.mu.Lock()
	l.limited, l.left = true, after
	l.mu.Unlock()
	if after == 0 && l.behavior.Cut {
		_ = l.Close()
	}
}

func (l *line) freeze(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limited, l.left = on, 0
}

// greet waits for the client's greeting before anything is said: over a pipe two sides that both begin by writing wait for ever.
func (l *line) greet() bool {
	l.in = bufio.NewReader(l.Conn)
	for n := 1; ; n = l.in.Buffered() + 1 {
		if _, err := l.in.Peek(n); err != nil {
			return false
		}
		if b, _ := l.in.Peek(l.in.Buffered()); bytes.IndexByte(b, '\n') >= 0 {
			return true
		}
	}
}

func (l *line) Read(p []byte) (int, error) { return l.in.Read(p) }

func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	mute := l.limited && l.left == 0
	if l.limited && l.left > 0 {
		l.left--
	}
	l.mu.Unlock()
	switch {
	case mute && l.behavior.Cut:
		_ = l.Close()
		return 0, net.ErrClosed
	case mute:
		return len(p), nil
	}
	return l.Conn.Write(p)
}
