package adapter

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/agent/resolver/wait"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
)

// phase is how far a connection came; see the package comment.
type phase uint8

const (
	opening phase = iota
	quiet
	asked
	answered
)

// relay is one accepted connection, from its accept to its end.
type relay struct {
	adapter  *Adapter
	relays   *Relays
	client   *stream
	name     string // of the client, once asked for
	protocol fleet.Protocol
	cancel   context.CancelFunc // ends a dial that did not answer

	service *stream          // set before the phase leaves opening
	target  *route.Candidate // likewise
	began   time.Time

	blocked   atomic.Bool // the service does not read what the client sends
	watched   atomic.Bool
	lingering atomic.Bool // the service is gone and the client may still read what came

	mu         sync.Mutex
	phase      phase
	wait       *wait.Wait // of phase asked
	over       bool
	why        wait.Reason // once over
	clientEOF  bool        // the client sends no more
	serviceEOF bool        // the service sends no more
	deaf       bool        // the service reads no more
}

// run relays until both ends are done. The upload runs on the caller's goroutine, the download on one of its own that ends with it.
func (r *relay) run() {
	var down sync.WaitGroup
	down.Go(r.down)
	r.up()
	down.Wait()
	r.end(wait.ServiceGone, nil)
}

func (r *relay) up() {
	d := direction{from: r.client, to: r.service, shared: r.relays.copying, first: r.sent, blocked: r.stand}
	switch where, err := d.run(); {
	case where == source && err == nil:
		r.clientFinished()
	case where == source:
		r.clientFailed(err)
	case where == sink:
		r.discard()
	}
}

func (r *relay) down() {
	d := direction{from: r.service, to: r.client, shared: r.relays.copying, first: r.came}
	switch where, err := d.run(); {
	case where == source && err == nil:
		r.serviceFinished()
	case where == source:
		r.serviceFailed(err)
	case where == sink:
		r.clientFailed(err)
	}
}

// sent runs before the client's first bytes go up: from here the service owes an answer.
func (r *relay) sent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	if r.phase == quiet && !r.serviceEOF {
		r.phase = asked
		var listed int
		r.wait, listed = r.adapter.waits.Begin(r.entry(status.PhaseAnswer), r.relays.now())
		r.say(lineSent, listed)
	}
	return true
}

// came runs before the service's first bytes go down.
func (r *relay) came() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	if r.phase == asked {
		if ended, listed := r.wait.End(wait.Answered); ended {
			r.say(lineAnswered, listed)
		}
	}
	r.phase = answered
	return true
}

func (r *relay) entry(p status.Phase) wait.Entry {
	if r.name == "" {
		r.name = clientName(r.client)
	}
	e := wait.Entry{Client: r.name, Host: r.target.Host, Endpoint: r.target.Address, Phase: p}
	if p == status.PhaseAnswer {
		e.Shed = r.shed
	}
	return e
}

// clientFinished hears the end of the client's stream, which a closing and a half-closing client send alike. While an answer is owed the
// difference matters at once, afterwards the sweep tells it soon enough.
func (r *relay) clientFinished() {
	r.mu.Lock()
	r.clientEOF = true
	owed, done := r.phase == asked, r.over || r.serviceEOF
	r.mu.Unlock()
	switch {
	case done:
		return
	case owed && r.relays.peers.diagnose(r.client).left():
		r.end(wait.ClientGone, nil)
		return
	}
	r.service.closeWrite()
	r.relays.watch(r)
}

// clientFailed is a read from or a write to the client that failed. While a relay lingers, that is its own deadline.
func (r *relay) clientFailed(err error) {
	if !r.lingering.Load() {
		r.end(wait.ClientGone, err)
	}
}

// serviceFinished hears the end of the service's stream. Bytes of the client still go up: the service may have shut down its sending
// side only.
func (r *relay) serviceFinished() {
	r.mu.Lock()
	r.serviceEOF = true
	done, deaf := r.over || r.clientEOF, r.deaf
	failed := r.phase == asked && !r.over
	r.mu.Unlock()
	if failed {
		r.unanswered(errNoAnswer)
	}
	if done {
		return
	}
	r.client.closeWrite()
	if deaf {
		r.linger()
	} else {
		r.relays.watch(r)
	}
}

// errNoAnswer is the end of a service's stream before it sent anything.
var errNoAnswer = errors.New("the service closed the connection before an answer")

// unanswered ends the wait of a request that no answer can come to any more.
func (r *relay) unanswered(cause error) {
	if ended, listed := r.wait.End(wait.ServiceGone); ended {
		r.say(lineEnded, listed)
		r.rejected(cause)
	}
}

func (r *relay) rejected(cause error) {
	r.relays.log.Warn(sayRejected(r.adapter.key, r.target.Address, plain(cause), r.relays.now().Sub(r.began)))
}

