package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/durable"
)

// Verdict is the one-word answer of a [Report].
type Verdict string

// The verdicts: ready has no blocker; down has neither a listening API nor a serving process; degraded is everything between.
const (
	VerdictReady    Verdict = "ready"
	VerdictDegraded Verdict = "degraded"
	VerdictDown     Verdict = "down"
)

// Report is what `stado resolver status` answers. It is judged from files alone, so it works with the agent stopped.
type Report struct {
	Target                   fleet.HostName    `json:"target"`
	State                    State             `json:"state"`
	PID                      int               `json:"pid"`
	UpdatedAt                *time.Time        `json:"updated_at"`
	API                      *ProbedListener   `json:"api"`
	BindProbe                string            `json:"bind_probe,omitempty"` // why the listeners were not probed
	Adapters                 []ProbedListener  `json:"adapters"`
	Authority                Authority         `json:"authority"`
	WaitingOpens             []ReportedWait    `json:"waiting_opens"`
	Generation               *fleet.Generation `json:"generation"`
	GenerationAgeSeconds     *int64            `json:"generation_age_seconds"`
	MaxStaleSeconds          int               `json:"max_stale_seconds"`
	Stale                    bool              `json:"stale"`
	RegistryStalenessSeconds *int64            `json:"registry_staleness_seconds"`
	Reason                   string            `json:"reason"`
	Attempt                  int               `json:"attempt"`
	NextAttemptAt            *time.Time        `json:"next_attempt_at"`
	Fence                    *Fence            `json:"fence"`
	Candidates               []Candidate       `json:"candidates"`
	Refusals                 []Refusal         `json:"refusals"`
	Suspended                *Suspension       `json:"suspended"`
	Duty                     *Duty             `json:"duty"`
	Doubts                   []Doubt           `json:"doubts,omitempty"`
	Verdict                  Verdict           `json:"verdict"`
	Blockers                 []string          `json:"blockers"`
}

// ProbedListener is a listener with what a connection attempt found; Listening is nil when nobody tried.
type ProbedListener struct {
	Service   fleet.ServiceName  `json:"service,omitempty"`
	Consumer  fleet.ConsumerName `json:"consumer,omitempty"`
	Bind      string             `json:"bind"`
	Listening *bool              `json:"listening"`
	Problem   string             `json:"problem,omitempty"`
}

// ReportedWait is a wait with its age at the time of the report.
type ReportedWait struct {
	Wait
	WaitedSeconds float64 `json:"waited_seconds"`
}

// Inputs is everything a [Report] is judged from.
type Inputs struct {
	StatePath   string
	State       *Resolver // nil: no file
	StateErr    error     // the file is there and cannot be read
	WaitingPath string
	Waiting     []Wait
	WaitingErr  error
	Now         time.Time
	// Stopped says that no agent runs on the state directory, so that the files are its last words.
	Stopped bool
	// Probe reports whether something accepts connections on a bind; nil: not probed, for the reason in NotProbed.
	Probe     func(bind string) bool
	NotProbed string
}

// ReadInputs reads the published files of a state directory. Missing files are not errors.
func ReadInputs(home string, now time.Time) Inputs {
	in := Inputs{StatePath: filepath.Join(home, ResolverFile), WaitingPath: filepath.Join(home, WaitingFile), Now: now}
	var doc Resolver
	switch err := durable.ReadJSON(in.StatePath, &doc); {
	case err == nil:
		in.State = &doc
	case !errors.Is(err, os.ErrNotExist):
		in.StateErr = err
	}
	in.Waiting, in.WaitingErr = ReadWaiting(in.WaitingPath)
	return in
}

// ReadWaiting reads the waiting list. An absent file is an empty list; a file that is there and cannot be read is an error for every
// reader, because it may hide a held wait.
func ReadWaiting(path string) ([]Wait, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the resolver's waiting list at %s cannot be read: %w", path, err)
	}
	var list []Wait
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("the resolver's waiting list at %s is not the list this build writes: %w", path, err)
	}
	return list, nil
}

// Judge makes the report.
func Judge(in Inputs) Report {
	r := Report{
		State: StateUnpublished, Adapters: []ProbedListener{}, WaitingOpens: []ReportedWait{}, Blockers: []string{},
		Candidates: []Candidate{}, Refusals: []Refusal{}, BindProbe: in.NotProbed, Stale: true,
	}
	if in.State != nil {
		r.fill(in.State, in)
	}
	for _, w := range in.Waiting {
		r.WaitingOpens = append(r.WaitingOpens, ReportedWait{Wait: w, WaitedSeconds: in.Now.Sub(w.Since).Seconds()})
	}
	r.Blockers = append(r.Blockers, blockers(in, &r)...)
	r.Verdict = verdict(&r)
	return r
}

func (r *Report) fill(s *Resolver, in Inputs) {
	r.Target, r.State, r.PID = s.Target, s.State, s.PID
	r.UpdatedAt, r.Reason, r.Attempt, r.NextAttemptAt = &s.UpdatedAt, s.Reason, s.Attempt, s.NextAttemptAt
	r.Authority, r.Fence, r.MaxStaleSeconds, r.Duty, r.Doubts = s.Authority, s.Fence, s.MaxStaleSeconds, s.Duty, s.Doubts
	r.Candidates = append(r.Candidates, s.Candidates...)
	r.Refusals = append(r.Refusals, s.Refusals...)
	if s.Suspended.Stands(in.Now) {
		r.Suspended = s.Suspended
	}
	if s.API != nil {
		probed := probe(*s.API, in)
		r.API = &probed
	}
	for _, l := range s.Adapters {
		r.Adapters = append(r.Adapters, probe(l, in))
	}
	if s.Generation > 0 {
		g := s.Generation
		r.Generation = &g
	}
	if s.LoadedAt != nil {
		age := int64(in.Now.Sub(*s.LoadedAt).Seconds())
		r.GenerationAgeSeconds, r.RegistryStalenessSeconds = &age, &age
	}
	tooOld := r.GenerationAgeSeconds == nil || (s.MaxStaleSeconds > 0 && *r.GenerationAgeSeconds > int64(s.MaxStaleSeconds))
	r.Stale = r.Generation == nil || *r.Generation < s.Authority.Generation || tooOld
}

func probe(l Listener, in Inputs) ProbedListener {
	p := ProbedListener{Service: l.Service, Consumer: l.Consumer, Bind: l.Bind, Problem: l.Problem}
	if in.Probe != nil {
		// With a problem the address is somebody else's: that it answers says nothing about this resolver.
		up := l.Problem == "" && in.Probe(l.Bind)
		p.Listening = &up
	}
	return p
}

func verdict(r *Report) Verdict {
	apiSilent := r.API == nil || (r.API.Listening != nil && !*r.API.Listening)
	switch {
	case len(r.Blockers) == 0:
		return VerdictReady
	case apiSilent && r.State != StateServing:
		return VerdictDown
	}
	return VerdictDegraded
}
