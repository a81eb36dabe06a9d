package source

import (
	"context"
	"errors"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/sandbox"
)

// The phases of a read, in order. Every error names the one it stood in.
const (
	PhaseStore          = "store"          // this host's own copy of the repository
	PhaseConnect        = "connect"        // name look-up and connection
	PhaseHandshake      = "handshake"      // TLS, or SSH's key exchange with the host's key
	PhaseAuthentication = "authentication" // the credential or identity file, and what the remote says to it
	PhaseExec           = "exec"           // the start of git at the other end of an SSH session
	PhaseAdvertisement  = "advertisement"  // the remote's list of branches
	PhasePack           = "pack"           // new commits and files
	PhaseRead           = "read"           // commits and trees, out of the store
	PhaseEvaluation     = "evaluation"     // the registry's files
)

// Kind classes errors by what an operator has to do.
type Kind string

// The kinds of errors.
const (
	KindUnreachable    Kind = "unreachable"    // no connection
	KindTimeout        Kind = "timeout"        // a phase did not end in its time
	KindServer         Kind = "server"         // the remote answered with an error of its own
	KindWait           Kind = "wait"           // the remote names a time before which it wants no question
	KindProtocol       Kind = "protocol"       // what the remote sent is not git
	KindRedirect       Kind = "redirect"       // the remote names another address
	KindAuthentication Kind = "authentication" // credentials missing, unreadable or refused
	KindCertificate    Kind = "certificate"    // TLS identity refused
	KindIdentity       Kind = "identity"       // no usable key for SSH, or one that the remote refuses
	KindHostKey        Kind = "host-key"       // SSH host key not known, changed or revoked
	KindNotFound       Kind = "not-found"      // no repository there
	KindOwnership      Kind = "ownership"      // git refuses a repository of another user
	KindNoGit          Kind = "no-git"         // the git program is missing, which file:// needs
	KindEmpty          Kind = "empty"          // a repository without commits
	KindMissingBranch  Kind = "missing-branch" // a repository without the branch
	KindShallow        Kind = "shallow"        // the remote lacks part of its history
	KindIncomplete     Kind = "incomplete"     // the remote lacks objects that its commits name
	KindHistory        Kind = "history"        // more history than is looked at
	KindLimit          Kind = "limit"          // a resource limit ended the work
	KindDamaged        Kind = "damaged"        // this host's store cannot be read
	KindNoSpace        Kind = "no-space"       // this host's disk is full
	KindPermission     Kind = "permission"     // this host's files are not ours to use
	KindBusy           Kind = "busy"           // another process uses the store
	KindFormat         Kind = "format"         // the repository is of a format that is not read
	KindRevision       Kind = "revision"       // no such revision in a local repository
	KindInternal       Kind = "internal"       // a defect of this program
)

// Error says why a registry could not be read. It never carries credentials.
type Error struct {
	Phase  string // one of the Phase constants
	Remote string // the URL or directory that was read
	Name   string // what a person calls it; empty: Remote
	Kind   Kind
	Cause  string // what happened, in words
	Err    error  // the cause as a value when it arose in this process, a [*sandbox.LimitError] among others; may be nil
}

// Error is one sentence: what was read, the phase, the cause and what to do.
func (e *Error) Error() string { return sayError(e) }

// Unwrap is the cause as a value.
func (e *Error) Unwrap() error { return e.Err }

// kindOf is the kind of an error; empty when it has none.
func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// failure is the child's form of an [Error]. The cause may quote what a remote sent.
func failure(kind Kind, phase, remote, cause string) error {
	return &sandbox.TaskError{Kind: string(kind), Phase: phase, Remote: remote, Message: fleet.OneLine(cause, 300)}
}

// asError gives an error of a sandbox run the form of this package. last is where the work stood. Whatever the child said of itself is
// made one line here.
func asError(err error, remote string, last sandbox.Progress) error {
	err = classed(err, remote, last)
	if e, ok := err.(*Error); ok {
		e.Phase, e.Cause = fleet.OneLine(e.Phase, maxHeader), fleet.OneLine(e.Cause, fleet.MaxText)
	}
	return err
}

func classed(err error, remote string, last sandbox.Progress) error {
	var task *sandbox.TaskError
	var limit *sandbox.LimitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &task):
		kind := Kind(task.Kind)
		if kind == "" {
			kind = KindInternal
		}
		phase := task.Phase
		if phase == "" {
			phase = last.Phase
		}
		return &Error{Phase: phase, Remote: remote, Kind: kind, Cause: task.Message, Err: err}
	case errors.As(err, &limit):
		kind := KindLimit
		if limit.Limit == sandbox.LimitTime {
			kind = KindTimeout
		}
		return &Error{Phase: last.Phase, Remote: remote, Kind: kind, Cause: limit.Error(), Err: err}
	}
	return &Error{Phase: last.Phase, Remote: remote, Kind: KindInternal, Cause: err.Error(), Err: err}
}

// taskFailure finds the child's form of an error in a chain.
func taskFailure(err error) (*sandbox.TaskError, bool) {
	var t *sandbox.TaskError
	return t, errors.As(err, &t)
}