// serviceFailed is a reset by the service. The client sees one too, lest it takes the part that came for the whole; unless its own
// unread upload is what the service answered with a reset, for then the answer is complete.
func (r *relay) serviceFailed(err error) {
	r.mu.Lock()
	r.serviceEOF = true
	over, deaf := r.over, r.deaf
	r.mu.Unlock()
	switch {
	case over:
	case deaf:
		r.client.closeWrite()
		r.linger()
	default:
		r.end(wait.ServiceGone, err)
	}
}

// discard follows a failed write to the service: it reads no more, but what it sent before must still reach the client, and closing
// with unread bytes of the client would destroy that on the way.
func (r *relay) discard() {
	r.mu.Lock()
	r.deaf = true
	finished := r.serviceEOF
	r.mu.Unlock()
	if finished {
		r.linger()
	}
	for {
		err := drain(r.client)
		switch {
		case errors.Is(err, io.EOF):
			r.clientFinished()
			return
		case err != nil:
			r.clientFailed(err)
			return
		case r.lingering.Load():
			return // told, and given enough time to hear it
		}
	}
}

// linger gives a client whose service is gone a moment to read what came and to close. It is not a clock on a relay: nobody is left to
// relay to.
func (r *relay) linger() {
	r.lingering.Store(true)
	_ = r.client.SetReadDeadline(time.Now().Add(lingerTime)) // a closed client needs no deadline
}

// stand is told whenever the upload stops because the service does not read, and when it goes on.
func (r *relay) stand(blocked bool) {
	r.blocked.Store(blocked)
	if blocked {
		r.relays.watch(r)
	}
}

// check looks at what no read or write of the relay would tell, and reports whether there is more to look for.
func (r *relay) check(now time.Time) (keep bool) {
	r.mu.Lock()
	over, ph, clientEOF, serviceEOF, w := r.over, r.phase, r.clientEOF, r.serviceEOF, r.wait
	r.mu.Unlock()
	if over || clientEOF && serviceEOF {
		return false
	}
	blocked := r.blocked.Load()
	if ph == opening || clientEOF || blocked {
		switch v := r.relays.peers.diagnose(r.client); {
		case v.left():
			r.end(wait.ClientGone, nil)
			return false
		case v == unknown:
			// Half-closed, unproven: it must not stand in anybody's way for longer than any wait may.
			if clientEOF && w != nil && w.IsHeld(now) && w.Exempt() {
				r.relays.touch()
			}
		}
	}
	// A service that is only not found may run behind a translated address; its reset tells when it is gone.
	if serviceEOF && !r.lingering.Load() && r.relays.peers.diagnose(r.service) == gone {
		r.linger()
	}
	return ph == opening || clientEOF || serviceEOF || blocked
}

// end ends the relay once: the place is given back and published before anything is waited for.
func (r *relay) end(why wait.Reason, cause error) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.over, r.why = true, why
	ph := r.phase
	if ph == opening {
		r.mu.Unlock()
		r.cancel() // the dialer ends the wait, and says so
		return
	}
	r.mu.Unlock()
	r.settle(why, ph, cause)
	reset := errors.Is(cause, syscall.ECONNRESET)
	closeAs(r.service, reset && why == wait.ClientGone)
	closeAs(r.client, reset && why == wait.ServiceGone)
}

// settle ends the wait of a relay that is over, with the line that tells why.
func (r *relay) settle(why wait.Reason, ph phase, cause error) {
	switch {
	case ph == asked && why == wait.ClientGone:
		if ended, listed := r.wait.End(why); ended {
			r.say(lineAbandoned, listed)
		}
	case ph == asked && why == wait.ServiceGone && cause != nil:
		r.unanswered(cause)
	case ph == asked:
		if ended, listed := r.wait.End(why); ended {
			r.say(lineEnded, listed)
		}
	case why == wait.ServiceGone && cause != nil:
		r.rejected(cause)
	}
}

// shed ends a relay whose wait the ledger has already given up, with a last word to its client. Nothing came down yet, so an answer of
// our own fits, and the request was read, so the close is clean.
func (r *relay) shed(sentence string) {
	r.mu.Lock()
	if r.over || r.phase != asked {
		r.mu.Unlock()
		return
	}
	r.over, r.why = true, wait.Shed
	r.mu.Unlock()
	if r.protocol == fleet.ProtocolHTTP {
		_ = r.client.SetWriteDeadline(time.Now().Add(refusalTime))
		_, _ = r.client.Write(badGateway(sentence))
		r.client.closeWrite()
		_ = r.client.Close()
	} else {
		r.client.abort()
	}
	_ = r.service.Close()
}

// say publishes the list and then says a line with the endpoint, the host and the number of waits in it.
func (r *relay) say(format string, listed int) {
	k := r.adapter.key
	r.relays.announce(linePrefix+format, k.Service, k.Consumer, r.target.Address, r.target.Host, listed)
}

func closeAs(s *stream, reset bool) {
	if reset {
		s.abort()
		return
	}
	_ = s.Close()
}

// plain is the cause without Go's account of the operation and the addresses around it.
func plain(err error) error {
	var errno syscall.Errno
	var op *net.OpError
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.Is(err, io.EOF):
		return errNoAnswer
	case errors.As(err, &op):
		return op.Err
	}
	return err
}
