package remote

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Conn is one SSH connection. It is safe for concurrent use and must be closed.
type Conn struct {
	client    *ssh.Client
	deadlines Deadlines
	about     Error // what every error of it says

	ended     chan struct{} // closed when the transport has ended
	attendant sync.WaitGroup

	mu    sync.Mutex
	cause string // why this side closed it; empty while it has not
}

func newConn(client *ssh.Client, d *dialing) *Conn {
	c := &Conn{client: client, deadlines: d.options.Deadlines, ended: make(chan struct{})}
	c.about = *d.refuse(&Error{})
	c.attendant.Go(func() {
		_ = client.Wait() // whatever it says, the transport is gone
		close(c.ended)
	})
	if k := d.options.Keepalive; k.Interval > 0 {
		c.attendant.Go(func() { c.keepAlive(k) })
	}
	return c
}

// keepAlive asks the server whether it is there. A request that is not answered never returns, and keeps every other one waiting, so
// the end comes from a timer.
func (c *Conn) keepAlive(k Keepalive) {
	tick := time.NewTicker(k.Interval)
	defer tick.Stop()
	patience := time.Duration(k.Misses) * k.Interval
	for {
		select {
		case <-c.ended:
			return
		case <-tick.C:
		}
		dead := time.AfterFunc(patience, func() { c.end(sayDead(k.Misses, patience)) })
		_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil) // any answer will do, a refusal too
		dead.Stop()
		if err != nil {
			return
		}
	}
}

// end closes the transport, and with it whatever waits on it. The first reason stays.
func (c *Conn) end(cause string) {
	c.mu.Lock()
	if c.cause == "" {
		c.cause = cause
	}
	c.mu.Unlock()
	_ = c.client.Close() // it is of no more use either way
}

// Close ends the connection and everything on it.
func (c *Conn) Close() {
	c.end("closed here")
	c.attendant.Wait()
}

// alive reports that the transport has not ended, as far as is known without asking.
func (c *Conn) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// silent reports whether this side ended it, which it does when it waits in vain.
func (c *Conn) silent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause != ""
}

// why is the reason of the end.
func (c *Conn) why() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != "" {
		return c.cause
	}
	return "the other side ended it"
}

// within runs f, which waits for the server. When its time is over the connection is closed: a channel's own close would wait for the
// server as well.
func (c *Conn) within(ctx context.Context, phase Phase, d time.Duration, f func() error) error {
	late := &lateError{phase: phase, after: d}
	ctx, cancel := context.WithTimeoutCause(ctx, d, late)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.end("it was closed because a phase ran out of its time: " + late.Error()) })
	err := f()
	if stop() {
		return err
	}
	e := c.about
	e.Phase = phase
	if context.Cause(ctx) == error(late) {
		e.Kind, e.Cause, e.Err = KindTimeout, sayLate(phase, d, true), late
	} else {
		e.Kind, e.Cause, _ = gaveUp(ctx)
		e.Err = ctx.Err()
	}
	return &e
}

// deathNotice is how long the end of a session may take to be known after the end of a channel on it.
const deathNotice = 100 * time.Millisecond

func (c *Conn) failed(phase Phase, err error) *Error {
	e := c.about
	e.Phase, e.Kind, e.Cause, e.Err = phase, KindExec, strings.TrimPrefix(err.Error(), "ssh: "), err
	var missing *ssh.ExitMissingError
	if closed := errors.As(err, &missing); closed || cut(err) {
		select {
		case <-c.ended:
		case <-time.After(deathNotice):
		}
		if closed {
			e.Cause = sayNoStatus
		}
	}
	if !c.alive() {
		e.Kind, e.Cause = KindUnreachable, sayEnded(c.why())
	}
	return &e
}

// Session is one command on the host. Reading gives its output, writing feeds its input. Neither has a clock: whoever reads under a
// deadline does so inside [Session.Within].
type Session struct {
	conn    *Conn
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	words   *words
}

// Exec starts a command, which the host's shell reads. ctx bounds the start only. A host that does not answer in its time costs the
// connection.
func (c *Conn) Exec(ctx context.Context, command string) (*Session, error) {
	s := &Session{conn: c, words: &words{}}
	err := c.within(ctx, PhaseExec, c.deadlines.Exec, func() error {
		err := s.start(command)
		if err != nil {
			return c.failed(PhaseExec, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Session) start(command string) error {
	var err error
	if s.session, err = s.conn.client.NewSession(); err != nil {
		return err
	}
	s.session.Stderr = s.words
	if s.in, err = s.session.StdinPipe(); err != nil {
		return err
	}
	if s.out, err = s.session.StdoutPipe(); err != nil {
		return err
	}
	return s.session.Start(command)
}

// Read gives the command's output.
func (s *Session) Read(p []byte) (int, error) { return s.out.Read(p) }

// Write feeds the command's input.
func (s *Session) Write(p []byte) (int, error) { return s.in.Write(p) }

// CloseWrite ends the command's input.
func (s *Session) CloseWrite() error { return s.in.Close() }

// Within runs f, which reads or writes the session, as one phase. When d is over, or ctx ends, the whole connection is closed, f
// returns, and the error is an [*Error] of the phase; otherwise it is f's own.
func (s *Session) Within(ctx context.Context, phase Phase, d time.Duration, f func() error) error {
	return s.conn.within(ctx, phase, d, f)
}

// Abandon gives up a command that does not end. Only the end of the whole connection does that.
func (s *Session) Abandon() { s.conn.end("a command on it was given up") }

// Exit is how a command ended.
type Exit struct {
	Status int    // 0 for success, 128 and more by a signal
	Words  string // the end of its stderr
}

// Wait waits for the command's end. Its output must have been read, and its input closed or no longer awaited. A command that does not
// end in the time of d costs the connection. The error is an [*Error].
func (s *Session) Wait(ctx context.Context, d time.Duration) (Exit, error) {
	var exit Exit
	err := s.conn.within(ctx, PhaseExec, d, func() error {
		err := s.session.Wait()
		var status *ssh.ExitError
		if errors.As(err, &status) {
			exit.Status, err = status.ExitStatus(), nil
		}
		exit.Words = s.words.String()
		if err != nil {
			return s.conn.failed(PhaseExec, err)
		}
		return nil
	})
	return exit, err
}

// maxWords of a command's stderr are kept, from its end.
const maxWords = 4 << 10

type words struct {
	mu   sync.Mutex
	last []byte
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = append(w.last, p...)
	if over := len(w.last) - maxWords; over > 0 {
		w.last = append(w.last[:0], w.last[over:]...)
	}
	return len(p), nil
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.last)
}
