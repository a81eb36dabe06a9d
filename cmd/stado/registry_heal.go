package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/reconcile/duty"
)

// healReceipt is the JSON answer of `stado registry heal`.
type healReceipt struct {
	State        healState             `json:"state"`
	Authority    fleet.HostName        `json:"authority"`
	Generation   fleet.Generation      `json:"directory_generation"` // that this host holds in the end, or would
	Commit       string                `json:"commit,omitempty"`     // likewise; empty when it is not made yet
	Joined       []joinedSide          `json:"joined"`               // into the history that this host held
	Quorum       *bool                 `json:"quorum,omitempty"`     // a majority of all hosts has promised the generation; only of a join
	Store        authority.StoreResult `json:"store,omitzero"`       // this host's own repository; only of a join
	Repositories []repositoryResult    `json:"repositories"`         // that were pushed to, or could not be read
	Diff         string                `json:"diff,omitempty"`       // of a plan: what would change for the hosts of the first parent
}

type healState string

// The states of receipts. A partial one is a failure of the command: something could not be read or pushed.
const (
	healNothing healState = "nothing" // it was one history before
	healPlanned healState = "planned"
	healJoined  healState = "joined"
	healAdopted healState = "adopted" // another history had gone on from what this host held
	healPushed  healState = "pushed"  // another repository was behind
	healPartial healState = "partial"
)

// joinedSide is a history that was joined.
type joinedSide struct {
	Host       fleet.HostName   `json:"host"`
	Commit     string           `json:"commit"`
	Generation fleet.Generation `json:"directory_generation"`
}

// repositoryResult is what became of the repository of another host: one of the two.
type repositoryResult struct {
	Host    fleet.HostName `json:"host"`
	Version string         `json:"version,omitempty"` // the commit that it is at
	Error   string         `json:"error,omitempty"`
}

func newRegistryHeal(a *app) *cobra.Command {
	var h healing
	c := &cobra.Command{
		Use:   "heal",
		Short: "Join the history of an authority that went on by itself with that of its successor",
		Long: `Join two histories of the registry that have both gone on: those of an authority that wrote changes while its role was taken by another
host, and of that host. Run it on the host that is to be the authority of both, which is the one that took the role; elsewhere it says
where. It asks every host what it holds, reads the repositories of the authorities that there were, and makes one commit with both heads as
parents, in which is what either side has changed, whole files at a time. A file that both have changed, each in its way, is left to you:
nothing is joined then, and the files are named.

The commit is judged by every rule and made under a claim, as a move of the role is; it becomes this host's copy and goes to its
authority.git, then to the repository of the other side, never with force. Every host of either side follows it by itself. A repository
that is only behind is brought up to date.

When both sides have taken the role, --prefer names the host that is to keep it. In that case, and where generations are stamped, what the
second side has changed is a commit of its own right after the one that joins. What was interrupted goes on when it is run again.

Exit status: 0 done, or nothing to do; 1 refused, or done in part: the receipt names what is missing.`,
		Example: "  stado registry heal --dry-run\n  stado registry heal --json\n  stado registry heal --prefer boreas",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return asRefused(a.heal(c, h))
		},
	}
	c.Flags().StringVar((*string)(&h.prefer), "prefer", "", "the host that keeps the role, where both sides have taken it")
	c.Flags().BoolVar(&h.sign, "sign", false, "sign the commit as git is configured to (default: when commit.gpgsign says so)")
	c.Flags().BoolVar(&h.dryRun, "dry-run", false, "say what would be joined, and change nothing")
	c.Flags().BoolVar(&h.asJSON, "json", false, "print the receipt as JSON")
	reachFlags(c, &h.ssh, "")
	return c
}

// healing are the flags of `stado registry heal`.
type healing struct {
	taking
	prefer fleet.HostName
	dryRun bool
}

// healer carries out what [authority.PlanJoin] plans, with the record and the claims of a [mover].
type healer struct {
	*mover
	prefer  fleet.HostName
	dryRun  bool
	stands  bool          // the record on disk is of a move, which is written and has not reached every host
	work    gitRepository // has the history of what this host holds, and of every side
	receipt healReceipt
}

func (a *app) heal(c *cobra.Command, f healing) error {
	return a.attended(c.Context(), f.taking, func(m *mover, recorded *authority.Move) error {
		switch {
		case m.self == "":
			return errors.New(sayNoName)
		case m.copied == nil:
			_, err := authority.BeginJoin(authority.Situation{Self: m.self}, authority.Join{}, nil) // which says so
			return err
		}
		m.to = m.self
		h := newHealer(m)
		h.prefer, h.dryRun = f.prefer, f.dryRun
		return h.run(recorded)
	})
}

func newHealer(m *mover) *healer {
	return &healer{mover: m, receipt: healReceipt{State: healNothing, Joined: []joinedSide{}, Repositories: []repositoryResult{}}}
}

