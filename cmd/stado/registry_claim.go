package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/store"
)

func newRegistryClaim(a *app) *cobra.Command {
	var release bool
	var ssh config.Agent
	c := &cobra.Command{
		Use:   "claim [-]",
		Short: "Promise a generation to a host that takes the authority role, or say what is promised",
		Long: `Answer a claim, which a host that is to become the registry authority puts to every other one ('stado placement move --authority' runs
this over SSH): keep one generation for its document, or say why not. The claim is JSON on stdin. What is promised is durable before it is
answered, and from then on no other document of that generation or a lower one is taken from anybody.

With --release the claim is given back. Without - nothing is asked: the answer says what this host holds and has promised.

The answer is always JSON. Exit status: 0 granted, or asked nothing; 1 refused: the answer says why; 75 other programs wrote this host's
store all the while.`,
		Example: "  stado registry claim\n  stado registry claim - <claim.json",
		Args:    cobra.MatchAll(cobra.MaximumNArgs(1), onlyStdin),
		RunE: func(c *cobra.Command, args []string) (err error) {
			q, err := a.inquire(c.Context(), ssh)
			if err != nil {
				return refused(err)
			}
			defer func() { err = errors.Join(err, q.close()) }()
			if q.self == "" {
				return refused(errors.New(sayNoName))
			}
			if len(args) == 0 {
				if release {
					return misused(errors.New("--release gives a claim back (write -, and the claim on stdin)"))
				}
				return a.printJSON(q.host().Report())
			}
			_, data, err := readInput("-", c.InOrStdin(), maxClaim)
			if err != nil {
				return refused(fmt.Errorf("cannot read the claim: %w", err))
			}
			claim, err := authority.ParseClaim(data)
			if err != nil {
				return refused(err)
			}
			return q.answer(claim, release)
		},
	}
	c.Flags().BoolVar(&release, "release", false, "give the claim back")
	reachFlags(c, &ssh, "")
	return c
}

// maxClaim is above what a claim may have, so that one that is too long is refused as such.
const maxClaim = 64 << 10

const sayNoName = "it is not known which host of the registry this is (write --host, or host in agent.cue)"

func onlyStdin(_ *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] != "-" {
		return fmt.Errorf("a claim is read from stdin alone (write -, not %s)", args[0])
	}
	return nil
}

// reachFlags are the flags of a verb that reaches other hosts as this host's agent does.
func reachFlags(c *cobra.Command, ssh *config.Agent, when string) {
	c.Flags().StringVar(&ssh.Host, "host", "", when+"this host's name in the registry (default: as agent.cue or the machine says)")
	c.Flags().StringVar(&ssh.Identity, "identity", "", when+"private key for ssh (default: as agent.cue says, else the ssh-agent)")
	c.Flags().StringVar(&ssh.KnownHosts, "known-hosts", "", when+"trusted host keys for ssh (default: as agent.cue says, else the usual files)")
}

func (q *inquiry) answer(claim authority.Claim, release bool) error {
	if release {
		if err := q.release(claim); err != nil {
			return promiseExit(err)
		}
		return q.app.printJSON(q.host().Report())
	}
	answers := func() bool {
		_, yes := q.authority().Answers()
		return yes
	}
	a, err := q.promise(claim, answers, "")
	if err != nil {
		return promiseExit(err)
	}
	if err := q.app.printJSON(a); err != nil || a.Granted {
		return err
	}
	return notReady()
}

func promiseExit(err error) error {
	if errors.Is(err, store.ErrOutdated) {
		return conflict(err)
	}
	return refused(err)
}

// host is what this host knows when it is asked for a claim.
func (q *inquiry) host() authority.Host {
	h := authority.Host{
		Name: q.self, Incarnation: q.held.Incarnation, Promised: q.held.Promised, Recovering: q.held.Recovering, Held: authority.HeadOf(q.copied),
	}
	if h.Held.Digest != q.held.Digest { // the current slot is damaged: the anchor counts
		h.Held.Commit, h.Held.Generation, h.Held.Epoch, h.Held.Digest = q.held.Commit, q.held.Generation, q.held.Epoch, q.held.Digest
	}
	if q.copied != nil {
		h.Hosts = q.copied.Registry.HostNames()
	}
	return h
}

// writeAttempts bounds how often a promise is decided anew because another program wrote the store meanwhile.
const writeAttempts = 5

// promise answers a claim. What it promises is durable before it returns; point is named before that is written. answers, whether the
// authority answers this host, is asked only when nothing that comes before it stands against the claim: a silent one takes its time.
func (q *inquiry) promise(c authority.Claim, answers func() bool, point authority.Point) (authority.Answer, error) {
	for attempt := 1; ; attempt++ {
		h, base := q.host(), q.claimed(c)
		h.Answers = true
		a, p := h.Decide(c, base)
		if a.Refused == authority.ReasonAnswers {
			h.Answers = answers()
			a, p = h.Decide(c, base)
		}
		if p == nil {
			return a, nil
		}
		if err := q.at(point); err != nil {
			return a, err
		}
		err := q.store.Promise(p)
		if err == nil || !errors.Is(err, store.ErrOutdated) || attempt == writeAttempts {
			q.look()
			return a, err
		}
		q.look()
	}
}

// release gives a promise back.
func (q *inquiry) release(c authority.Claim) error {
	for attempt := 1; ; attempt++ {
		p := q.held.Promised.Release(c)
		if p == nil {
			return nil
		}
		err := q.store.Promise(p)
		q.look()
		if err == nil || !errors.Is(err, store.ErrOutdated) || attempt == writeAttempts {
			return err
		}
	}
}

// at names a point of a write to crash tests.
func (q *inquiry) at(point authority.Point) error {
	if q.fault == nil || point == "" {
		return nil
	}
	return q.fault(string(point))
}

// claimed is how the base of a claim, or the nearer of its two, stands to what this host holds.
func (q *inquiry) claimed(c authority.Claim) authority.Relation {
	rel := q.related(c.Base.Commit)
	if c.Joins != nil && rel != authority.Ahead && rel != authority.Equal {
		if other := q.related(c.Joins.Commit); other == authority.Ahead || other == authority.Equal {
			return other
		}
	}
	return rel
}

// related is how a commit stands to the held one, as far as this host's repository of the registry knows both.
func (q *inquiry) related(commit string) authority.Relation {
	held := q.held.Commit
	switch {
	case commit == "" || held == "":
		return authority.Unknown
	case commit == held:
		return authority.Equal
	}
	repository, err := q.repository()
	if err != nil {
		return authority.Unknown
	}
	ahead, err1 := repository.Descends(q.ctx, held, commit)
	behind, err2 := repository.Descends(q.ctx, commit, held)
	switch {
	case err1 != nil || err2 != nil: // it lacks one of them
		return authority.Unknown
	case ahead:
		return authority.Ahead
	case behind:
		return authority.Behind
	}
	return authority.Forked
}
