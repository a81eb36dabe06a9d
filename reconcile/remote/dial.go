package remote

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Dial makes one connection, along the first path that answers, and gives up a path when a phase runs out of its time. When ctx ends,
// what it has opened is closed at once; nothing of it is left when it returns. The error is an [*Error].
func Dial(ctx context.Context, o Options) (*Conn, error) {
	o = o.filled()
	c, err := o.along(ctx, 0, func(i int) (*Conn, *Error) { return o.dialStrictly(ctx, o.Paths[i]) })
	if err != nil {
		return nil, err
	}
	return c, nil
}

// along tries the paths in order, beginning at first, until one answers, each once by its index. Those on which the server has turned this host away are tried
// again when all have been, since what refuses on one path may be nothing that is on another one.
func (o Options) along(ctx context.Context, first int, try func(int) (*Conn, *Error)) (*Conn, *Error) {
	if len(o.Paths) == 0 {
		return nil, &Error{Phase: PhaseConnect, Host: o.Host, Kind: KindDestination, Cause: sayNoDestination(o.Host)}
	}
	errs := make([]*Error, len(o.Paths))
	for round := 0; round == 0 || slices.ContainsFunc(errs, (*Error).turnedAway) && again(ctx, round-1); round++ {
		for n := range o.Paths {
			i := (first + n) % len(o.Paths)
			if round > 0 && !errs[i].turnedAway() {
				continue
			}
			var c *Conn
			if c, errs[i] = try(i); errs[i] == nil {
				return c, nil
			}
			if ctx.Err() != nil {
				return nil, errs[i]
			}
		}
	}
	return nil, joined(o, errs)
}

func (o Options) dialStrictly(ctx context.Context, p Path) (*Conn, *Error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return newDialing(o, p, func(p Phase, _ bool) { cancel(&lateError{phase: p, after: o.Deadlines.of(p)}) }).dial(ctx)
}

// lateError is the cause of a context that a clock ended.
type lateError struct {
	phase Phase
	after time.Duration
}

func (e *lateError) Error() string { return string(e.phase) + ": no answer within " + e.after.String() }
func (e *lateError) Timeout() bool { return true }

// clock bounds the phase under way. It is safe for concurrent use.
type clock struct {
	deadlines Deadlines
	late      func(p Phase, connected bool) // called on a timer's goroutine

	mu        sync.Mutex
	phase     Phase
	connected bool // there is a connection that the server may count
	timer     *time.Timer
}

func (c *clock) begin(p Phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	connected := p != PhaseConnect && (c.connected || p == PhaseHandshake)
	c.phase, c.connected = p, connected
	c.timer = time.AfterFunc(c.deadlines.of(p), func() { c.late(p, connected) })
}

func (c *clock) now() Phase {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}

// dialing is one connection on its way along one path.
type dialing struct {
	options Options
	path    Path
	clock   clock
	trust   trust
	keys    credentials
	login   string
	address string
	heard   atomic.Bool // the server has said something
}

// newDialing prepares a connection; late is called when a phase runs out of its time.
func newDialing(o Options, p Path, late func(p Phase, connected bool)) *dialing {
	return &dialing{options: o, path: p, clock: clock{deadlines: o.Deadlines, late: late}}
}

// dial makes the connection, and ends with ctx.
func (d *dialing) dial(ctx context.Context) (*Conn, *Error) {
	d.clock.begin(PhaseConnect)
	defer d.clock.stop()
	target, err := d.path.Destination.Parse()
	if err == nil {
		d.login, err = target.Login()
	}
	if err != nil {
		return nil, d.failed(ctx, err, KindDestination)
	}
	var refused *Error
	if d.trust, refused = loadTrust(d.options.KnownHosts, target); refused != nil {
		return nil, d.refuse(refused)
	}
	d.address = d.trust.address
	// Without a key nothing is asked: an OpenSSH server counts connections that end before their authentication.
	d.clock.begin(PhaseAuthentication)
	if d.keys, err = d.options.Identity.load(ctx); err != nil {
		return nil, d.failed(ctx, err, KindIdentity)
	}
	defer d.keys.close()
	d.clock.begin(PhaseConnect)
	raw, err := d.options.Dial(ctx, "tcp", d.address)
	if err != nil {
		return nil, d.failed(ctx, err, KindUnreachable)
	}
	return d.shake(ctx, raw)
}

// An OpenSSH server at which many begin at the same instant turns some of them away at once, by chance (MaxStartups). These come back, each
// at another time.
const (
	maxTries  = 5                      // of one path
	firstWait = 200 * time.Millisecond // about; each later one is twice as long
)

