package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	random "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/reconcile/store"
)

// Of a state directory: the move that this host makes, from its first claim until it is taken or given up.
const (
	moveFolder = "move"
	moveFile   = "move.json"
	bundleFile = "registry.bundle" // the promoted registry with its history
)

// taking are the flags of `stado placement move --authority`.
type taking struct {
	to                    fleet.HostName
	sign, asJSON, abandon bool
	ssh                   config.Agent
}

// mover carries an [authority.Move] out: it asks, writes and waits, and every decision is the move's own.
type mover struct {
	*inquiry
	taking
	folder durable.Folder

	move    authority.Move // as it was recorded last
	base    basis          // of the move until its document is this host's copy
	replies map[fleet.HostName]authority.Reply
	granted bool
}

func (a *app) takeAuthority(c *cobra.Command, f taking) error {
	return asRefused(a.attended(c.Context(), f, func(m *mover, recorded *authority.Move) error {
		switch {
		case m.store == nil: // this refuses, and leaves no trace
			return m.begin(nil)
		case f.abandon:
			return m.giveUp(recorded)
		case recorded != nil && recorded.Kind != authority.KindMove:
			return fmt.Errorf("two histories are being joined on this host, at generation %d; run stado registry heal to finish that, or give it up with --abandon", recorded.Generation)
		}
		return m.run(recorded)
	}))
}

// attended is moving for a person, who is told what an interrupted command leaves behind.
func (a *app) attended(ctx context.Context, f taking, work func(m *mover, recorded *authority.Move) error) error {
	home := ""
	err := a.moving(ctx, f, func(m *mover, recorded *authority.Move) error {
		home = m.home
		return work(m, recorded)
	})
	if errors.Is(err, context.Canceled) && home != "" {
		if left := unfinished(home); left != "" {
			return fmt.Errorf("%s: %s", sayInterrupted, left)
		}
	}
	return err
}

// moving has work done on this host's move of the role, nil for none, while no other process does.
func (a *app) moving(ctx context.Context, f taking, work func(m *mover, recorded *authority.Move) error) (err error) {
	q, err := a.inquire(ctx, f.ssh)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	if q.self == "" {
		if q.copied != nil {
			return errors.New(sayNoName)
		}
		q.assumed = f.to
		q.look()
	}
	m := mover{inquiry: q, taking: f, folder: durable.Folder{Path: filepath.Join(q.home, moveFolder), Fault: q.fault}}
	if q.store == nil {
		return work(&m, nil)
	}
	if err := os.MkdirAll(m.folder.Path, 0o700); err != nil {
		return err
	}
	unlock, err := m.folder.Lock() // one move at a time
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := m.folder.Sweep(); err != nil {
		return err
	}
	recorded, err := m.recorded()
	if err != nil {
		return err
	}
	return work(&m, recorded)
}

// recorded is the move that was begun and has not ended, nil for none.
func (m *mover) recorded() (*authority.Move, error) { return recordedMove(m.home) }

