package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"stado.internal/stado/fleet"
)

func (s *Resolver) refresh() time.Duration { return time.Duration(s.RefreshSeconds) * time.Second }

func sayNotPublished(name string, cause error) string {
	return fmt.Sprintf("cannot publish %s; readers see its last content until this is mended: %v", name, cause)
}

func sayNothingPublished(path string) string {
	return fmt.Sprintf("no resolver has published state at %s: nothing has served here since that file was last removed", path)
}

func sayStateUnreadable(err error) string {
	return fmt.Sprintf("the resolver's published state cannot be read: %v", err)
}

func sayStopped(s *Resolver) string {
	return fmt.Sprintf("no agent runs on this state directory: what follows was published %s (start one: stado agent run)", s.UpdatedAt.UTC().Format(time.RFC3339))
}

func sayRouteRefuses(c Candidate) string {
	return fmt.Sprintf("the %s adapter for consumer %s refuses every connection: %s", c.Service, c.Consumer, c.Reason)
}

// sayState leaves out a reason that a refusal says by itself, and a next read that is in the past because nobody is there to make it.
func sayState(s *Resolver, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the resolver reports state %s", s.State)
	if s.Reason != "" && !slices.ContainsFunc(s.Refusals, func(f Refusal) bool { return f.Sentence == s.Reason }) {
		b.WriteString(": " + s.Reason)
	}
	if s.NextAttemptAt != nil && s.NextAttemptAt.After(now) {
		fmt.Fprintf(&b, " (failed attempt %d, next read due %s)", s.Attempt, s.NextAttemptAt.UTC().Format(time.RFC3339))
	}
	return b.String()
}

func sayNoListener(s *Resolver) string {
	if s.Reason != "" {
		return "the resolver holds no listener: " + s.Reason
	}
	return fmt.Sprintf("the resolver holds no listener: the registry at generation %d gives host %q no service_resolver", s.Generation, s.Target)
}

func sayAPISilent(bind string) string {
	return "nothing is listening on the resolution API at " + bind
}

func sayAdapterSilent(l ProbedListener) string {
	return fmt.Sprintf("nothing is listening on the %s adapter for consumer %s at %s", l.Service, l.Consumer, l.Bind)
}

func sayUnreachable(a Authority) string {
	s := fmt.Sprintf("the registry authority %s is unreachable", a.Host)
	if a.Detail != "" {
		s += ": " + a.Detail
	}
	return s
}

func sayBehind(held, published fleet.Generation) string {
	return fmt.Sprintf("the resolver holds service directory generation %d and the authority publishes %d", held, published)
}

func sayStale(age int64, limit int) string {
	return fmt.Sprintf("the snapshot the resolver holds is %ds old, past the %ds max-stale window this target declares", age, limit)
}

// maxFindings is how many findings of one refusal stand in its blocker; the document holds all.
const maxFindings = 3

// sayRefusal names the rule, what was refused, and where: the findings that the sentence does not carry already follow it.
func sayRefusal(f Refusal) string {
	var b strings.Builder
	if !strings.Contains(f.Sentence, f.Rule+": ") {
		b.WriteString(f.Rule + ": ")
	}
	b.WriteString(f.Sentence)
	if f.Commit != "" && strings.Contains(f.Sentence, f.Commit) {
		fmt.Fprintf(&b, " (since %s)", f.Since.UTC().Format(time.RFC3339))
	} else if f.Commit != "" {
		fmt.Fprintf(&b, " (commit %.12s, refused since %s)", f.Commit, f.Since.UTC().Format(time.RFC3339))
	}
	said := 0
	for _, finding := range f.Findings {
		if text := finding.String(); finding.Severity == fleet.SeverityError && said < maxFindings && !strings.Contains(f.Sentence, text) {
			b.WriteString("; " + text)
			said++
		}
	}
	return b.String()
}

// SaySuspension is a suspension's own sentence: since when, until when, and why nothing is adopted.
func SaySuspension(s Suspension) string {
	until := ""
	if s.Until != nil {
		until = " until " + s.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("adoption suspended since %s%s: %s", s.Since.UTC().Format(time.RFC3339), until, s.Reason)
}

// SayReset is the sentence of a fence that a person moved to another history.
func SayReset(f Fence) string {
	return fmt.Sprintf("reset accepted at %s: commit %.12s (generation %d), which does not descend from commit %.12s (generation %d): %s",
		f.Reset.At.UTC().Format(time.RFC3339), f.Commit, f.Generation, f.Reset.FromCommit, f.Reset.FromGeneration, f.Reset.Reason)
}

// SayWait is a wait's own sentence: who waits, for how long, for what, and whom to ask.
func SayWait(w Wait, now time.Time) string {
	what := "for the first byte of an answer on an open channel"
	if w.Phase == PhaseOpen {
		what = "to open a channel"
	}
	s := fmt.Sprintf("service %s for consumer %s at %s has waited %ds %s to %s on %s: the client holds an accepted connection that receives nothing; ask that host what answers on %s",
		w.Service, w.Consumer, w.Bind, int64(now.Sub(w.Since).Seconds()), what, w.Endpoint, w.ActiveHost, w.Endpoint)
	if w.SessionReplacedAt != nil {
		s += fmt.Sprintf("; the SSH session it rides was replaced at %s by a new session to %s that carries new connections, so it stands only until its client leaves",
			w.SessionReplacedAt.UTC().Format(time.RFC3339Nano), w.ActiveHost)
	}
	if w.UnprovenSince != nil {
		s += fmt.Sprintf("; its client sends no more and may have vanished, so since %s it refuses nobody", w.UnprovenSince.UTC().Format(time.RFC3339Nano))
	}
	return s
}
