package status

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stado.internal/stado/fleet"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func serving() *Resolver {
	loaded := noon.Add(-3 * time.Second)
	yes := true
	return &Resolver{
		Target: "a1", PID: 7, State: StateServing, Generation: 4, LoadedAt: &loaded, Listening: true, RefreshSeconds: 5, MaxStaleSeconds: 60,
		API:       &Listener{Bind: "127.0.0.1:7700", Listening: true},
		Adapters:  []Listener{{Service: "web", Consumer: "ci", Bind: "127.0.0.1:7701", Listening: true}},
		Authority: Authority{Host: "git.example.net", Source: "https", Reachable: &yes, Generation: 4},
	}
}

func judged(change func(*Inputs)) Report {
	in := Inputs{StatePath: "/state/resolver-state.json", State: serving(), Now: noon, Probe: func(string) bool { return true }}
	change(&in)
	return Judge(in)
}

func TestReadyHasNoBlocker(t *testing.T) {
	r := judged(func(*Inputs) {})
	if r.Verdict != VerdictReady || len(r.Blockers) != 0 || r.Stale || *r.Generation != 4 || *r.GenerationAgeSeconds != 3 {
		t.Fatalf("got %+v", r)
	}
}

func TestBlockerSentences(t *testing.T) {
	due, past := noon.Add(2*time.Second), noon.Add(-time.Second)
	no := false
	for name, tc := range map[string]struct {
		change  func(*Inputs)
		want    []string
		verdict Verdict
	}{
		"nothing published": {
			func(in *Inputs) { in.State = nil },
			[]string{"no resolver has published state at /state/resolver-state.json: nothing has served here since that file was last removed"},
			VerdictDown,
		},
		"stopped": {
			func(in *Inputs) {
				in.Stopped, in.State.State, in.State.Reason, in.State.NextAttemptAt = true, StateBackingOff, "fork refused", &past
				in.State.Refusals = []Refusal{{Rule: "STADO-FENCE-003", Sentence: "fork refused"}}
			},
			[]string{
				"no agent runs on this state directory: what follows was published 0001-01-01T00:00:00Z (start one: stado agent run)",
				"the resolver reports state backing_off", "STADO-FENCE-003: fork refused",
			},
			VerdictDegraded,
		},
		"a route that can only refuse": {
			func(in *Inputs) {
				in.State.Candidates = []Candidate{
					{Service: "web", Consumer: "ci", Host: "a1", Reason: "it loops"},
					{Service: "web", Consumer: "ci", Host: "a2", Reason: "it is far"},
					{Service: "db", Consumer: "ci", Host: "a1", Reason: "it loops"},
					{Service: "db", Consumer: "ci", Host: "a2", Eligible: true},
				}
			},
			[]string{"the web adapter for consumer ci refuses every connection: it loops"},
			VerdictDegraded,
		},
		"starting": {
			func(in *Inputs) {
				in.State = &Resolver{State: StateStarting, Reason: "reading this host's registry store before binding any port"}
			},
			[]string{"the resolver reports state starting: reading this host's registry store before binding any port"},
			VerdictDown,
		},
		"no resolver declared": {
			func(in *Inputs) { in.State.API, in.State.Adapters = nil, nil },
			[]string{`the resolver holds no listener: the registry at generation 4 gives host "a1" no service_resolver`},
			VerdictDegraded,
		},
		"backing off": {
			func(in *Inputs) {
				in.State.State, in.State.Reason, in.State.Attempt, in.State.NextAttemptAt = StateBackingOff, "no route", 3, &due
			},
			[]string{"the resolver reports state backing_off: no route (failed attempt 3, next read due 2026-03-01T12:00:02Z)"},
			VerdictDegraded,
		},
		"silent ports": {
			func(in *Inputs) { in.Probe = func(string) bool { return false } },
			[]string{
				"nothing is listening on the resolution API at 127.0.0.1:7700",
				"nothing is listening on the web adapter for consumer ci at 127.0.0.1:7701",
			},
			VerdictDegraded,
		},
		"a bind that somebody else holds": {
			func(in *Inputs) { in.State.Adapters[0].Problem = "nothing can listen on 127.0.0.1:7701" },
			[]string{"nothing can listen on 127.0.0.1:7701"},
			VerdictDegraded,
		},
		"unreachable authority": {
			func(in *Inputs) { in.State.Authority.Reachable, in.State.Authority.Detail = &no, "connection refused" },
			[]string{"the registry authority git.example.net is unreachable: connection refused"},
			VerdictDegraded,
		},
		"behind": {
			func(in *Inputs) { in.State.Authority.Generation = 6 },
			[]string{"the resolver holds service directory generation 4 and the authority publishes 6"},
			VerdictDegraded,
		},
		"old": {
			func(in *Inputs) { in.Now = noon.Add(2 * time.Minute) },
			[]string{"the snapshot the resolver holds is 123s old, past the 60s max-stale window this target declares"},
			VerdictDegraded,
		},
		"refused commit": {
			func(in *Inputs) {
				in.State.Refusals = []Refusal{{Rule: "STADO-GEN-001", Commit: strings.Repeat("ab", 20), Sentence: "changed", Since: noon}}
			},
			[]string{"STADO-GEN-001: changed (commit abababababab, refused since 2026-03-01T12:00:00Z)"},
			VerdictDegraded,
		},
		"refused commit with its place": {
			func(in *Inputs) {
				findings := []fleet.Finding{
					{Rule: "STADO-GEN-001", Severity: fleet.SeverityError, File: "generation.cue", Line: 4, Message: "raise it"},
					{Rule: "STADO-X-001", Severity: fleet.SeverityWarning, Message: "by the way"},
				}
				in.State.Refusals = []Refusal{{Rule: "STADO-FENCE-002", Sentence: "generation 4 reused", Findings: findings}}
			},
			[]string{"STADO-FENCE-002: generation 4 reused; generation.cue:4: STADO-GEN-001: raise it"},
			VerdictDegraded,
		},
		"held wait": {
			func(in *Inputs) {
				in.Waiting = []Wait{
					{Service: "web", Consumer: "ci", Bind: "127.0.0.1:7701", ActiveHost: "a1", Endpoint: "127.0.0.1:80", Since: noon.Add(-9 * time.Second), Phase: PhaseAnswer},
					{Service: "web", Consumer: "ci", Bind: "127.0.0.1:7701", ActiveHost: "a1", Endpoint: "127.0.0.1:80", Since: noon.Add(-5 * time.Second), Phase: PhaseAnswer},
				}
			},
			[]string{"service web for consumer ci at 127.0.0.1:7701 has waited 9s for the first byte of an answer on an open channel to 127.0.0.1:80 on a1: the client holds an accepted connection that receives nothing; ask that host what answers on 127.0.0.1:80"},
			VerdictDegraded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := judged(tc.change)
			if !slices.Equal(r.Blockers, tc.want) {
				t.Errorf("blockers\n%s\nwant\n%s", strings.Join(r.Blockers, "\n"), strings.Join(tc.want, "\n"))
			}
			if r.Verdict != tc.verdict {
				t.Errorf("verdict %s, want %s", r.Verdict, tc.verdict)
			}
		})
	}
}