// begin takes up a recorded join, opens what histories are read into, and asks who holds what. It gives the join that is still to be made.
func (h *healer) begin(recorded *authority.Move) (*authority.Move, []side, error) {
	recorded, err := h.resume(recorded)
	if err != nil {
		return nil, nil, err
	}
	if err := h.open(); err != nil {
		return nil, nil, err
	}
	sides, err := h.sides()
	return recorded, sides, err
}

// finish ends a join whose commit is this host's copy, and begins no other one.
func (h *healer) finish(recorded *authority.Move) error {
	_, sides, err := h.begin(recorded)
	if err != nil {
		return err
	}
	for _, s := range sides {
		if relation, _ := h.relate(s); relation == authority.Behind {
			h.catchUp(s)
		}
	}
	return h.conclude()
}

// run joins what has forked, adopts what is ahead, and pushes to what is behind.
func (h *healer) run(recorded *authority.Move) error {
	recorded, sides, err := h.begin(recorded)
	if err != nil {
		return err
	}
	for _, s := range sides {
		relation, base := h.relate(s)
		plan, err := authority.PlanJoin(authority.HeadOf(h.copied), s.head(), relation, h.prefer)
		switch {
		case err != nil:
			return err
		case plan.Kind == authority.JoinMerge:
			err = h.join(s, plan, base, recorded)
			recorded = nil
		case plan.Kind == authority.JoinAdopt:
			err = h.adopt(s)
		case plan.Kind == authority.JoinPush, plan.Kind == authority.JoinNothing:
		}
		if err != nil {
			return err
		}
	}
	if on := h.copied.Registry.Directory.Authority.Host; on != h.self && h.receipt.State == healNothing {
		_, err := authority.BeginJoin(authority.Situation{Self: h.self, Copy: h.copied}, authority.Join{Authority: authority.HeadOf(h.copied).Authority}, nil)
		return err
	}
	for _, s := range sides {
		h.catchUp(s)
	}
	return h.conclude()
}

// resume takes up the join that was begun and not finished. It gives the record of one whose commit is not written yet.
func (h *healer) resume(recorded *authority.Move) (*authority.Move, error) {
	switch {
	case recorded == nil:
		return nil, nil
	case recorded.Kind == authority.KindMove && recorded.Phase == authority.PhaseCopied:
		h.stands = true // all that is left of it is to tell other hosts, and some may never take it
		return nil, nil
	case recorded.Kind != authority.KindHeal:
		return nil, fmt.Errorf("a move of the registry authority to %s, generation %d, is under way on this host; finish it, or give it up with stado placement move --authority --abandon, before histories are joined", recorded.To, recorded.Generation)
	case h.dryRun:
		return nil, fmt.Errorf("a join at generation %d is under way on this host, so nothing is tried; run stado registry heal without --dry-run, or give it up with stado placement move --authority --abandon", recorded.Generation)
	case recorded.Phase == authority.PhaseAbandoned: // killed before everybody was told
		return nil, h.mover.end(*recorded, recorded.Claim())
	}
	next, err := recorded.Resume(h.situation())
	if r, ok := errors.AsType[*authority.Refusal](err); ok && r.Reason == authority.ReasonOvertaken {
		given, err := recorded.Abandon(authority.HeadOf(h.copied), h.held.Incarnation)
		if err != nil {
			return nil, err
		}
		return nil, h.mover.end(given, given.Claim())
	}
	if err != nil {
		return nil, err
	}
	if next.Phase != authority.PhaseCopied {
		return &next, nil
	}
	if err := h.keep(next); err != nil {
		return nil, err
	}
	other := *next.Joins
	if other.Authority == h.self {
		other = next.Base
	}
	h.joined(joinedSide{Host: other.Authority, Commit: other.Commit, Generation: other.Generation})
	if next.Store != nil { // it is there, and may have gone on since
		h.receipt.Store = *next.Store
		return nil, nil
	}
	return nil, h.keepInStore()
}

func (h *healer) situation() authority.Situation {
	return authority.Situation{
		Self: h.self, To: h.self, Copy: h.copied, CopyError: h.copyError, Promised: h.held.Promised, Incarnation: h.held.Incarnation, Nonce: rand.Text(),
		Authority: authority.Reading{Cause: "it has no say in what is joined"},
	}
}

// join makes one history of this host's and another one.
func (h *healer) join(s side, plan authority.Join, base string, recorded *authority.Move) error {
	first := h.copied
	if plan.Parents[0] == s.head() {
		first = s.snapshot
	}
	next, err := authority.BeginJoin(h.situation(), plan, first)
	if err != nil {
		return err
	}
	if recorded != nil && recorded.Base == next.Base && *recorded.Joins == *next.Joins {
		next = *recorded // under its generation and its nonce
	} else if recorded != nil {
		if err := h.mover.end(*recorded, recorded.Claim()); err != nil {
			return err
		}
	}
	h.move, h.base = next, basis{snapshot: first}
	planned, err := h.make(base, true) // what cannot be joined is refused before anybody is asked
	if err != nil {
		return err
	}
	if h.dryRun {
		h.receipt.State, h.receipt.Generation, h.receipt.Diff = healPlanned, next.Generation, planned.diff
		h.receipt.Joined = append(h.receipt.Joined, s.joined())
		return nil
	}
	if err := h.keep(next); err != nil {
		return err
	}
	h.stands = false
	if err := h.claim(); err != nil {
		return err
	}
	made, err := h.make(base, false)
	if err != nil {
		return err
	}
	if err := h.keep(h.move.Promote(made.head)); err != nil {
		return err
	}
	if err := h.holdJoined(); err != nil {
		return err
	}
	h.joined(s.joined())
	if err := h.keepInStore(); err != nil {
		return err
	}
	return h.open() // on what is held now
}