// turnedAway reports that the server ended a connection before it said who it is.
func (e *Error) turnedAway() bool { return e.Phase == PhaseHandshake && e.Kind == KindUnreachable }

// again waits until a connection may be tried once more, and reports whether it may.
func again(ctx context.Context, tried int) bool {
	if tried+1 >= maxTries {
		return false
	}
	wait := time.NewTimer(time.Duration((0.5 + rand.Float64()) * float64(firstWait<<tried)))
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// shake makes an SSH connection of a network connection, which it owns.
func (d *dialing) shake(ctx context.Context, raw net.Conn) (*Conn, *Error) {
	d.clock.begin(PhaseHandshake)
	stop := context.AfterFunc(ctx, func() {
		_ = raw.Close()
		d.keys.close()
	})
	defer stop()
	var refused *Error
	conn, chans, reqs, err := ssh.NewClientConn(ear{raw, &d.heard}, d.address, &ssh.ClientConfig{
		Config: ssh.Config{
			Ciphers: []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherAES128CTR, ssh.CipherAES256CTR, ssh.CipherChaCha20Poly1305},
			// The library can block for good in a key exchange that it began itself; the server's limit begins one when it is due.
			RekeyThreshold: math.MaxInt64,
		},
		User: d.login,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(d.keys.signers...)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if refused = d.trust.check(key); refused != nil {
				return refused
			}
			d.clock.begin(PhaseAuthentication)
			return nil
		},
		HostKeyAlgorithms: d.trust.algorithms(),
	})
	if err == nil && stop() {
		return newConn(ssh.NewClient(conn, chans, reqs), d), nil
	}
	if err == nil { // the end came in the same instant
		_ = conn.Close()
		return nil, d.failed(ctx, ctx.Err(), KindCanceled)
	}
	if ctx.Err() == nil && refused != nil { // written before NewClientConn saw its error
		return nil, d.refuse(refused)
	}
	return nil, d.failedHandshake(ctx, err)
}

func (d *dialing) failedHandshake(ctx context.Context, err error) *Error {
	var mismatch *ssh.AlgorithmNegotiationError
	switch {
	case ctx.Err() != nil:
		return d.failed(ctx, err, KindCanceled)
	case errors.As(err, &mismatch) && mismatch.What == "host key" && len(d.trust.algorithms()) > 0:
		return d.refuse(d.trust.foreignTypes(mismatch))
	case cut(err):
		return d.failed(ctx, errors.New(sayCut(d.clock.now(), d.heard.Load())), KindUnreachable)
	case d.clock.now() != PhaseAuthentication:
		return d.failed(ctx, err, KindProtocol)
	case strings.Contains(err.Error(), "unable to authenticate"), strings.Contains(err.Error(), "Too many authentication failures"):
		return d.failed(ctx, errors.New(sayRefusedIdentity(d.keys.offered, d.login, d.options.Identity.File != "")), KindRefused)
	case strings.Contains(err.Error(), "ssh: disconnect"):
		return d.failed(ctx, err, KindUnreachable)
	}
	return d.failed(ctx, err, KindIdentity)
}

// cut recognizes a connection that the other side, or the network, has ended.
func cut(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || errors.As(err, &op)
}

// failed is an error of the phase under way. When ctx has ended, that is the reason.
func (d *dialing) failed(ctx context.Context, err error, kind Kind) *Error {
	e := &Error{Phase: d.clock.now(), Kind: kind, Cause: strings.TrimPrefix(err.Error(), "ssh: handshake failed: "), Err: err}
	var late *lateError
	if errors.As(context.Cause(ctx), &late) {
		e.Phase, e.Kind, e.Cause, e.Err = late.phase, KindTimeout, d.sayLate(late), late
	} else if kind, cause, ok := gaveUp(ctx); ok {
		e.Kind, e.Cause, e.Err = kind, cause, ctx.Err()
	}
	return d.refuse(e)
}

func (d *dialing) sayLate(e *lateError) string { return sayLate(e.phase, e.after, d.heard.Load()) }

// refuse completes an error with what was dialled.
func (d *dialing) refuse(e *Error) *Error {
	e.Host, e.Destination, e.Address = d.options.Host, string(d.path.Destination), d.address
	return e
}

// ear hears whether the other side says anything at all.
type ear struct {
	net.Conn
	heard *atomic.Bool
}

func (e ear) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if n > 0 {
		e.heard.Store(true)
	}
	return n, err
}
