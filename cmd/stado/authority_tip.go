package main

import (
	"context"
	"fmt"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/source"
)

// judged is what an agent that holds nothing would say of the branch's tip.
func (in authorityInit) judged(ctx context.Context, tip string) (source.Verdict, error) {
	e, err := evaluator(config.Evaluation{})
	if err != nil {
		return source.Verdict{}, err
	}
	return e.Commit(ctx, in.dir, tip)
}

// admit refuses a branch that every agent would refuse. place is where the repository is to be.
func (in authorityInit) admit(ctx context.Context, place string) error {
	tip, err := in.tip(ctx)
	if err != nil {
		return err
	}
	v, err := in.judged(ctx, tip)
	if err != nil {
		return fmt.Errorf("%s is not made: what branch %s is to begin as, commit %s, cannot be judged: %w", place, in.branch, short(tip), err)
	}
	if v.Document != nil && !v.Findings.Refuses() {
		return nil
	}
	if in.findings != nil {
		if err := in.findings.tellFindings(v.Findings); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s is not made: branch %s of what it is to begin as is at commit %s, which every agent refuses by %s (correct it there, and run this again)", place, in.branch, short(tip), firstRule(v.Findings))
}

// sayTip says what is left to do until this host serves what the branch has.
func (in authorityInit) sayTip(ctx context.Context, tip string) {
	at := fmt.Sprintf("branch %s is at %s", in.branch, short(tip))
	v, err := in.judged(ctx, tip)
	switch {
	case err != nil:
		fmt.Fprintf(in.app.stderr, "%s, which cannot be judged: %v\n", at, err)
		return
	case v.Document == nil || v.Findings.Refuses():
		fmt.Fprintf(in.app.stderr, "%s, which every agent refuses by %s: push what corrects it (stado vet %s --ref %s says why)\n", at, firstRule(v.Findings), shellLine([]string{in.dir}), short(tip))
		return
	}
	if r, err := fleet.Decode(v.Document); err == nil {
		if a := r.Directory.Authority; a.Repository != "" && sameFile(a.Repository, in.dir) && in.here(r, a.Host) {
			fmt.Fprintf(in.app.stderr, "%s, whose authority.cue names this repository on %s as the authority's\n", at, a.Host)
			return
		}
	}
	fmt.Fprintf(in.app.stderr, "%s; to make this host the authority, say so in authority.cue: host, repository: %q, command\n", at, in.dir)
}

// here reports whether a host of a registry is this one, as far as that is known: nothing speaks against it.
func (in authorityInit) here(r *fleet.Registry, host fleet.HostName) bool {
	settings, err := withFile(in.home, config.Agent{})
	if err != nil {
		return false
	}
	self := in.app.self(settings, &fleet.Snapshot{Registry: r})
	return self == "" || self == host
}
