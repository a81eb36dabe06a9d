package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/store"
)

// errands are what a host owes its fleet after a start, beside its agent: it finishes a move of the authority role, or a join of two
// histories, whose document is its copy already, and when it has lost its anchor it asks the others what it may have promised. What cannot
// be done is tried again on every refresh, a join less often. What only a person may go on with is named.
type errands struct {
	app      *app // of the state directory, and without words
	home     string
	settings config.Agent
	log      *slog.Logger
	said     string
}

func (a *app) errands(home string, settings config.Agent) *errands {
	quiet := a.silent()
	quiet.home = home
	return &errands{app: quiet, home: home, settings: settings, log: a.log()}
}

// joinPause is how many refreshes pass before a join is tried again: it reads whole repositories, and usually wants a host that is down.
const joinPause = 10

// run returns when nothing is owed, or soon after ctx ends.
func (e *errands) run(ctx context.Context) {
	if waits := unfinished(e.home); waits != "" {
		e.log.Warn(waits)
	}
	for {
		owed, interval := e.owed()
		if owed == nil {
			return
		}
		if err := owed(ctx); err != nil && ctx.Err() == nil {
			e.say(slog.LevelWarn, err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// say says a sentence once, however often it is the answer.
func (e *errands) say(level slog.Level, sentence string) {
	if sentence != e.said {
		e.log.Log(context.Background(), level, sentence)
	}
	e.said = sentence
}

// owed is the next errand, nil when there is none. It only reads.
func (e *errands) owed() (errand func(context.Context) error, interval time.Duration) {
	interval = e.settings.Refresh
	view, err := store.Read(filepath.Join(e.home, registryFolder))
	if err != nil {
		return func(context.Context) error { return err }, interval
	}
	if self := e.app.self(e.settings, view.Snapshot); self != "" && view.Snapshot != nil {
		if r := view.Snapshot.Registry.Hosts[self].Resolver; r != nil {
			interval = r.Refresh()
		}
	}
	move, err := recordedMove(e.home)
	switch {
	case err != nil:
		return func(context.Context) error { return err }, interval
	case move != nil && move.Kind == authority.KindMove && move.Interrupted(authority.HeadOf(view.Snapshot)):
		return e.finish, interval
	case move != nil && move.Kind == authority.KindHeal && move.Interrupted(authority.HeadOf(view.Snapshot)):
		return e.finish, joinPause * interval
	case view.Held.Recovering:
		return e.rejoin, interval
	case view.Held.Generation == 0: // it is new, or about to find out that it has lost what it held
		return func(context.Context) error { return nil }, interval
	}
	return nil, 0
}

// finish goes on with a move that was interrupted.
func (e *errands) finish(ctx context.Context) error {
	return e.app.moving(ctx, taking{ssh: e.settings}, func(m *mover, recorded *authority.Move) error {
		if recorded == nil || !recorded.Interrupted(m.host().Held) { // a person has finished it meanwhile
			return nil
		}
		if e.said == "" {
			e.say(slog.LevelInfo, sayGoingOn(*recorded))
		}
		if m.to = recorded.To; recorded.Kind == authority.KindHeal {
			h := newHealer(m)
			if err := h.finish(recorded); err != nil {
				return err
			}
			e.say(slog.LevelInfo, strings.TrimSpace(h.receipt.say(h.receipt.State)))
			return nil
		}
		if err := m.run(recorded); err != nil {
			return err
		}
		e.say(slog.LevelInfo, m.move.Receipt().Say())
		return nil
	})
}

// unfinished says what a state directory has begun and not ended, and how a person goes on with it; empty for nothing, and for who may not
// look.
func unfinished(home string) string {
	move, err := recordedMove(home)
	if move == nil || err != nil {
		return ""
	}
	goOn := "stado registry heal"
	what := fmt.Sprintf("the join of two histories of the registry, generation %d, has not ended on this host", move.Generation)
	if move.Kind == authority.KindMove {
		goOn = fmt.Sprintf("stado placement move --authority --to-host %s", move.To)
		what = fmt.Sprintf("the move of the registry authority to %s, generation %d, has not ended on this host", move.To, move.Generation)
	}
	view, err := store.Read(filepath.Join(home, registryFolder))
	switch {
	case err == nil && move.Interrupted(authority.HeadOf(view.Snapshot)):
		return fmt.Sprintf("%s: its agent goes on with it when it starts (or go on now: %s)", what, goOn)
	case move.Phase == authority.PhaseAbandoned:
		return fmt.Sprintf("%s: it is given up, and not every host knows (tell them: stado placement move --authority --abandon)", what)
	}
	return fmt.Sprintf("%s, and waits for a person unless its command still runs (go on: %s; give it up: stado placement move --authority --abandon)", what, goOn)
}

// rejoin ends the recovery of a lost anchor once every other host has said what it holds and has promised.
func (e *errands) rejoin(ctx context.Context) (err error) {
	q, err := e.app.inquire(ctx, e.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	if q.self == "" || q.copied == nil || !q.held.Recovering {
		return nil // the agent says so, or has nothing to be asked about yet
	}
	registry, answers, silent := q.copied.Registry, map[fleet.HostName]authority.Answer{}, map[fleet.HostName]error{}
	type reply struct {
		authority.Answer
		err error
	}
	err = everywhere(others(registry, q.self), func(host fleet.HostName) reply {
		a, err := q.answerOf(registry, call{host: host, args: []string{"registry", "claim"}})
		return reply{a, err}
	}, func(host fleet.HostName, r reply) error {
		if silent[host] = r.err; r.err == nil {
			answers[host] = r.Answer
		}
		return nil
	})
	if err != nil {
		return err
	}
	floor, wanting := authority.Rejoin(q.self, q.host().Held, registry, answers)
	if wanting != nil {
		return sayWanting(wanting, answers, silent)
	}
	if err := q.store.Rejoin(floor); err != nil && !errors.Is(err, store.ErrOutdated) { // then it is done again
		return err
	} else if err == nil {
		e.say(slog.LevelInfo, fmt.Sprintf("this host, %s, had lost its anchor: every other host has said what it holds and has promised, and generations above %d are granted again", q.self, floor.Generation))
	}
	return nil
}

func sayGoingOn(m authority.Move) string {
	if m.Kind == authority.KindHeal {
		return fmt.Sprintf("going on with the join of two histories at generation %d, which was interrupted", m.Generation)
	}
	return fmt.Sprintf("going on with the move of the registry authority to %s, generation %d, which was interrupted", m.To, m.Generation)
}

func sayWanting(wanting []fleet.HostName, answers map[fleet.HostName]authority.Answer, silent map[fleet.HostName]error) error {
	var why []string
	for _, h := range wanting {
		switch a, ok := answers[h]; {
		case !ok:
			why = append(why, fmt.Sprintf("%s (%s)", h, fleet.OneLine(silent[h].Error(), fleet.MaxText)))
		case a.Recovering:
			why = append(why, fmt.Sprintf("%s (it holds nothing, or has lost its anchor as well)", h))
		default:
			why = append(why, fmt.Sprintf("%s (it holds generation %d)", h, a.Held.Generation))
		}
	}
	return fmt.Errorf("recovering: this host lost its anchor and does not know what it has promised; it grants again when every other host has said what it holds, and waits for %s", strings.Join(why, ", "))
}
