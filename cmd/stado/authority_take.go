package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/store"
)

func newAuthorityTake(a *app) *cobra.Command {
	var asJSON bool
	var ssh config.Agent
	c := &cobra.Command{
		Use:   "take -",
		Short: "Take the authority role from the host that has it",
		Long: `Take the registry that makes this host the registry authority, a git bundle on stdin, as this host's copy and into its authority.git. The
authority that gives the role away runs this over SSH ('stado placement move --authority'). Only a registry is taken whose generation this
host has promised to that move ('stado registry claim'); a repository that is there is pushed it, without force.

Taken once, it is taken again without a change. Exit status: 0 taken, 1 refused, 75 other programs wrote this host's store all the while.`,
		Example: "  stado authority take - --json <registry.bundle",
		Args:    cobra.MatchAll(cobra.ExactArgs(1), onlyStdin),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			q, err := a.inquire(c.Context(), ssh)
			if err != nil {
				return refused(err)
			}
			defer func() { err = errors.Join(err, q.close()) }()
			if q.self == "" {
				return refused(errors.New(sayNoName))
			}
			_, bundle, err := readInput("-", c.InOrStdin(), maxBundle)
			if err != nil {
				return refused(fmt.Errorf("cannot read the bundle: %w", err))
			}
			receipt, err := q.take(bundle)
			if err != nil {
				return promiseExit(err)
			}
			if asJSON {
				return a.printJSON(receipt)
			}
			fmt.Fprintf(a.stdout, "took the role of the registry authority at service directory generation %d\n", receipt.Generation)
			return nil
		},
	}
	reachFlags(c, &ssh, "")
	c.Flags().BoolVar(&asJSON, "json", false, "print the receipt as JSON")
	return c
}

// take makes what a bundle carries this host's copy, and then puts it into the repository that this host serves: whoever holds the registry
// finds a repository there that has its history, and soon its last commit.
func (q *inquiry) take(bundle []byte) (receipt authority.PushReceipt, err error) {
	in := q.own()
	for attempt := 1; ; attempt++ {
		receipt, err = q.takeCopy(in, bundle)
		q.look()
		if err == nil {
			return receipt, q.bring(in, bundle)
		}
		if !errors.Is(err, store.ErrOutdated) || attempt == writeAttempts {
			return receipt, err
		}
	}
}

func (q *inquiry) takeCopy(in authorityInit, bundle []byte) (receipt authority.PushReceipt, err error) {
	t := authority.Take{Self: q.self, Copy: q.copied, CopyError: q.copyError, Promised: q.held.Promised}
	if q.copied == nil {
		return t.Decide()
	}
	asked, err := q.askBundle(bundle)
	switch {
	case err != nil:
		return receipt, err
	case asked.Refusal != nil && asked.Refusal.Rule == reconcile.RuleRollback && in.reaches(q.ctx, asked.Tip),
		asked.Refusal == nil && asked.Snapshot == nil && authority.HeadOf(q.copied).Authority == q.self: // taken before
		return authority.PushReceipt{State: authority.StateHandedOver, Generation: asked.Newest}, nil
	case asked.Refusal != nil:
		return receipt, fmt.Errorf("this host refuses what the bundle carries: %s: %s", asked.Refusal.Rule, asked.Refusal.Sentence)
	}
	offered := asked.Snapshot
	if offered == nil {
		offered = q.copied
	}
	t.Offered = offered.Generation()
	t.Owner = authority.Owner{Mover: authority.HostOf(offered.Registry.Directory.Authority), Nonce: asked.Nonce}
	if receipt, err = t.Decide(); err != nil {
		return receipt, err
	}
	return receipt, q.hold(asked)
}

// own is the repository that this host serves as the authority.
func (q *inquiry) own() authorityInit {
	return authorityInit{app: q.app.silent(), home: q.home, dir: filepath.Join(q.home, authorityFolder), branch: authority.Branch}
}