// recordedMove is the move that the host of a state directory has under way, nil for none.
func recordedMove(home string) (*authority.Move, error) {
	file := filepath.Join(home, moveFolder, moveFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	move, err := authority.ParseMove(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &move, nil
}

// keep records the move as it stands.
func (m *mover) keep(next authority.Move) error {
	data, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	if err := m.at(next.Point()); err != nil {
		return err
	}
	m.move = next
	return m.folder.Write(moveFile, append(data, '\n'), 0o600)
}

// forget removes the record of a move that has ended.
func (m *mover) forget() error {
	for _, name := range []string{moveFile, bundleFile} {
		if err := os.Remove(filepath.Join(m.folder.Path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return durable.SyncDir(m.folder.Path)
}

// giveUp is --abandon.
func (m *mover) giveUp(recorded *authority.Move) error {
	if recorded == nil {
		return fmt.Errorf("no move of the registry authority is under way on this host, %s; there is nothing to give up", m.self)
	}
	next, err := recorded.Abandon(m.host().Held, m.held.Incarnation)
	if err != nil {
		return err
	}
	if err := m.end(next, next.Claim()); err != nil {
		return err
	}
	if m.asJSON {
		return m.app.printJSON(abandonReceipt{State: next.Phase, Authority: next.To, Generation: next.Generation})
	}
	if authority.HeadOf(m.copied).Authority == next.To {
		fmt.Fprintf(m.app.stdout, "gave the move of the registry authority to %s up; generation %d stays this host's copy, and names %s: take the role back with stado placement move --authority --to-host %s\n",
			next.To, m.copied.Generation(), next.To, m.self)
		return nil
	}
	fmt.Fprintf(m.app.stdout, "gave the move of the registry authority to %s up; generation %d is used by nobody\n", next.To, next.Generation)
	return nil
}

// abandonReceipt is the JSON answer of --abandon.
type abandonReceipt struct {
	State      authority.Phase  `json:"state"`
	Authority  fleet.HostName   `json:"authority"`            // that it was to be
	Generation fleet.Generation `json:"directory_generation"` // that was claimed
}

// end ends a move that has written nothing.
func (m *mover) end(next authority.Move, c authority.Claim) error {
	if err := m.keep(next); err != nil {
		return err
	}
	if err := m.giveBack(c); err != nil {
		return err
	}
	return m.forget()
}

func (m *mover) run(recorded *authority.Move) error {
	if recorded != nil && recorded.Phase == authority.PhaseAbandoned { // killed before everybody was told
		if err := m.end(*recorded, recorded.Claim()); err != nil {
			return err
		}
		recorded = nil
	}
	if err := m.begin(recorded); err != nil {
		return err
	}
	for {
		done, err := m.advance()
		if err != nil {
			return err
		}
		if done {
			return m.finish()
		}
	}
}

// begin begins a move, or goes on with the recorded one. The authority is asked only when nothing else stands against it.
func (m *mover) begin(recorded *authority.Move) error {
	m.look()
	s := authority.Situation{
		Self: m.self, To: m.to, Copy: m.copied, CopyError: m.copyError, Promised: m.held.Promised, Incarnation: m.held.Incarnation, Nonce: rand.Text(),
	}
	decide := func() (authority.Move, error) {
		if recorded != nil {
			return recorded.Resume(s)
		}
		return authority.Begin(s)
	}
	next, err := decide() // as if the authority answered
	if r, ok := errors.AsType[*authority.Refusal](err); ok && (r.Reason == authority.ReasonAnswers || s.CopyError != "") {
		s.Authority = m.authority()
		next, err = decide()
	}
	m.base = basis{snapshot: m.copied}
	if err == nil && next.Through && next.Phase == authority.PhaseClaiming {
		if m.base, err = m.tip(); err == nil {
			s.Copy = m.base.snapshot
			next, err = decide()
		}
	}
	switch {
	case err != nil && recorded != nil:
		return errors.Join(err, m.moot(*recorded, err))
	case err != nil:
		return err
	}
	m.replies, m.granted = map[fleet.HostName]authority.Reply{}, false
	return m.keep(next)
}

// moot ends a recorded move that has written nothing when the authority answers: nothing may come of its claim any more.
func (m *mover) moot(recorded authority.Move, why error) error {
	r, ok := errors.AsType[*authority.Refusal](why)
	if !ok || r.Reason != authority.ReasonAnswers {
		return nil
	}
	next, err := recorded.Abandon(m.host().Held, m.held.Incarnation)
	if err != nil {
		return nil // it has written
	}
	return m.end(next, next.Claim())
}

// advance makes the next step of the move.
func (m *mover) advance() (done bool, err error) {
	switch step := m.move.Next(slices.Collect(maps.Keys(m.replies)), m.granted); step.Do {
	case authority.DoPromise:
		return false, m.promiseOwn(step.Point)
	case authority.DoAsk:
		m.tell("asking %d hosts for generation %d", len(step.Hosts), m.move.Generation)
		err := everywhere(step.Hosts, m.putClaim, func(host fleet.HostName, r authority.Reply) error {
			m.replies[host] = r
			return nil
		})
		return false, errors.Join(err, m.settle())
	case authority.DoPromote:
		return false, m.promote()
	case authority.DoCopy:
		return false, m.copy(step.Point)
	case authority.DoStore:
		return false, m.serve(step.Point)
	case authority.DoHandOver:
		return false, m.handOver(step.Hosts)
	case authority.DoMirror:
		return false, m.mirror(step)
	case authority.DoFinish:
	}
	return true, nil
}

func (m *mover) promiseOwn(point authority.Point) error {
	a, err := m.promise(m.move.Claim(), func() bool { return false }, point)
	m.replies[m.self] = authority.Reply{Answer: &a}
	return err
}

// settle takes the decision after a round.
func (m *mover) settle() error {
	for next := m.move; ; {
		if err := m.relate(next); err != nil {
			return err
		}
		settled, out := next.Settle(m.replies)
		switch out.Course {
		case authority.Proceed:
			m.granted = true
			return m.keep(settled)
		case authority.Rebase:
			if out.From == m.self { // another program wrote this host's copy meanwhile
				return m.begin(&m.move)
			}
			next = settled.Rebase(m.base.snapshot)
		case authority.Again:
			return m.again(settled, out)
		case authority.Stop:
			return errors.Join(out.Refusal, m.end(settled, out.Release))
		}
	}
}

// relate finds how the highest registry that a host reported stands to the base, by reading it. Nothing else of the replies depends on
// such a relation. When it is newer it becomes the basis.
func (m *mover) relate(next authority.Move) error {
	var from fleet.HostName
	head := next.Base
	for _, host := range next.Electorate {
		if a := m.replies[host].Answer; a != nil && a.Held.Generation > head.Generation {
			from, head = host, a.Held
		}
	}
	if from == "" {
		return nil
	}
	r := m.replies[from]
	if from == m.self {
		r.Relation = authority.Ahead
	} else {
		b, relation, err := m.fetch(from, head)
		if err != nil {
			return fmt.Errorf("host %s holds generation %d, above the %d that this host builds on, and it cannot be read from there: %w (run the command again, or give the move up with --abandon)",
				from, head.Generation, next.Base.Generation, err)
		}
		if r.Relation = relation; relation == authority.Ahead {
			m.base = b
		}
	}
	m.replies[from] = r
	return nil
}

// again begins the next round, at a higher generation.
func (m *mover) again(next authority.Move, out authority.Outcome) error {
	if err := m.higher(next, out); err != nil {
		return err
	}
	return m.begin(&m.move)
}

// higher records the move at its higher generation. When another mover is about, this one steps aside: it gives the claim back, and waits
// while the other may come to its end.
func (m *mover) higher(next authority.Move, out authority.Outcome) error {
	if err := m.keep(next); err != nil {
		return err
	}
	if !out.Meets {
		m.tell("%s; asking for generation %d", out.Refusal.Sentence, next.Generation)
		_, err := m.store.Reload()
		return err
	}
	if err := m.giveBack(out.Release); err != nil {
		return err
	}
	pause := authority.Pause(m.refresh(), random.Float64())
	m.tell("%s; asking for generation %d in %s", out.Refusal.Sentence, next.Generation, pause.Round(time.Millisecond))
	select {
	case <-time.After(pause):
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
	_, err := m.store.Reload()
	return err
}

// bundle is the promoted registry with its history.
func (m *mover) bundle() ([]byte, error) {
	return os.ReadFile(filepath.Join(m.folder.Path, bundleFile))
}

// copy writes the promoted registry into this host's copy, as a hand-over.
func (m *mover) copy(point authority.Point) error {
	bundle, err := m.bundle()
	if err != nil {
		return err
	}
	asked, err := m.askBundle(bundle)
	switch {
	case err != nil:
		return err
	case asked.Refusal != nil && asked.Refusal.Rule == reconcile.RulePromised:
		return m.begin(&m.move)
	case asked.Refusal != nil:
		return fmt.Errorf("this host refuses the registry that would make it the authority, so nothing is written: %s: %s (give the move up with --abandon)", asked.Refusal.Rule, asked.Refusal.Sentence)
	}
	if asked.Snapshot != nil { // else it is held already
		if moved, err := m.overtaken(); moved || err != nil {
			return errors.Join(err, m.begin(&m.move))
		}
		if err := m.at(point); err != nil {
			return err
		}
		// The bundle was written on this host, with the whole history.
		if err := (durable.Folder{Path: m.home}).Write(handedFile, bundle, 0o644); err != nil {
			return err
		}
		if err := asked.HandOver(m.store); errors.Is(err, store.ErrOutdated) {
			return m.begin(&m.move)
		} else if err != nil {
			return err
		}
	}
	m.look()
	return m.keep(m.move.Copied())
}

func (m *mover) handOver(hosts []fleet.HostName) error {
	bundle, err := m.bundle()
	if err != nil {
		return err
	}
	m.tell("handing generation %d to %d hosts", m.move.Generation, len(hosts))
	return everywhere(hosts, func(host fleet.HostName) handed {
		return m.handTo(host, bundle, "registry", "push", "--last-known-good")
	}, func(host fleet.HostName, h handed) error {
		if next, taken := m.move.Taken(host, h.held); taken {
			return m.keep(next)
		}
		return m.keep(m.move.Handed(host, h.result))
	})
}

// finish says what the move has come to.
func (m *mover) finish() error {
	receipt := m.move.Receipt()
	if receipt.SplitRisk {
		m.tell("%s", receipt.SayRisk())
	}
	err := receipt.Err()
	switch {
	case m.asJSON:
		err = errors.Join(m.app.printJSON(receipt), err)
	case err == nil:
		fmt.Fprintln(m.app.stdout, receipt.Say())
	}
	if err != nil {
		return err
	}
	return m.forget()
}

// registry says how other hosts are reached. Without a copy none is.
func (m *mover) registry() *fleet.Registry {
	switch {
	case m.base.snapshot != nil:
		return m.base.snapshot.Registry
	case m.copied != nil:
		return m.copied.Registry
	}
	return &fleet.Registry{}
}

func (m *mover) others() []fleet.HostName { return others(m.registry(), m.self) }

// others are all hosts of a registry but one.
func others(r *fleet.Registry, self fleet.HostName) []fleet.HostName {
	return slices.DeleteFunc(r.HostNames(), func(h fleet.HostName) bool { return h == self })
}

// refresh is the interval in which this host reads its authority.
func (m *mover) refresh() time.Duration {
	if r := m.copied.Registry.Hosts[m.self].Resolver; r != nil {
		return time.Duration(r.RefreshSeconds) * time.Second
	}
	return m.settings.Refresh
}

// tell is for whoever watches.
func (m *mover) tell(format string, args ...any) { m.app.log().Info(fmt.Sprintf(format, args...)) }
