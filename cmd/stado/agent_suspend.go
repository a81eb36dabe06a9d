package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/store"
)

// suspendReceipt is the JSON answer of `stado agent suspend` and `stado agent resume`.
type suspendReceipt struct {
	Home      string            `json:"home"`
	Suspended *store.Suspension `json:"suspended"` // what stands now; null: adoption goes on
	Replaced  *store.Suspension `json:"replaced"`  // what stood before; null: nothing did
	Running   bool              `json:"running"`   // an agent runs, and was told
}

func newAgentSuspend(a *app) *cobra.Command {
	var reason, until string
	var asJSON bool
	c := &cobra.Command{
		Use:   "suspend --reason TEXT",
		Short: "Let this host go on with the registry that it holds, whatever the authority has",
		Long: `Suspend adoption on this host: what it holds of the registry is served on, and nothing else is held by anybody: not what the
authority has, not what is handed over, not what 'stado agent accept-reset' names. The agent goes on asking and judging, and says what
it keeps back. A running agent knows at once, a new one from its start on: the word is kept in the state directory.

It ends with 'stado agent resume', or by itself at the time of --until: an RFC 3339 time, or a duration from now. What came in the
meantime is adopted at the next refresh then, each commit judged in its turn. A suspension that stands is replaced.

Exit status: 0 adoption is suspended, 1 it could not be, 2 usage.`,
		Example: "  stado agent suspend --reason 'the rack moves' --until 2h\n  stado agent suspend --reason 'frozen for the audit' --until 2027-01-08T06:00:00Z --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			sus := store.Suspension{Reason: strings.TrimSpace(reason), Since: time.Now().UTC().Truncate(time.Second)}
			if err := checkReason(sus.Reason); err != nil {
				return misused(err)
			}
			var err error
			if sus.Until, err = parseUntil(until, time.Now()); err != nil {
				return misused(err)
			}
			st, home, err := a.ownStore()
			if err != nil {
				return refused(err)
			}
			r := suspendReceipt{Home: home, Suspended: &sus, Replaced: st.Suspension()}
			if err := st.Suspend(sus); err != nil {
				return refused(err)
			}
			return a.answerSuspension(c.Context(), r, asJSON)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for whoever looks at this host")
	c.Flags().StringVar(&until, "until", "", "when it ends by itself: an RFC 3339 time, or a duration from now")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func newAgentResume(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "resume",
		Short:   "Adopt again what the authority has",
		Long:    "End the suspension of 'stado agent suspend'. A running agent asks the authority at once. Where nothing is suspended it changes nothing.\n\nExit status: 0 adoption goes on, 1 the suspension could not be ended.",
		Example: "  stado agent resume --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			st, home, err := a.ownStore()
			if err != nil {
				return refused(err)
			}
			r := suspendReceipt{Home: home}
			if r.Replaced, err = st.Resume(); err != nil {
				return refused(err)
			}
			return a.answerSuspension(c.Context(), r, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// checkReason refuses what could not stand in one line of a status.
func checkReason(reason string) error {
	switch {
	case reason == "":
		return errors.New("--reason is missing (say why, for whoever looks at this host)")
	case fleet.OneLine(reason, fleet.MaxText) != reason:
		return fmt.Errorf("--reason does not fit on one line of %d characters (write one sentence without control characters)", fleet.MaxText)
	}
	return nil
}

// parseUntil reads a time, or a duration from now; empty is nil, no end.
func parseUntil(word string, now time.Time) (*time.Time, error) {
	if word == "" {
		return nil, nil
	}
	until, err := time.Parse(time.RFC3339, word)
	if err != nil {
		d, err := time.ParseDuration(word)
		if err != nil {
			return nil, fmt.Errorf("--until is %q, which is neither a time nor a duration (write 2027-01-08T06:00:00Z or 2h)", word)
		}
		until = now.Add(d)
	}
	if until = until.UTC().Truncate(time.Second); !until.After(now) {
		return nil, fmt.Errorf("--until is %s, which is not in the future (it is %s here)", until.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return &until, nil
}

// ownStore opens the store of this host beside an agent that may run. It makes no state directory: a wrong --home would look like one.
func (a *app) ownStore() (st *store.Store, home string, err error) {
	if home, err = a.clientHome(filepath.Join(registryFolder, store.HeldFile)); err != nil {
		return nil, "", err
	}
	if _, err := os.Stat(home); err != nil {
		return nil, home, noRegistry(home)
	}
	st, err = store.Open(filepath.Join(home, registryFolder), nil)
	return st, home, err
}

func noRegistry(home string) error {
	return fmt.Errorf("no agent has kept a registry in %s (name another state directory: --home)", home)
}

func (a *app) answerSuspension(ctx context.Context, r suspendReceipt, asJSON bool) error {
	r.Running = tellAgent(ctx, r.Home) == nil
	if asJSON {
		return a.printJSON(r)
	}
	var out bytes.Buffer
	switch {
	case r.Suspended != nil:
		fmt.Fprintf(&out, "adoption is suspended on this host%s: %s\n", untilWords(r.Suspended.Until), r.Suspended.Reason)
	case r.Replaced != nil:
		fmt.Fprintf(&out, "adoption goes on; it was suspended since %s: %s\n", r.Replaced.Since.Format(time.RFC3339), r.Replaced.Reason)
	default:
		fmt.Fprintln(&out, "adoption was not suspended")
	}
	if !r.Running {
		fmt.Fprintf(a.stderr, "no agent on %s was told; one that starts there reads it\n", r.Home)
	}
	_, err := a.stdout.Write(out.Bytes())
	return err
}

func untilWords(until *time.Time) string {
	if until == nil {
		return ""
	}
	return " until " + until.Format(time.RFC3339)
}

// tellAgent has the agent of a state directory look at its store, and ask the authority, now.
func tellAgent(ctx context.Context, home string) error {
	_, err := overSocket(ctx, filepath.Join(home, agent.SocketFile), http.MethodPost, "/v1/refresh")
	return err
}
