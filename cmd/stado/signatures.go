package main

import (
	"context"
	"errors"
	"slices"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/fleet/doctor"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
)

// trustOf is the trust of a verdict's document when it asks for signatures; nil when it does not.
func trustOf(v source.Verdict) (*fleet.Trust, error) {
	if v.Document == nil {
		return nil, nil
	}
	registry, err := fleet.Decode(v.Document)
	if err != nil || registry.Trust == nil || registry.Trust.Mode == fleet.TrustNone {
		return nil, err
	}
	return registry.Trust, nil
}

// signed judges a commit of a repository by the trust of another one: the whole way between them when it descends from that one, else the
// commit by itself.
func signed(ctx context.Context, r source.Repository, base, next source.Verdict) (*signature.Refusal, error) {
	trust, err := trustOf(base)
	if err != nil || trust == nil || base.Commit == "" || base.Commit == next.Commit {
		return nil, err
	}
	since := base.Commit
	forward, err := r.Descends(ctx, since, next.Commit)
	if err != nil {
		return nil, err
	}
	if !forward {
		since = next.Parent
	}
	_, refusal, err := r.Vouch(ctx, source.Question{Since: since, Tip: next.Commit, Commits: []string{next.Commit}, Trust: *trust})
	return refusal, err
}

// signatureFinding is what the vetter says of the signatures of a commit.
func (v vetter) signatureFinding(ctx context.Context, base, next source.Verdict) (fleet.Findings, error) {
	if v.ref == "" || next.Commit == "" {
		return nil, nil // what is no commit yet is not signed either
	}
	repository, err := localRepository(v.dir)
	if err != nil {
		return nil, err
	}
	refusal, err := signed(ctx, repository, base, next)
	if err != nil || refusal == nil {
		return nil, err
	}
	f := refusal.Finding()
	if v.trial {
		f.Severity = fleet.SeverityWarning
	}
	return fleet.Findings{f}, nil
}

// doctorSignature looks whether hosts that hold the commit before the newest one would admit that by its signature. A directory without
// a repository, or without such commits, has nothing to look at.
func doctorSignature(ctx context.Context, dir string, limits config.Evaluation) ([]doctor.Finding, error) {
	child, err := childCommand()
	if err != nil {
		return nil, err
	}
	e := source.Evaluator{Runner: agent.Child(child, limits)}
	before, err := e.Commit(ctx, dir, "HEAD^")
	var read *source.Error
	if errors.As(err, &read) && slices.Contains([]source.Kind{source.KindNotFound, source.KindRevision, source.KindShallow}, read.Kind) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	trust, err := trustOf(before)
	if err != nil || trust == nil {
		return nil, err
	}
	repository, err := localRepository(dir)
	if err != nil {
		return nil, err
	}
	chain, _, err := repository.Chain(ctx, before.Commit, "HEAD", 1)
	if err != nil || len(chain) != 1 {
		return nil, err
	}
	_, refusal, err := repository.Vouch(ctx, source.Question{Since: before.Commit, Tip: chain[0], Commits: chain, Trust: *trust})
	if err != nil || refusal == nil {
		return nil, err
	}
	f := refusal.Finding()
	return []doctor.Finding{{
		Kind: doctor.RefusedSignature, Subject: chain[0], Detail: "every host that holds the commit before it refuses the newest one: " + f.Message, Hint: f.Hint,
	}}, nil
}
