// Package remote opens native SSH sessions to a host, along its ordered paths, with every step bounded in time.
//
// A host is trusted by known_hosts files, which are read for every connection and never written. [Dial] makes one connection and gives
// it up when a phase runs out of its time. A [Client] keeps one connection to a host for those who come back. [ShowHostKeys] only looks.
package remote

import (
	"context"
	"log/slog"
	"net"
	"time"

	"stado.internal/stado/fleet"
)

// Phase is a step of a session. Every [Error] names the one it stood in.
type Phase string

// The phases of a connection, in order. What a command says afterwards is in phases of its user's own.
const (
	PhaseConnect        Phase = "connect"        // name look-up and TCP
	PhaseHandshake      Phase = "handshake"      // greeting, key exchange, the host's key
	PhaseAuthentication Phase = "authentication" // our identity, and what the host says to it
	PhaseExec           Phase = "exec"           // a channel, and a command that begins or ends on it
)

// Deadlines bound the phases. A zero field means that of [DefaultDeadlines].
type Deadlines struct {
	Connect        time.Duration
	Handshake      time.Duration
	Authentication time.Duration
	Exec           time.Duration
}

// DefaultDeadlines are for a busy host on a slow line.
func DefaultDeadlines() Deadlines {
	return Deadlines{Connect: 10 * time.Second, Handshake: 10 * time.Second, Authentication: 10 * time.Second, Exec: 10 * time.Second}
}

func (d Deadlines) filled() Deadlines {
	def := DefaultDeadlines()
	for _, f := range []struct{ v, d *time.Duration }{
		{&d.Connect, &def.Connect}, {&d.Handshake, &def.Handshake}, {&d.Authentication, &def.Authentication}, {&d.Exec, &def.Exec},
	} {
		if *f.v <= 0 {
			*f.v = *f.d
		}
	}
	return d
}

func (d Deadlines) of(p Phase) time.Duration {
	switch p {
	case PhaseConnect:
		return d.Connect
	case PhaseHandshake:
		return d.Handshake
	case PhaseAuthentication:
		return d.Authentication
	default:
		return d.Exec
	}
}

// Path is one way to a host.
type Path struct {
	Name        string // "primary", or the name of a declared fallback
	Destination fleet.Destination
}

// Paths are the declared ways to a host, in the order in which they are tried.
func Paths(h fleet.Host) []Path {
	out := []Path{{Name: "primary", Destination: h.SSH}}
	for _, f := range h.SSHFallbacks {
		out = append(out, Path{Name: f.Name, Destination: f.Destination})
	}
	return out
}

// Identity is what this program proves itself with.
type Identity struct {
	// File is a private key in a file that its owner alone may use; beside it may lie a certificate, named like it with -cert.pub. It is
	// exclusive: nothing else is offered.
	File string
	// Agent is the socket of an ssh-agent, asked when there is no File.
	Agent string
}

// Keepalive finds dead sessions. The zero value asks nothing.
type Keepalive struct {
	Interval time.Duration // between two questions
	Misses   int           // so many intervals without an answer end the session; 0 means 3
}

// Options say how a host is reached. They are a value.
type Options struct {
	Host  string // the host's name for sentences
	Paths []Path // at least one, tried in order
	// KnownHosts are files in OpenSSH's format. None means those of [DefaultKnownHosts] that exist.
	KnownHosts []string
	Identity   Identity
	Deadlines  Deadlines
	Keepalive  Keepalive
	// Dial makes TCP connections; nil means a plain dialer. The name in address is known_hosts' as well.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger // nil: nobody is told of sessions that died
}

// A peer that vanished without a word is noticed after a minute even where no keepalive is declared.
const (
	tcpIdle   = 15 * time.Second
	tcpProbes = 4
)

func (o Options) filled() Options {
	o.Deadlines = o.Deadlines.filled()
	if o.Keepalive.Misses <= 0 {
		o.Keepalive.Misses = 3
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: tcpIdle, Interval: tcpIdle, Count: tcpProbes},
		}).DialContext
	}
	return o
}
