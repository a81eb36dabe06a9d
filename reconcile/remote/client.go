package remote

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Client keeps one connection to a host. It is safe for concurrent use and must be closed.
//
// An OpenSSH server counts connections that end before their authentication, and refuses a host that has many of them. So a handshake
// that is not answered in its time is reported, and its connection left open: it is the only one of its path until it ends, and becomes
// the kept one if the server wakes up. A path that nothing listens on is not affected by that.
//
// A path that lets this host in and then falls silent, in whatever is done over it, is left for the ones after it.
type Client struct {
	options Options
	ctx     context.Context // of the attempts
	cancel  context.CancelFunc

	turn     chan struct{}    // held by whoever connects
	kept     *Conn            // nil before the first; guarded by turn
	at       int              // the path of kept; guarded by turn
	first    int              // the path that is tried first; guarded by turn
	pending  map[int]*attempt // by path; guarded by turn
	closed   bool             // guarded by turn
	attempts sync.WaitGroup
}

// parkLimit ends a handshake that was never answered. One in ten minutes is no offence to any server.
const parkLimit = 10 * time.Minute

// NewClient makes a client. It touches nothing before the first command.
func NewClient(o Options) *Client {
	c := &Client{options: o.filled(), turn: make(chan struct{}, 1), pending: map[int]*attempt{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Exec starts a command over the kept connection, making one if there is none. A kept connection that turns out to be dead is replaced
// once, and a fresh one that falls silent is left for the next path. The error is an [*Error].
func (c *Client) Exec(ctx context.Context, command string) (*Session, error) {
	for silent := 0; ; {
		conn, fresh, refused := c.connection(ctx)
		if refused != nil {
			return nil, refused
		}
		s, err := conn.Exec(ctx, command)
		if err == nil {
			return s, nil
		}
		e, ok := errors.AsType[*Error](err)
		switch {
		case !ok || ctx.Err() != nil:
			return nil, err
		case e.Kind == KindTimeout && silent+1 < len(c.options.Paths):
			silent++
		case fresh || e.Kind != KindUnreachable:
			return nil, err
		}
		conn.end("it does not answer")
	}
}

// Close ends the connection and whatever waits for one.
func (c *Client) Close() {
	c.cancel()
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.closed = true
	c.attempts.Wait()
	for i, a := range c.pending {
		a.discard()
		delete(c.pending, i)
	}
	if c.kept != nil {
		c.kept.Close()
	}
}

// connection is the kept one, or a fresh one.
func (c *Client) connection(ctx context.Context) (conn *Conn, fresh bool, _ *Error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, false, c.gaveUp(ctx)
	}
	if c.closed {
		return nil, false, c.gaveUp(c.ctx)
	}
	if c.kept != nil && c.kept.alive() {
		c.settle()
		return c.kept, false, nil
	}
	if c.kept != nil {
		c.options.Log.Warn(sayDied(c.kept.about.Destination, c.kept.why()))
		if c.first = 0; c.kept.silent() {
			c.first = c.at + 1
		}
		c.kept.Close()
		c.kept = nil
	}
	conn, err := c.connect(ctx)
	return conn, true, err
}

// settle lets go of handshakes that ended while another path serves.
func (c *Client) settle() {
	for i, a := range c.pending {
		if a.ended() {
			a.discard()
			delete(c.pending, i)
		}
	}
}

// connect tries the paths in order.
func (c *Client) connect(ctx context.Context) (*Conn, *Error) {
	conn, err := c.options.along(ctx, c.first, func(i int) (*Conn, *Error) {
		c.at = i
		a := c.pending[i]
		if a != nil && a.ended() && (a.conn == nil || !a.conn.alive()) { // nobody has waited for this end
			a.discard()
			a = nil
		}
		if a == nil {
			a = c.begin(c.options.Paths[i])
			c.pending[i] = a
		}
		conn, err, over := a.wait(ctx)
		if over {
			delete(c.pending, i)
		}
		return conn, err
	})
	c.kept = conn
	return conn, err
}

func (c *Client) gaveUp(ctx context.Context) *Error {
	kind, cause, _ := gaveUp(ctx)
	return &Error{Phase: PhaseConnect, Host: c.options.Host, Kind: kind, Cause: cause, Err: ctx.Err()}
}

// attempt is a connection on its way that outlives those who wait for it.
type attempt struct {
	dialing *dialing
	began   time.Time
	cancel  context.CancelCauseFunc

	late chan struct{} // closed when a handshake runs out of its time
	once sync.Once
	slow lateError // set before late is closed

	done chan struct{} // closed when conn and err are set
	conn *Conn
	err  *Error
}

func (c *Client) begin(p Path) *attempt {
	a := &attempt{began: time.Now(), late: make(chan struct{}), done: make(chan struct{})}
	a.dialing = newDialing(c.options, p, a.overdue)
	bounded, stop := context.WithTimeoutCause(c.ctx, parkLimit, &lateError{phase: PhaseHandshake, after: parkLimit})
	ctx, cancel := context.WithCancelCause(bounded)
	a.cancel = cancel
	c.attempts.Go(func() {
		defer stop()
		defer cancel(nil)
		a.conn, a.err = a.dialing.dial(ctx)
		close(a.done)
	})
	return a
}

// overdue ends an attempt that no server has seen yet, and only tells of a later one.
func (a *attempt) overdue(p Phase, connected bool) {
	late := lateError{phase: p, after: a.dialing.options.Deadlines.of(p)}
	if !connected {
		a.cancel(&late)
		return
	}
	a.once.Do(func() {
		a.slow = late
		close(a.late)
	})
}

func (a *attempt) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// discard closes what an ended attempt has brought.
func (a *attempt) discard() {
	if a.conn != nil {
		a.conn.Close()
	}
}

// wait gives the attempt's end, or the reason why nobody waits any longer for one that is not over.
func (a *attempt) wait(ctx context.Context) (_ *Conn, _ *Error, over bool) {
	select {
	case <-a.done:
	case <-a.late:
	case <-ctx.Done():
	}
	if a.ended() {
		return a.conn, a.err, true
	}
	if kind, cause, ok := gaveUp(ctx); ok {
		return nil, a.dialing.refuse(&Error{Phase: a.dialing.clock.now(), Kind: kind, Cause: cause, Err: ctx.Err()}), false
	}
	slow := a.slow
	if waited := time.Since(a.began).Round(time.Second); waited > 2*slow.after {
		slow.after = waited
	}
	return nil, a.dialing.refuse(&Error{Phase: slow.phase, Kind: KindTimeout, Cause: a.dialing.sayLate(&slow), Err: &slow}), false
}
