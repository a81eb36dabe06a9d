package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/bootstrap"
)

// recoverReceipt is the JSON answer of `stado host recover`.
type recoverReceipt struct {
	Host   fleet.HostName       `json:"host"`
	Status string               `json:"status"` // unchanged, recovered, failed or planned
	Path   string               `json:"path"`   // the SSH path that was used; local on this machine
	Found  string               `json:"found"`  // what the agent did before
	Steps  []bootstrap.Step     `json:"steps"`
	State  bootstrap.AgentState `json:"state"`
	Says   string               `json:"says"`  // the state in a sentence
	Agent  json.RawMessage      `json:"agent"` // the answer of `stado agent status --json` there; null when there is none
}

// agentFlags are those of the verbs that work on the agent of a host, or wait for it.
type agentFlags struct {
	channelFlags
	root    string
	asJSON  bool
	timeout time.Duration
}

func (f *agentFlags) flags(c *cobra.Command, timeout time.Duration) {
	f.channelFlags.flags(c)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "look at the host, print what would be done and change nothing")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the receipt as JSON")
	c.Flags().StringVar(&f.root, "root", "/", "directory of the host below which the agent was put")
	c.Flags().DurationVar(&f.timeout, "timeout", timeout, "end after this time")
}

// below is what another verb has to be given for the same place.
func (f agentFlags) below() string {
	if f.root == "/" {
		return ""
	}
	return " --root " + f.root
}

// place is where the agent of a host was put.
func (f agentFlags) place(host fleet.HostName) (bootstrap.Wanted, error) {
	w := bootstrap.Wanted{Host: string(host), Root: f.root}
	if err := w.CheckRoot(); err != nil {
		return w, misused(err)
	}
	return w, nil
}

func newHostRecover(a *app) *cobra.Command {
	var f agentFlags
	var anew bool
	c := &cobra.Command{
		Use:   "recover HOST",
		Short: "Bring the agent of a host back",
		Long: `Bring the agent of a host back: start it when none runs, and anew when it has a process that does not answer; then wait until its listeners
stand. One that answers is left alone, --restart starts it anew. What is installed does not change, which is what bootstrap is for. The
agent is started by systemd where its unit is, else left to itself.` + channelHelp + `

Exit status: 0 the agent serves, 1 it does not, or refused, 2 usage, 69 the host does not answer, no longer does, or not in time.`,
		Example: "  stado host recover a1\n  stado host recover --registry fleet a1 --login root --restart --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.recover(c.Context(), f, fleet.HostName(args[0]), anew)
		},
	}
	f.flags(c, 2*time.Minute)
	c.Flags().BoolVar(&anew, "restart", false, "start the agent anew also when it answers")
	return c
}

func (a *app) recover(ctx context.Context, f agentFlags, name fleet.HostName, anew bool) error {
	t, err := a.target(ctx, f.channelFlags, name)
	if err != nil {
		return err
	}
	w, err := f.place(name)
	if err != nil {
		return err
	}
	ctx, cancel := within(ctx, f.timeout, "the recovery of host "+string(name))
	defer cancel()
	facts, path, err := lookAtAgent(ctx, t, w)
	if err != nil {
		return channelExit(err)
	}
	state, found := facts.State()
	answer := recoverReceipt{Host: name, Status: "unchanged", Path: path, Found: found, Steps: []bootstrap.Step{}}
	step, err := w.Recover(facts, anew)
	if err != nil {
		return refused(err)
	}
	if step != nil {
		answer.Steps = append(answer.Steps, *step)
		if !f.asJSON {
			fmt.Fprintf(a.stdout, "found      %s\n%-9s  %s (%s)\n", fleet.EscapeControls(found), step.Action, step.Path, step.Detail)
		}
	}
	switch {
	case step != nil && f.dryRun:
		answer.Status = statusPlanned
	case step != nil:
		answer.Status = "recovered"
		if _, _, err := ask(ctx, t, step.Words, step.Stdin); err != nil {
			return channelExit(fmt.Errorf("host %s: %s of %s: %w", name, step.Action, step.Path, err))
		}
	}
	if answer.Status != statusPlanned && (step != nil || state != bootstrap.AgentServes) {
		if facts, err = untilServing(ctx, t, w, facts); err != nil {
			answer.Status = "failed"
		}
	}
	return a.recovered(answer, facts, f.asJSON, err)
}

// recovered prints how a recovery ended. failure says why it has not.
func (a *app) recovered(answer recoverReceipt, facts bootstrap.Facts, asJSON bool, failure error) error {
	answer.State, answer.Says = facts.State()
	if json.Valid([]byte(facts.Said)) {
		answer.Agent = json.RawMessage(facts.Said)
	}
	says := fleet.EscapeControls(answer.Says)
	switch {
	case asJSON:
		if err := a.printJSON(answer); err != nil {
			return refused(err)
		}
	case answer.Status == statusPlanned:
		fmt.Fprintf(a.stderr, "host %s: a dry run, nothing was changed\n", answer.Host)
	case answer.Status == "unchanged":
		fmt.Fprintf(a.stdout, "host %s: %s; nothing to recover\n", answer.Host, says)
	case answer.Status == "recovered":
		fmt.Fprintf(a.stdout, "host %s: %s\n", answer.Host, says)
	}
	return failure
}

// lookAtAgent asks the host what its agent is doing.
func lookAtAgent(ctx context.Context, t target, w bootstrap.Wanted) (bootstrap.Facts, string, error) {
	words, script := w.LookAtAgent()
	answer, path, err := ask(ctx, t, words, []byte(script))
	if err != nil {
		return bootstrap.Facts{}, "", err
	}
	facts, err := bootstrap.ParseFacts(answer)
	if err != nil {
		err = fmt.Errorf("host %s: %w", t.name, err)
	}
	return facts, path, err
}

// lookAgain is the time between two looks at a host that something is expected of.
const lookAgain = 2 * time.Second

// untilServing waits for the listeners of a host's agent, as long as the context lets it. The facts, which it is given too, are the last that
// were seen.
func untilServing(ctx context.Context, t target, w bootstrap.Wanted, facts bootstrap.Facts) (bootstrap.Facts, error) {
	for {
		seen, _, err := lookAtAgent(ctx, t, w)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return facts, refused(errors.New(sayNotServing(t.name, facts)))
		case err != nil:
			return facts, channelExit(err)
		}
		facts = seen
		if state, _ := facts.State(); state == bootstrap.AgentServes {
			return facts, nil
		}
		pause(ctx, lookAgain)
	}
}

func sayNotServing(host fleet.HostName, f bootstrap.Facts) string {
	_, says := f.State()
	if f.Log != "" {
		says += "; it has last logged: " + f.Log
	}
	return fleet.EscapeControls(fmt.Sprintf("host %s: %s, and it did not serve in time (wait longer: --timeout)", host, says))
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
