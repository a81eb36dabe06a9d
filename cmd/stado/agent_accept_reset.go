package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// acceptReceipt is the JSON answer of `stado agent accept-reset`.
type acceptReceipt struct {
	State          string           `json:"state"` // accepted
	Commit         string           `json:"commit"`
	Generation     fleet.Generation `json:"generation"`
	FromCommit     string           `json:"from_commit"`
	FromGeneration fleet.Generation `json:"from_generation"`
	MergeBase      string           `json:"merge_base"` // empty: they have no commit in common, or none is known here
	Reason         string           `json:"reason"`
	Running        bool             `json:"running"` // an agent runs, and was told
}

// accepting is one `stado agent accept-reset`.
type accepting struct {
	commit, reason string
	settings       config.Agent
	asJSON         bool
}

// fullID is a commit id that is not shortened.
var fullID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

func newAgentAcceptReset(a *app) *cobra.Command {
	var f accepting
	c := &cobra.Command{
		Use:   "accept-reset --commit ID --reason TEXT",
		Short: "Go on from a commit of the authority that does not descend from what this host holds",
		Long: `Break glass: go on from the commit that the authority's branch has, although it does not descend from the commit that this host holds.
A host refuses such a branch for ever by itself (STADO-FENCE-003), since it may be a rollback by somebody who took the authority over;
this is for the day on which people know that its history was made anew. It speaks for this host alone.

The commit is named in full, and must be what the branch has now. Only its ancestry is passed by: a generation that is not above the
held one is refused (unless the document is the held one), as are a leap, a generation promised to another host, a commit that the
held registry's trust does not vouch for, and a document that may not follow on the held one. To go back, raise the generation in a
commit on top. What lies between is not known, so the limits on one change and the policies of the fleet's own are not asked.

It is written to the journal ('stado registry log'), to the agent's log, and stands in 'stado agent status' and 'stado resolver status'
until the next generation is adopted.

Exit status: 0 the commit is held, 1 refused, nothing is changed, 2 usage, 69 the authority does not answer, 75 the agent has adopted
something meanwhile.`,
		Example: "  stado agent accept-reset --commit 9fceb02d0ae598e95dc970b74767f19372d61af8 --reason 'the forge was restored from the backup of Monday'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f.reason = strings.TrimSpace(f.reason)
			if err := checkReason(f.reason); err != nil {
				return misused(err)
			}
			if !fullID.MatchString(f.commit) {
				return misused(fmt.Errorf("--commit is %q, which is not the full id of a commit (git rev-parse prints it)", f.commit))
			}
			return a.acceptReset(c.Context(), f)
		},
	}
	c.Flags().StringVar(&f.commit, "commit", "", "full id of the commit that the authority's branch has")
	c.Flags().StringVar(&f.reason, "reason", "", "why, for the journal and for whoever looks at this host")
	c.Flags().StringVar(&f.settings.Repository, "repository", "", "where the branch is read (default: the authority that the held registry names, else as agent.cue says)")
	c.Flags().StringVar(&f.settings.Branch, "branch", "", "branch of --repository (default main)")
	c.Flags().StringVar(&f.settings.Host, "host", "", "this host's name in the registry (default: as agent.cue or the machine says)")
	c.Flags().StringVar(&f.settings.Identity, "identity", "", "private key for ssh (default: as agent.cue says, else the ssh-agent)")
	c.Flags().StringVar(&f.settings.KnownHosts, "known-hosts", "", "trusted host keys for ssh (default: as agent.cue says, else the usual files)")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the receipt as JSON")
	return c
}

func (a *app) acceptReset(ctx context.Context, f accepting) (err error) {
	q, err := a.inquire(ctx, f.settings)
	if err != nil {
		return refused(err)
	}
	defer func() { err = errors.Join(err, q.close()) }()
	if q.store == nil {
		return refused(noRegistry(q.home))
	}
	asked, err := q.askReset(f)
	if err == nil {
		err = asked.Accept(q.store, f.reason)
	}
	if err != nil {
		return resetExit(err)
	}
	r := acceptReceipt{
		State: "accepted", Commit: asked.Commit, Generation: asked.Generation, FromCommit: asked.Held.Commit, FromGeneration: asked.Held.Generation,
		MergeBase: asked.MergeBase, Reason: f.reason, Running: tellAgent(ctx, q.home) == nil,
	}
	if f.asJSON {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.stdout, "accepted commit %s, generation %d, in place of commit %s, generation %d: %s\n", short(r.Commit), r.Generation, short(r.FromCommit), r.FromGeneration, r.Reason)
	if !r.Running {
		fmt.Fprintf(a.stderr, "no agent on %s was told; one that starts there reads it\n", q.home)
	}
	return nil
}

func (q *inquiry) askReset(f accepting) (reconcile.Reset, error) {
	copied := q.copied
	if f.settings.Repository != "" {
		copied = nil
	}
	o, err := q.named(copied)
	if err != nil {
		return reconcile.Reset{}, err
	}
	g, err := q.open(o, q.scratch)
	if err != nil {
		return reconcile.Reset{}, err
	}
	defer g.Close()
	return reconcile.AskReset(q.ctx, q.store, g, f.commit)
}

func resetExit(err error) error {
	e, ok := errors.AsType[*source.Error](err)
	switch {
	case errors.Is(err, store.ErrOutdated):
		return conflict(fmt.Errorf("%w; look at what it holds now (stado registry show) and decide again", err))
	case ok && (e.Kind == source.KindUnreachable || e.Kind == source.KindTimeout || e.Kind == source.KindServer || e.Kind == source.KindWait || e.Kind == source.KindBusy):
		return transient(err)
	}
	return refused(err)
}