func TestHeldSkipsReplacedSessions(t *testing.T) {
	list := []Wait{
		{Client: "young", Since: noon.Add(-5 * time.Second)},
		{Client: "held", Since: noon.Add(-5*time.Second - 1)},
		{Client: "replaced", Since: noon.Add(-time.Hour), SessionReplacedAt: &noon},
	}
	got := Held(list, noon, 5*time.Second)
	if len(got) != 1 || got[0].Client != "held" {
		t.Fatalf("got %+v", got)
	}
	if s := SayWait(list[2], noon); !strings.HasSuffix(s, "so it stands only until its client leaves") {
		t.Errorf("a replaced wait must say so: %s", s)
	}
}

// A client that may have vanished is listed and stands in nobody's way.
func TestUnprovenWaitIsListedAndNotHeld(t *testing.T) {
	list := []Wait{{Service: "web", Client: "unproven", Since: noon.Add(-time.Hour), UnprovenSince: &noon}}
	if got := Held(list, noon, 5*time.Second); len(got) != 0 {
		t.Errorf("held: %+v", got)
	}
	r := Judge(Inputs{State: &Resolver{State: StateServing, RefreshSeconds: 5}, Waiting: list, Now: noon})
	if len(r.WaitingOpens) != 1 || r.WaitingOpens[0].UnprovenSince == nil {
		t.Errorf("listed: %+v", r.WaitingOpens)
	}
	for _, b := range r.Blockers {
		if strings.Contains(b, "has waited") {
			t.Errorf("blocker %s", b)
		}
	}
	if s := SayWait(list[0], noon); !strings.HasSuffix(s, "; its client sends no more and may have vanished, so since 2026-03-01T12:00:00Z it refuses nobody") {
		t.Error(s)
	}
}

func TestReadInputs(t *testing.T) {
	dir := t.TempDir()
	if in := ReadInputs(dir, noon); in.State != nil || in.StateErr != nil || in.Waiting != nil || in.WaitingErr != nil {
		t.Fatalf("an empty directory: %+v", in)
	}
	for name, text := range map[string]string{ResolverFile: `{"state": 3}`, WaitingFile: `{"not": "a list"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := ReadInputs(dir, noon)
	r := Judge(in)
	if in.StateErr == nil || len(r.Blockers) != 1 || !strings.Contains(r.Blockers[0], filepath.Join(dir, ResolverFile)) {
		t.Errorf("a state file that cannot be read must be a blocker naming it: %q", r.Blockers)
	}
	if in.WaitingErr == nil || !strings.Contains(in.WaitingErr.Error(), "is not the list this build writes") {
		t.Errorf("got %v", in.WaitingErr)
	}
	if _, err := ReadWaiting(dir); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got %v", err)
	}
	if g := r.Generation; g != nil {
		t.Errorf("generation %v from nothing", fleet.Generation(*g))
	}
}

// A suspension is shown while it stands. By itself it is in nobody's way.
func TestSuspensionIsShown(t *testing.T) {
	until := noon.Add(time.Minute)
	sus := &Suspension{Reason: "a migration", Since: noon.Add(-time.Hour), Until: &until}
	for now, want := range map[time.Time]*Suspension{noon: sus, until: nil} {
		r := judged(func(in *Inputs) { in.State.Suspended, in.Now = sus, now })
		if r.Suspended != want || now.Equal(noon) && r.Verdict != VerdictReady {
			t.Errorf("at %s: %+v", now, r)
		}
	}
	f := Fence{Generation: 42, Commit: "c42", Reset: &Reset{FromCommit: "c41", FromGeneration: 41, Reason: "made anew", At: noon}}
	if got, want := SayReset(f), "reset accepted at 2026-03-01T12:00:00Z: commit c42 (generation 42), which does not descend from commit c41 (generation 41): made anew"; got != want {
		t.Error(got)
	}
	if got, want := SaySuspension(*sus), "adoption suspended since 2026-03-01T11:00:00Z until 2026-03-01T12:01:00Z: a migration"; got != want {
		t.Error(got)
	}
}
