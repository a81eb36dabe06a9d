package adapter

import (
	"time"

	"stado.internal/stado/agent/resolver/wait"
	"stado.internal/stado/fleet"
)

// clientLeft gives back the place of a client that is gone.
func (r *relay) clientLeft() {
	if !r.bereave() {
		r.end(wait.ClientGone, nil)
		return
	}
	r.mu.Lock()
	ph := r.phase
	r.mu.Unlock()
	r.settle(wait.ClientGone, ph, nil)
}

// bereave says that the client is gone, and reports whether the relay goes on without it: what a client sent before it left still goes
// up, for as long as that takes. A request that is owed an answer is abandoned instead, unless the service could not tell that it is cut
// off.
func (r *relay) bereave() (drains bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over || r.deaf || r.phase == opening:
	case r.clientEOF:
		// A close while the service still sends is a reset, which destroys what the service's end has not taken yet.
		drains = r.phase != asked && r.service.unsent() > 0
	default:
		drains = r.phase != asked || !r.service.resets()
	}
	r.orphan = r.orphan || drains
	return drains
}

// idleOrphan reports whether the relay holds its descriptors for an upload that nobody reads and nobody waits for.
func (r *relay) idleOrphan() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orphan && !r.over && (r.clientEOF || blocked(r.stands.Load()))
}

// end ends the relay once: the place is given back and published before anything is waited for. An end whose stream did not come whole
// sees a reset and not an orderly close, which it would take for the end of that stream.
func (r *relay) end(why wait.Reason, cause error) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.over, r.why = true, why
	ph, delivered, heard := r.phase, r.deliveredLocked(), r.serviceEOF && !r.broken
	r.mu.Unlock()
	if ph == opening {
		r.cancel() // the dialer ends the wait, and says so
		return
	}
	r.settle(why, ph, cause)
	closeAs(r.service, !delivered)
	closeAs(r.client, !heard)
}

// deliveredLocked reports whether all that the client ever sends went up.
func (r *relay) deliveredLocked() bool { return r.clientEOF && !r.deaf }

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
	delivered := r.deliveredLocked()
	r.mu.Unlock()
	if r.protocol == fleet.ProtocolHTTP {
		_ = r.client.SetWriteDeadline(time.Now().Add(refusalTime))
		_, _ = r.client.Write(badGateway(sentence))
		r.client.closeWrite()
		_ = r.client.Close()
	} else {
		r.client.abort()
	}
	closeAs(r.service, !delivered)
}

func closeAs(s *stream, reset bool) {
	if reset {
		s.abort()
		return
	}
	_ = s.Close()
}
