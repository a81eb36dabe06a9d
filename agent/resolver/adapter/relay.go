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

	stands    atomic.Uint32 // odd while the service does not read what the client sends; even numbers count how often that ended
	seen      uint32        // stands at the last sweep
	watched   atomic.Bool
	lingering atomic.Bool // the service is gone and the client may still read what came

	mu         sync.Mutex
	phase      phase
	wait       *wait.Wait // of phase asked
	over       bool
	why        wait.Reason // once over
	clientEOF  bool        // the client's stream came to its end
	serviceEOF bool        // the service sends no more
	broken     bool        // and what it sent is not the whole
	deaf       bool        // the service reads no more
	orphan     bool        // nobody hears an answer any more, and what the client sent still goes up
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
		r.unheard(err)
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

// clientFinished hears the end of the client's stream, all of which went up. A closing and a half-closing client send the same: while an
// answer is owed the difference matters at once, afterwards the sweep tells it soon enough.
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

// clientFailed is a read from the client that failed: what it sent is not the whole. While a relay lingers, that is its own deadline.
func (r *relay) clientFailed(err error) {
	if !r.lingering.Load() {
		r.end(wait.ClientGone, err)
	}
}

// unheard is a write to the client that failed. A client that closed in order left its whole stream behind, part of which may still be on
// its way up; the answer is thrown away then, lest it stops the service.
func (r *relay) unheard(err error) {
	if !errors.Is(err, syscall.EPIPE) || !r.bereave() {
		r.end(wait.ClientGone, err)
		return
	}
	for err = nil; err == nil; {
		err = drain(r.service)
	}
	if errors.Is(err, io.EOF) {
		r.serviceFinished()
	} else {
		r.serviceFailed(err)
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
		r.linger(lingerTime)
	} else {
		r.relays.watch(r)
	}
}

// serviceFailed is a stream of the service that broke off. The client sees a reset, lest it takes the part that came for the whole; but
// first it gets that part, which may be the early answer to an upload that the service did not want to read to its end.
func (r *relay) serviceFailed(err error) {
	r.mu.Lock()
	r.serviceEOF, r.broken = true, true
	over, orphan, deaf, ph := r.over, r.orphan, r.deaf, r.phase
	r.mu.Unlock()
	switch {
	case over:
		return
	case orphan:
		r.end(wait.ClientGone, nil)
		return
	}
	r.settle(wait.ServiceGone, ph, err)
	if deaf || blocked(r.stands.Load()) || r.client.unread()+r.client.unsent() > 0 {
		r.linger(lingerTime)
	} else {
		r.linger(lingerIdle)
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

// discard follows a failed write to the service: it reads no more, but what it sent before must still reach the client, and closing
// with unread bytes of the client would destroy that on the way.
func (r *relay) discard() {
	r.mu.Lock()
	r.deaf = true
	finished, orphan := r.serviceEOF, r.orphan
	r.mu.Unlock()
	switch {
	case orphan:
		r.end(wait.ClientGone, nil)
		return
	case finished:
		r.linger(lingerTime)
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
func (r *relay) linger(d time.Duration) {
	r.lingering.Store(true)
	_ = r.client.SetReadDeadline(time.Now().Add(d)) // a closed client needs no deadline
}

// stand is told whenever the upload stops because the service does not read, and when it goes on.
func (r *relay) stand(bool) {
	if blocked(r.stands.Add(1)) {
		r.relays.watch(r)
	}
}

// blocked reads a value of relay.stands.
func blocked(stands uint32) bool { return stands%2 == 1 }

// check looks at what no read or write of the relay would tell, and reports whether there is more to look for. Only the sweep calls it.
func (r *relay) check(now time.Time) (keep bool) {
	r.mu.Lock()
	over, orphan, ph, clientEOF, serviceEOF, w := r.over, r.orphan, r.phase, r.clientEOF, r.serviceEOF, r.wait
	r.mu.Unlock()
	if over || clientEOF && serviceEOF {
		return false
	}
	stands := r.stands.Load()
	// An upload that moved since the last sweep needs no help; its end tells what became of its client.
	stuck := blocked(stands) && stands == r.seen
	r.seen = stands
	if orphan {
		if clientEOF && !r.bereave() {
			r.end(wait.ClientGone, nil)
		}
	} else if ph == opening || clientEOF || stuck {
		switch v := r.relays.peers.diagnose(r.client); {
		case v.left():
			r.clientLeft()
		case v == unknown:
			// Half-closed, unproven: it must not stand in anybody's way for longer than any wait may.
			if clientEOF && w != nil && w.IsHeld(now) && w.Exempt(now) {
				r.relays.touch()
			}
		}
	}
	// A service that is only not found may run behind a translated address; its reset tells when it is gone.
	if serviceEOF && !r.lingering.Load() && r.relays.peers.diagnose(r.service) == gone {
		r.linger(lingerTime)
	}
	return ph == opening || clientEOF || serviceEOF || blocked(stands)
}

// say publishes the list and then says a line with the endpoint, the host and the number of waits in it.
func (r *relay) say(format string, listed int) {
	k := r.adapter.key
	r.relays.announce(linePrefix+format, k.Service, k.Consumer, r.target.Address, r.target.Host, listed)
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
