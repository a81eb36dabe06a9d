package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/store"
)

// agentStatus is the answer of `stado agent status`.
type agentStatus struct {
	Home    string           `json:"home"`
	Running bool             `json:"running"`
	State   *status.Resolver `json:"resolver"` // from the running agent; from its last file when it is stopped; null when there is none
	// Unfinished is a move of the authority role, or a join of two histories, that this host has begun and not ended.
	Unfinished string `json:"unfinished,omitempty"`
}

func newAgentStatus(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Say whether an agent runs on this host, and what it is doing",
		Long: `Say whether an agent runs on this host: the running one is asked over its socket; when none runs, the last published state is
shown. Exit status is 0 when one runs and serves.`,
		Example: "  stado agent status --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := a.clientHome(status.ResolverFile)
			if err != nil {
				return refused(err)
			}
			st, err := askAgent(c.Context(), home)
			if err != nil {
				return refused(err)
			}
			st.Unfinished = unfinished(home)
			if asJSON {
				err = a.printJSON(st)
			} else {
				a.printAgent(st)
			}
			if err != nil {
				return refused(err)
			}
			if !st.Running || st.State.State != status.StateServing {
				return notReady()
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// askAgent asks the agent of a state directory; with none running it falls back to what the last one published.
func askAgent(ctx context.Context, home string) (agentStatus, error) {
	st := agentStatus{Home: home}
	doc, err := fetchState(ctx, filepath.Join(home, agent.SocketFile))
	switch {
	case err == nil:
		st.Running, st.State = true, doc
		return st, nil
	case errors.Is(err, os.ErrPermission):
		return st, fmt.Errorf("only the owner of %s may ask its agent; `stado resolver status` reads what it published", home)
	case !notRunning(err):
		return st, fmt.Errorf("cannot ask the agent of %s: %w", home, err)
	}
	in := status.ReadInputs(home, time.Now())
	if in.StateErr != nil {
		return st, in.StateErr
	}
	st.State = in.State
	lookAtSuspension(home, st.State)
	return st, nil
}

// lookAtSuspension brings the document of an agent that has stopped up to date: adoption may have been suspended since, or resumed. Who may
// not look has the document.
func lookAtSuspension(home string, doc *status.Resolver) {
	sus, err := store.ReadSuspension(filepath.Join(home, registryFolder))
	if err != nil || doc == nil {
		return
	}
	if doc.Suspended = nil; sus != nil {
		doc.Suspended = &status.Suspension{Reason: sus.Reason, Since: sus.Since, Until: sus.Until}
	}
}

// notRunning reports that nobody answers on an agent's socket.
func notRunning(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTDIR)
}

func fetchState(ctx context.Context, socket string) (*status.Resolver, error) {
	data, err := overSocket(ctx, socket, http.MethodGet, "/v1/status")
	if err != nil {
		return nil, err
	}
	var doc status.Resolver
	return &doc, json.Unmarshal(data, &doc)
}

// overSocket asks a running agent, and gives the body of its answer.
func overSocket(ctx context.Context, socket, method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("the agent answered %s", resp.Status)
	}
	return data, nil
}

func (a *app) printAgent(st agentStatus) {
	switch {
	case st.State == nil:
		fmt.Fprintf(a.stdout, "no agent runs on %s and none has published state there\n", st.Home)
		return
	case st.Running:
		fmt.Fprintf(a.stdout, "agent pid=%d home=%s running\n", st.State.PID, st.Home)
	default:
		fmt.Fprintf(a.stdout, "agent home=%s stopped; its last state was published %s\n", st.Home, st.State.UpdatedAt.Format(time.RFC3339))
	}
	s := st.State
	generation := "-"
	if s.Generation > 0 {
		generation = fmt.Sprint(s.Generation)
	}
	fmt.Fprintf(a.stdout, "resolver %s state=%s generation=%s commit=%s\n", dash(string(s.Target)), s.State, generation, short(s.StoreVersion))
	if s.Reason != "" {
		fmt.Fprintln(a.stdout, "reason "+s.Reason)
	}
	if s.Fence != nil && s.Fence.Reset != nil {
		fmt.Fprintln(a.stdout, fleet.EscapeControls(status.SayReset(*s.Fence)))
	}
	if s.Suspended.Stands(time.Now()) {
		fmt.Fprintln(a.stdout, fleet.EscapeControls(status.SaySuspension(*s.Suspended)))
	}
	if s.Duty != nil {
		fmt.Fprintln(a.stdout, fleet.EscapeControls(s.Duty.Sentence))
	}
	for _, d := range s.Doubts {
		fmt.Fprintln(a.stdout, fleet.EscapeControls(d.Sentence))
	}
	if st.Unfinished != "" {
		fmt.Fprintln(a.stdout, st.Unfinished)
	}
}
