package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/bootstrap"
)

// rebootReceipt is the JSON answer of `stado host reboot`.
type rebootReceipt struct {
	Host    fleet.HostName       `json:"host"`
	Status  string               `json:"status"` // rebooted, ordered or planned
	Path    string               `json:"path"`   // the SSH path that was used
	Before  bootstrap.AgentState `json:"before"`
	Boot    string               `json:"boot_id"`         // before
	NewBoot string               `json:"new_boot_id"`     // "" when it was not waited for
	Seconds float64              `json:"seconds"`         // from the order until the host let us in again
	State   bootstrap.AgentState `json:"state,omitempty"` // of the agent afterwards
	Says    string               `json:"says,omitempty"`
	Steps   []bootstrap.Step     `json:"steps"`
}

func newHostReboot(a *app) *cobra.Command {
	var f agentFlags
	var noWait bool
	c := &cobra.Command{
		Use:   "reboot HOST",
		Short: "Start a host anew and wait until its agent serves again",
		Long: `Start a host anew, and wait until it lets us in with another boot id and, where something starts the agent with the host, until its
listeners stand. The login must be root's. A host that is the registry authority is away meanwhile: the others go on with what they hold.
This machine is not started anew by this verb.` + channelHelp + `

Exit status: 0 it is back, 1 its agent does not serve, or refused, 2 usage, 69 the host does not answer, or did not come back in time.`,
		Example: "  stado host reboot a1 --dry-run\n  stado host reboot --registry fleet a1 --login root --timeout 15m --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.reboot(c.Context(), f, fleet.HostName(args[0]), noWait)
		},
	}
	f.flags(c, 10*time.Minute)
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the host to come back")
	return c
}

func (a *app) reboot(ctx context.Context, f agentFlags, name fleet.HostName, noWait bool) error {
	t, err := a.target(ctx, f.channelFlags, name)
	if err != nil {
		return err
	}
	w, err := f.place(name)
	if err != nil {
		return err
	}
	if t.Local {
		return refused(fmt.Errorf("host %s is this machine, and whoever waits here goes down with it (run: systemctl reboot)", name))
	}
	ctx, cancel := within(ctx, f.timeout, "the reboot of host "+string(name))
	defer cancel()
	facts, path, err := lookAtAgent(ctx, t, w)
	if err != nil {
		return channelExit(err)
	}
	step, err := facts.Reboot(string(name))
	if err != nil {
		return refused(err)
	}
	before, found := facts.State()
	answer := rebootReceipt{Host: name, Status: statusPlanned, Path: path, Before: before, Boot: facts.Boot, Steps: []bootstrap.Step{step}}
	if t.registry.Directory.Authority.Host == name {
		fmt.Fprintf(a.stderr, "host %s is the registry authority; the other hosts go on with what they hold until it answers again\n", name)
	}
	if f.dryRun {
		if !f.asJSON {
			fmt.Fprintf(a.stdout, "found      %s\n%-9s  %s (%s)\n", fleet.EscapeControls(found), step.Action, name, step.Detail)
		}
		return a.rebooted(answer, f.asJSON, nil)
	}
	began := time.Now()
	if _, _, err := ask(ctx, t, step.Words, nil); err != nil {
		return channelExit(fmt.Errorf("host %s: %s: %w", name, step.Detail, err))
	}
	if answer.Status = "ordered"; noWait {
		return a.rebooted(answer, f.asJSON, nil)
	}
	if !f.asJSON {
		fmt.Fprintf(a.stdout, "host %s: %s ordered; waiting until it is back\n", name, step.Detail)
	}
	if facts, err = untilAnother(ctx, t, w, facts.Boot); err != nil {
		return a.rebooted(answer, f.asJSON, err)
	}
	answer.Status, answer.NewBoot, answer.Seconds = "rebooted", facts.Boot, time.Since(began).Seconds()
	state, _ := facts.State()
	switch {
	case state == bootstrap.AgentServes:
	case facts.Enabled:
		facts, err = untilServing(ctx, t, w, facts)
	case before != bootstrap.AgentStopped:
		err = refused(fmt.Errorf("host %s is back, and nothing there starts its agent with it (run: stado host recover %s%s)", name, name, f.below()))
	}
	answer.State, answer.Says = facts.State()
	return a.rebooted(answer, f.asJSON, err)
}

// rebooted prints how far the reboot of a host has come.
func (a *app) rebooted(answer rebootReceipt, asJSON bool, failure error) error {
	switch {
	case asJSON:
		if err := a.printJSON(answer); err != nil {
			return refused(err)
		}
	case answer.Status == "rebooted":
		fmt.Fprintf(a.stdout, "host %s is back after %.0fs; %s\n", answer.Host, answer.Seconds, fleet.EscapeControls(answer.Says))
	case failure == nil && answer.Status == "ordered":
		fmt.Fprintf(a.stdout, "host %s: its reboot is ordered\n", answer.Host)
	case failure == nil:
		fmt.Fprintf(a.stderr, "host %s: a dry run, nothing was changed\n", answer.Host)
	}
	return failure
}

// untilAnother waits until the host lets us in with another boot id. That it does not meanwhile is what is expected.
func untilAnother(ctx context.Context, t target, w bootstrap.Wanted, boot string) (bootstrap.Facts, error) {
	last := errors.New("it still runs since before")
	for {
		facts, _, err := lookAtAgent(ctx, t, w)
		switch {
		case ctx.Err() != nil:
			if errors.Is(ctx.Err(), context.Canceled) {
				return bootstrap.Facts{}, channelExit(context.Cause(ctx))
			}
			return bootstrap.Facts{}, transient(fmt.Errorf("host %s did not come back in time: %w (wait longer: --timeout)", t.name, last))
		case err == nil && facts.Boot != boot && facts.Boot != "":
			return facts, nil
		case err != nil:
			last = err
		}
		pause(ctx, lookAgain)
	}
}
