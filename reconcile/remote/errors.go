package remote

import (
	"context"
	"errors"
	"strings"
)

// Kind classes errors by what an operator has to do.
type Kind string

// The kinds of errors.
const (
	KindUnreachable     Kind = "unreachable"      // no connection, or it ended
	KindTimeout         Kind = "timeout"          // a phase did not end in its time
	KindCanceled        Kind = "canceled"         // the caller gave up
	KindProtocol        Kind = "protocol"         // what answers does not speak our SSH
	KindDestination     Kind = "destination"      // the registry's word is no destination
	KindKnownHosts      Kind = "known-hosts"      // no usable known_hosts file
	KindHostKeyUnknown  Kind = "host-key-unknown" // no file knows the host
	KindHostKeyChanged  Kind = "host-key-changed" // a file knows another key
	KindHostKeyRevoked  Kind = "host-key-revoked" // a file revokes the key
	KindHostCertificate Kind = "host-certificate" // no listed authority vouches for the host, or not any more
	KindIdentity        Kind = "identity"         // this program has no usable key
	KindRefused         Kind = "refused"          // the host refuses our identity
	KindExec            Kind = "exec"             // the host runs no command for us
)

// Error says why a host could not be used. It never carries secrets.
type Error struct {
	Phase       Phase
	Host        string // the host's name
	Destination string // as the registry writes it
	Address     string // host:port that was dialled; empty before there is one
	Kind        Kind
	Cause       string // what happened and, where something helps, what to do
	Err         error  // the cause as a value; may be nil
}

// Error is one sentence.
func (e *Error) Error() string { return sayError(e) }

// Unwrap is the cause as a value.
func (e *Error) Unwrap() error { return e.Err }

// Stalled reports that asking again brings the same answer until somebody changes a key or a file, here or there. Such a host is asked
// once per interval, and never in a hurry.
func (e *Error) Stalled() bool {
	switch e.Kind {
	case KindDestination, KindKnownHosts, KindHostKeyUnknown, KindHostKeyChanged, KindHostKeyRevoked, KindHostCertificate, KindIdentity, KindRefused:
		return true
	default:
		return false
	}
}

// gaveUp is the caller's own end; false when ctx has not ended.
func gaveUp(ctx context.Context) (kind Kind, cause string, ok bool) {
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout, "no answer within the time of the caller", true
	case err != nil:
		return KindCanceled, "the caller gave up", true
	}
	return "", "", false
}

// joined makes one error of those of several paths: the first one that somebody must act on, with all of them in its words.
func joined(o Options, errs []*Error) *Error {
	if len(errs) == 1 {
		return errs[0]
	}
	chosen := *errs[0]
	for _, e := range errs {
		if e.Stalled() {
			chosen = *e
			break
		}
	}
	words, values := make([]string, len(errs)), make([]error, len(errs))
	for i, e := range errs {
		words[i], values[i] = o.Paths[i].Name+": "+string(e.Phase)+": "+e.Cause, e
	}
	chosen.Cause, chosen.Err = sayNoPath(o.Host, strings.Join(words, "; ")), errors.Join(values...)
	return &chosen
}
