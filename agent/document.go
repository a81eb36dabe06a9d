package agent

import (
	"os"
	"time"

	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/duty"
	"stado.internal/stado/reconcile/webhook"
)

// document merges what the loop and the resolver say of themselves into the published state. Which registry is served, under which version
// and since when are the loop's to say, all at once: between its call of adopt and its next word the old one is named.
func (a *Agent) document() status.Resolver {
	a.mu.Lock()
	target, lost := a.target, a.lost
	a.mu.Unlock()
	loop := a.reconciler.Status()
	served := loop.Served
	doc := status.Resolver{
		UpdatedAt: time.Now().UTC(), Target: target, PID: os.Getpid(), State: status.State(loop.Phase), Reason: loop.Reason,
		Attempt: loop.Attempt, NextAttemptAt: loop.NextAttemptAt, LoadedAt: loop.LoadedAt, StoreVersion: loop.StoreVersion,
		Generation: served.Generation(), Authority: a.authorityOf(loop), Refusals: refusalsOf(loop),
	}
	if s := loop.Suspended; s != nil {
		doc.Suspended = &status.Suspension{Reason: s.Reason, Since: s.Since, Until: s.Until}
	}
	if r := resolverOf(served, target); r != nil {
		doc.RefreshSeconds, doc.MaxStaleSeconds = r.RefreshSeconds, r.MaxStaleSeconds
	}
	if h, ok := a.store.Held(); ok {
		doc.Fence = &status.Fence{Generation: h.Generation, Commit: h.Commit, Digest: h.Digest, Provenance: h.Provenance, Since: h.UpdatedAt}
		if r := h.Reset; r != nil {
			doc.Fence.Reset = &status.Reset{FromCommit: r.FromCommit, FromGeneration: r.FromGeneration, Reason: r.Reason, At: r.At}
		}
	}
	if d := a.duty.Record(); d != nil {
		doc.Duty = &status.Duty{Duty: string(d.Duty), Sentence: d.Sentence, Since: d.Since, Forked: d.Forked}
		if d.Forked {
			doc.Refusals = append(doc.Refusals, status.Refusal{Rule: duty.Rule, Sentence: d.Sentence, Since: d.Since})
		}
	}
	for _, d := range a.duty.Doubts() {
		doc.Doubts = append(doc.Doubts, status.Doubt{Host: d.Host, Sentence: d.Sentence, Since: d.Since})
	}
	if lost != "" && served != nil {
		doc.Refusals = append(doc.Refusals, status.Refusal{Rule: RuleIdentity, Sentence: lost, Since: served.AdmittedAt})
	}
	if a.hook != nil {
		if problem, since := a.hook.Problem(); problem != "" {
			doc.Refusals = append(doc.Refusals, status.Refusal{Rule: webhook.Rule, Sentence: problem, Since: since})
		}
	}
	a.resolver.Fill(&doc)
	return doc
}

// RuleIdentity marks a registry that does not tell the agent which host it is.
const RuleIdentity = "STADO-HOST-001"

func (a *Agent) authorityOf(loop reconcile.Status) status.Authority {
	asked := loop.Served // as the loop orders its sources
	if asked == nil {
		asked = a.store.Snapshot()
	}
	return status.Authority{
		Host: loop.AuthorityHost, Source: a.sources.Kind(asked), Reachable: loop.Reachable, Generation: loop.OfferedGeneration,
		Commit: loop.OfferedCommit, Detail: loop.Detail, ReadFrom: loop.Instead,
	}
}

func refusalsOf(loop reconcile.Status) []status.Refusal {
	out := make([]status.Refusal, 0, len(loop.Refusals))
	for _, r := range loop.Refusals {
		out = append(out, status.Refusal{Rule: r.Rule, Commit: r.Commit, Sentence: r.Sentence, Since: r.Since, Findings: r.Findings})
	}
	return out
}

// health answers the resolution API: which generation is served, and whether it is older than the host declares to tolerate.
func (a *Agent) health() (fleet.Generation, bool) {
	a.mu.Lock()
	target := a.target
	a.mu.Unlock()
	loop := a.reconciler.Status()
	r := resolverOf(loop.Served, target)
	if r == nil || loop.LoadedAt == nil {
		return loop.Served.Generation(), true
	}
	return loop.Served.Generation(), time.Since(*loop.LoadedAt) > r.MaxStale()
}
