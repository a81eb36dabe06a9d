package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/duty"
)

// onDuty refuses a push to the repository of a host that is the registry authority no more, or whose role is disputed: what was written here
// would be in nobody else's history. It takes what brings the other registry with it.
func (r receiver) onDuty(ctx context.Context, u update) error {
	record, err := r.app.dutyIn(r.repository.Dir)
	if record == nil || err != nil {
		return err
	}
	refusal := fmt.Errorf("%s (this repository takes what descends from commit %s of that registry, and nothing else)", record.Sentence, record.Other.Commit)
	if absent(u.new) {
		return refusal
	}
	descends, err := r.repository.Descends(ctx, record.Other.Commit, u.new)
	if err != nil || !descends { // an error: the commit is neither here nor in the push
		return errors.Join(refusal, ctx.Err())
	}
	v, err := r.evaluator.Tree(ctx, r.repository, u.new, r.path)
	if err != nil {
		return err
	}
	if v.Document == nil {
		return nil // refused for what it says
	}
	registry, err := fleet.Decode(v.Document)
	if err != nil {
		return err
	}
	if !record.Admits(descends, registry.Directory.Authority) {
		return refusal
	}
	return nil
}

// dutyIn is the record of this host's agent, when it is about a repository; nil where there is no agent, or none that keeps a record. The
// record is looked for in the state directory as by every command, and beside the repository, where it is by default.
func (a *app) dutyIn(repository string) (*duty.Record, error) {
	homes := []string{filepath.Dir(repository)}
	if home, err := a.clientHome(duty.File); err == nil {
		homes = append(homes, home)
	}
	for _, home := range homes {
		record, err := duty.Load(home)
		switch {
		case err != nil:
			return nil, err
		case record != nil && sameFile(record.Repository, repository):
			return record, nil
		}
	}
	return nil, nil
}