// claim asks every host for the generation until it is granted.
func (h *healer) claim() error {
	for {
		h.replies = map[fleet.HostName]authority.Reply{}
		if err := h.promiseOwn(authority.PointPromise); err != nil {
			return err
		}
		asked := slices.DeleteFunc(slices.Clone(h.move.Electorate), func(n fleet.HostName) bool { return n == h.self })
		h.tell("asking %d hosts for generation %d", len(asked), h.move.Generation)
		err := everywhere(asked, h.putClaim, func(host fleet.HostName, r authority.Reply) error {
			h.replies[host] = r
			return nil
		})
		if err != nil {
			return err
		}
		settled, out := h.move.Settle(h.replies)
		switch out.Course {
		case authority.Proceed:
			return h.keep(settled)
		case authority.Again:
			if err := h.again(settled, out); err != nil {
				return err
			}
		case authority.Stop, authority.Rebase: // the second is of a move
			return errors.Join(out.Refusal, h.mover.end(settled, out.Release))
		}
	}
}

// again begins the round of a higher generation.
func (h *healer) again(next authority.Move, out authority.Outcome) error {
	if err := h.higher(next, out); err != nil {
		return err
	}
	h.look()
	next, err := next.Resume(h.situation())
	if err != nil {
		return err
	}
	return h.keep(next)
}

// joined notes in the receipt what the recorded join has made one.
func (h *healer) joined(s joinedSide) {
	quorum := len(h.move.Granted) >= authority.Majority(len(h.move.Electorate))
	h.receipt.State, h.receipt.Quorum = healJoined, &quorum
	h.receipt.Joined = append(h.receipt.Joined, s)
}

// conclude says what has come of it.
func (h *healer) conclude() error {
	r := &h.receipt
	if r.State != healPlanned {
		r.Generation, r.Commit = h.held.Generation, h.held.Commit
	}
	r.Authority = authority.HeadOf(h.copied).Authority
	var missing []string
	if r.Store.Error != "" {
		missing = append(missing, "this host's own repository did not take it: "+r.Store.Error)
	}
	for _, other := range r.Repositories {
		if other.Error != "" {
			missing = append(missing, fmt.Sprintf("%s (%s)", other.Host, other.Error))
		}
	}
	was := r.State
	if missing != nil {
		r.State = healPartial
	} else if err := h.settleDuty(); err != nil {
		return err
	}
	if h.asJSON {
		if err := h.app.printJSON(r); err != nil {
			return err
		}
	} else {
		fmt.Fprint(h.app.stdout, r.say(was))
	}
	if missing != nil {
		return fmt.Errorf("done in part only: %s; run stado registry heal again to go on", strings.Join(missing, "; "))
	}
	if h.dryRun || h.stands {
		return nil
	}
	return h.forget()
}

// settleDuty ends what kept this host from taking changes, when it is the authority of all that was joined.
func (h *healer) settleDuty() error {
	record, err := duty.Load(h.home)
	if record == nil || err != nil || h.dryRun || h.copied.Registry.Directory.Authority.Host != h.self {
		return err
	}
	return duty.Write(durable.Folder{Path: h.home, Fault: h.fault}, nil)
}

// say is the answer for a person.
func (r healReceipt) say(state healState) string {
	var b strings.Builder
	for _, s := range r.Joined {
		what := "joined the history of"
		if state == healPlanned {
			what = "would join the history of"
		}
		fmt.Fprintf(&b, "%s %s, generation %d, commit %s, at service directory generation %d\n", what, s.Host, s.Generation, s.Commit, r.Generation)
	}
	b.WriteString(r.Diff)
	if state == healPlanned && len(r.Joined) == 0 {
		fmt.Fprintf(&b, "would adopt service directory generation %d\n", r.Generation)
	}
	if state == healAdopted {
		fmt.Fprintf(&b, "adopted service directory generation %d, commit %s\n", r.Generation, r.Commit)
	}
	for _, s := range r.Repositories {
		if s.Version != "" {
			fmt.Fprintf(&b, "the repository of %s is at %s\n", s.Host, s.Version)
		}
	}
	if b.Len() == 0 && r.State == healNothing {
		fmt.Fprintf(&b, "nothing to join: every history that could be read is that of generation %d, commit %s\n", r.Generation, r.Commit)
	}
	return b.String()
}
