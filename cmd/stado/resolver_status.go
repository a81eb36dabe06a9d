package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
)

// probeTimeout bounds one look at a listener of this host. Loopback answers in microseconds; a full accept queue must not hold a report.
const probeTimeout = 250 * time.Millisecond

func newResolverStatus(a *app) *cobra.Command {
	var asJSON bool
	var target string
	c := &cobra.Command{
		Use:   "status",
		Short: "Say whether this host's resolver serves, and everything that keeps it from being ready",
		Long: `Say whether this host's resolver serves. The answer comes from the published files and from a look at the listeners, so it works
with the agent stopped. Exit status is 0 only for ready.`,
		Example: "  stado resolver status\n  stado resolver status --json | jq .blockers",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := a.clientHome(status.ResolverFile)
			if err != nil {
				return refused(err)
			}
			in := a.inputs(c.Context(), home)
			if target != "" && in.State != nil && string(in.State.Target) != target {
				return refused(fmt.Errorf("this host's resolver serves target %q, not %q: ask on that host", in.State.Target, target))
			}
			in.Probe = listening
			report := status.Judge(in)
			if report.Target == "" {
				report.Target = fleet.HostName(target)
			}
			if asJSON {
				if err := a.printJSON(report); err != nil {
					return refused(err)
				}
			} else {
				a.printReport(report)
			}
			if report.Verdict != status.VerdictReady {
				return notReady()
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&target, "target", "", "host that the answer must be about (default: the one the published state names)")
	return c
}

// inputs are the published documents of a state directory, with the running agent's own word where it can be asked: on a full disk the
// file is older than what the agent knows. Somebody who may not ask it has the file.
func (a *app) inputs(ctx context.Context, home string) status.Inputs {
	in := status.ReadInputs(home, time.Now())
	doc, err := fetchState(ctx, filepath.Join(home, agent.SocketFile))
	switch {
	case err == nil:
		in.State, in.StateErr = doc, nil
	case notRunning(err):
		in.Stopped = in.State != nil
		lookAtSuspension(home, in.State)
	}
	return in
}

// listening reports whether something accepts on a bind.
func listening(bind string) bool {
	b, err := fleet.ParseBind(bind)
	if err != nil {
		return false
	}
	conn, err := net.DialTimeout(b.Network, dialable(b), probeTimeout)
	if err != nil {
		// A descriptor shortage of ours says nothing about the listener; neither does a socket we may not open.
		return errors.Is(err, os.ErrPermission)
	}
	return conn.Close() == nil
}

// dialable is an address to reach a listener at: a wildcard bind is asked over loopback.
func dialable(b fleet.Bind) string {
	if b.Network == "tcp" && b.Addr.Addr().IsUnspecified() {
		host := "127.0.0.1"
		if b.Addr.Addr().Is6() {
			host = "::1"
		}
		return net.JoinHostPort(host, fmt.Sprint(b.Addr.Port()))
	}
	return b.Address
}

func (a *app) printReport(r status.Report) {
	generation := "-"
	if r.Generation != nil {
		generation = fmt.Sprint(*r.Generation)
	}
	target := string(r.Target)
	if target == "" {
		target = "-"
	}
	fmt.Fprintf(a.stdout, "resolver %s state=%s verdict=%s generation=%s stale=%s\n", target, r.State, r.Verdict, generation, yesNo(r.Stale))
	if r.API != nil {
		fmt.Fprintf(a.stdout, "api %s %s\n", r.API.Bind, probed(r.API.Listening))
	}
	for _, l := range r.Adapters {
		fmt.Fprintf(a.stdout, "adapter %s consumer=%s %s %s\n", l.Service, l.Consumer, l.Bind, probed(l.Listening))
	}
	if r.Authority.Host != "" {
		reach := "unknown"
		if up := r.Authority.Reachable; up != nil {
			reach = map[bool]string{true: "reachable", false: "unreachable"}[*up]
		}
		offered := "-"
		if g := r.Authority.Generation; g > 0 {
			offered = fmt.Sprint(g)
		}
		fmt.Fprintf(a.stdout, "authority %s source=%s %s generation=%s\n", r.Authority.Host, r.Authority.Source, reach, offered)
	}
	if r.Fence != nil && r.Fence.Reset != nil {
		fmt.Fprintln(a.stdout, fleet.EscapeControls(status.SayReset(*r.Fence)))
	}
	if r.Suspended != nil {
		fmt.Fprintln(a.stdout, fleet.EscapeControls(status.SaySuspension(*r.Suspended)))
	}
	if r.Duty != nil && !r.Duty.Forked { // else it is a blocker
		fmt.Fprintln(a.stdout, fleet.EscapeControls(r.Duty.Sentence))
	}
	for _, d := range r.Doubts {
		fmt.Fprintln(a.stdout, fleet.EscapeControls(d.Sentence))
	}
	for _, w := range r.WaitingOpens {
		unproven := ""
		if w.UnprovenSince != nil {
			unproven = " unproven_since=" + w.UnprovenSince.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(a.stdout, "waiting %s consumer=%s %s client=%s phase=%s waited=%.0fs%s\n", w.Service, w.Consumer, w.Bind, w.Client, w.Phase, w.WaitedSeconds, unproven)
	}
	for _, c := range r.Candidates {
		if !c.Eligible {
			fmt.Fprintf(a.stdout, "candidate %s consumer=%s %s not eligible: %s\n", c.Service, c.Consumer, c.Host, c.Reason)
		}
	}
	for _, b := range r.Blockers {
		fmt.Fprintln(a.stdout, "blocker "+strings.ReplaceAll(b, "\n", " "))
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func probed(l *bool) string {
	switch {
	case l == nil:
		return "not-probed"
	case *l:
		return "listening"
	}
	return "not-listening"
}
