// Package status holds every document that a host publishes: their types, the publisher that keeps a file beside each, the readers that
// tolerate a stopped process, and the sentences that turn a document into blockers. It reads and judges; it serves nothing.
package status

import (
	"time"

	"stado.internal/stado/fleet"
)

// File names inside the state directory.
const (
	ResolverFile = "resolver-state.json"
	WaitingFile  = "resolver-waiting.json"
)

// State is what the resolver of a host is doing.
type State string

// The states. [StateUnpublished] is never written: it is what a reader reports when there is no file.
const (
	StateUnpublished State = "unpublished"
	StateStarting    State = "starting"
	StateServing     State = "serving"
	StateBackingOff  State = "backing_off"
	StateFailed      State = "failed"
)

// Resolver is the content of [ResolverFile]. Times are UTC. A reader tolerates unknown and missing members.
type Resolver struct {
	UpdatedAt       time.Time        `json:"updated_at"`
	Target          fleet.HostName   `json:"target"`
	PID             int              `json:"pid"`
	State           State            `json:"state"`
	Generation      fleet.Generation `json:"generation"`    // 0: nothing is served
	StoreVersion    string           `json:"store_version"` // commit id, or "last-known-good" or "handed-over"
	LoadedAt        *time.Time       `json:"loaded_at"`     // last read of the authority that confirmed what is served
	Reason          string           `json:"reason"`
	Attempt         int              `json:"attempt"`
	NextAttemptAt   *time.Time       `json:"next_attempt_at"`
	Listening       bool             `json:"listening"`
	RefreshSeconds  int              `json:"refresh_seconds"`
	MaxStaleSeconds int              `json:"max_stale_seconds"`
	API             *Listener        `json:"api"`
	Adapters        []Listener       `json:"adapters"`
	Authority       Authority        `json:"authority"`
	Fence           *Fence           `json:"fence"`
	Refusals        []Refusal        `json:"refusals"`
	Candidates      []Candidate      `json:"candidates"`
	Suspended       *Suspension      `json:"suspended"` // null: what the authority has is adopted
	Duty            *Duty            `json:"duty"`      // null: this host is the registry authority, or never was
	Doubts          []Doubt          `json:"doubts,omitempty"`
}

// Duty says that this host, which had the role of the registry authority, takes no changes as such.
type Duty struct {
	Duty     string    `json:"duty"` // step-down, or dispute
	Sentence string    `json:"sentence"`
	Since    time.Time `json:"since"`
	Forked   bool      `json:"forked"` // a person has to join two histories; it is a refusal too
}

// Doubt is what another host says that it holds, which this host, the registry authority, does not believe. Nothing follows from it.
type Doubt struct {
	Host     fleet.HostName `json:"host"`
	Sentence string         `json:"sentence"`
	Since    time.Time      `json:"since"`
}

// Suspension says that a person has suspended adoption on this host.
type Suspension struct {
	Reason string     `json:"reason"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until"` // null: until it is ended
}

// Stands reports whether the suspension is in force; nil is none. A document of an agent that has stopped may be older than its end.
func (s *Suspension) Stands(now time.Time) bool {
	return s != nil && (s.Until == nil || now.Before(*s.Until))
}

// Listener is one address that the resolver holds, or was asked to hold. Service is empty for the resolution API.
type Listener struct {
	Service   fleet.ServiceName  `json:"service,omitempty"`
	Consumer  fleet.ConsumerName `json:"consumer,omitempty"`
	Bind      string             `json:"bind"`
	Listening bool               `json:"listening"`
	Problem   string             `json:"problem,omitempty"` // why it is not bound
}

// Authority says where the registry is read from and what was last seen there.
type Authority struct {
	Host       string           `json:"target"` // host name, or the remote's host
	Source     string           `json:"source"` // local: the registry names this host as the authority; else the scheme of its address: file, https, http or ssh
	Reachable  *bool            `json:"reachable"`
	Generation fleet.Generation `json:"generation"` // of the newest commit seen that compiles; 0 unknown
	Commit     string           `json:"commit"`
	Detail     string           `json:"detail,omitempty"`
	ReadFrom   string           `json:"read_from,omitempty"` // what was read in its place, because it did not answer
}

// Fence is what nothing older may replace.
type Fence struct {
	Generation fleet.Generation `json:"generation"`
	Commit     string           `json:"commit"`
	Digest     string           `json:"digest"`
	Provenance fleet.Provenance `json:"provenance"`
	Since      time.Time        `json:"since"`
	Reset      *Reset           `json:"reset,omitempty"` // a person's word admitted it
}

// Reset says that a person accepted a commit whose history does not lead from what was held, until the next generation is adopted.
type Reset struct {
	FromCommit     string           `json:"from_commit"`
	FromGeneration fleet.Generation `json:"from_generation"`
	Reason         string           `json:"reason"`
	At             time.Time        `json:"at"`
}

// Refusal is an offered commit, or a part of this host's own state, that was refused and still stands.
type Refusal struct {
	Rule     string          `json:"rule"`
	Commit   string          `json:"commit,omitempty"`
	Sentence string          `json:"sentence"`
	Since    time.Time       `json:"since"`
	Findings []fleet.Finding `json:"findings,omitempty"`
}

// Candidate is one host that a route may use.
type Candidate struct {
	Service  fleet.ServiceName  `json:"service"`
	Consumer fleet.ConsumerName `json:"consumer"`
	Host     fleet.HostName     `json:"host"`
	Endpoint string             `json:"endpoint"`
	Eligible bool               `json:"eligible"`
	Reason   string             `json:"reason,omitempty"` // why it is not eligible
}

// Phase is what a wait waits for.
type Phase string

// The phases: a channel or dial that has not answered; a request that went up and nothing came down.
const (
	PhaseOpen   Phase = "open"
	PhaseAnswer Phase = "answer"
)

// Wait is one element of [WaitingFile], which is a JSON array.
type Wait struct {
	Service    fleet.ServiceName  `json:"service"`
	Consumer   fleet.ConsumerName `json:"consumer"`
	Bind       string             `json:"bind"`
	Client     string             `json:"client"`
	ActiveHost fleet.HostName     `json:"active_host"`
	Endpoint   string             `json:"endpoint"`
	Since      time.Time          `json:"since"`
	Phase      Phase              `json:"phase"`
	// SessionReplacedAt is set on a held wait whose SSH session was replaced: such a wait refuses nobody.
	SessionReplacedAt *time.Time `json:"session_replaced_at,omitempty"`
	// UnprovenSince is set on a held wait whose client sends no more and cannot be looked up, so that it may have vanished: such a wait
	// refuses nobody either.
	UnprovenSince *time.Time `json:"unproven_since,omitempty"`
}

// Held lists the waits that stand in the way of a new connection: strictly older than the interval, on a session that was not replaced,
// of a client that is known to wait. Every reader of the waiting list asks here, so that all of them mean the same by "held".
func Held(list []Wait, now time.Time, interval time.Duration) []Wait {
	var held []Wait
	for _, w := range list {
		if w.SessionReplacedAt == nil && w.UnprovenSince == nil && now.Sub(w.Since) > interval {
			held = append(held, w)
		}
	}
	return held
}
