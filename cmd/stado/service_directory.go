package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
)

// verifyTimeout bounds one proof that an address answers.
const verifyTimeout = 5 * time.Second

func newDirectoryShow(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show [NAME]", Short: "Show where services are placed", Args: cobra.MaximumNArgs(1),
		Example: "  stado service directory show\n  stado service directory show hello --json",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.held()
			if err != nil {
				return err
			}
			services := s.Registry.Directory.Services
			if len(args) == 1 {
				svc, ok := services[fleet.ServiceName(args[0])]
				if !ok {
					return refused(unknownService(args[0], s.Registry))
				}
				services = map[fleet.ServiceName]fleet.Service{fleet.ServiceName(args[0]): svc}
			}
			if asJSON {
				return a.printJSON(map[string]any{"generation": s.Generation(), "services": services})
			}
			rows := [][]string{{"SERVICE", "HOST", "STATE", "ENDPOINT"}}
			for _, name := range s.Registry.ServiceNames() {
				svc, ok := services[name]
				if !ok {
					continue
				}
				rows = append(rows, placements(name, svc, s.Registry.HostNames())...)
			}
			return a.table(rows)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func unknownService(name string, r *fleet.Registry) error {
	return fmt.Errorf("unknown logical service %q (the registry declares: %s)", name, joined(r.ServiceNames()))
}

func placements(name fleet.ServiceName, svc fleet.Service, hosts []fleet.HostName) [][]string {
	var rows [][]string
	for _, h := range hosts {
		ep, ok := svc.Endpoints[h]
		if !ok {
			continue
		}
		state := "standby"
		for _, active := range svc.ActiveHosts {
			if active == h {
				state = "active"
			}
		}
		rows = append(rows, []string{string(name), string(h), state, ep.URL})
	}
	return rows
}

// connection is the answer of `stado service directory connect`.
type connection struct {
	Service     fleet.ServiceName  `json:"service"`
	Consumer    fleet.ConsumerName `json:"consumer"`
	PlacedOn    []fleet.HostName   `json:"placed_on"`
	From        fleet.HostName     `json:"from"`
	URL         string             `json:"url"`
	Verified    bool               `json:"verified"`
	Status      string             `json:"status,omitempty"` // what the proof saw, such as "HTTP 200"
	CheckedFrom fleet.HostName     `json:"checked_from,omitempty"`
	Observed    *time.Time         `json:"observed,omitempty"`
}

type connectFlags struct {
	consumer string
	noVerify bool
	asJSON   bool
	stdio    bool
}

func newDirectoryConnect(a *app) *cobra.Command {
	var f connectFlags
	c := &cobra.Command{
		Use:   "connect NAME",
		Short: "Print the address at which this host reaches a service, once it is proved to answer",
		Long: `Print the stable local address at which this host reaches a service. Unless --no-verify is given the address is asked first; an
adapter that holds connections unanswered is refused at once. There is no fallback address.

With --stdio, stdin and stdout are joined to the adapter, so that ssh can use the verb as a ProxyCommand.`,
		Example: `  curl "$(stado service directory connect hello)"
  stado service directory connect hello --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.connect(c, fleet.ServiceName(args[0]), f)
		},
	}
	c.Flags().StringVar(&f.consumer, "consumer", "", "consumer whose adapter is meant (default: the only one on this host)")
	c.Flags().BoolVar(&f.noVerify, "no-verify", false, "print the address without asking it")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&f.stdio, "stdio", false, "join stdin and stdout to the adapter")
	return c
}

// connect works from what the agent publishes and from its resolution API, so that every program of the host may use it.
func (a *app) connect(c *cobra.Command, name fleet.ServiceName, f connectFlags) error {
	home, err := a.clientHome(status.ResolverFile)
	if err != nil {
		return refused(err)
	}
	in := a.inputs(c.Context(), home)
	switch {
	case in.StateErr != nil:
		return refused(in.StateErr)
	case in.State == nil:
		return refused(fmt.Errorf("no resolver has published state at %s: nothing has served here since that file was last removed", in.StatePath))
	case in.Stopped:
		return refused(fmt.Errorf("no agent runs on %s, so its resolver holds no listener (start one: stado agent run)", home))
	case in.State.API == nil && in.State.Reason != "":
		return refused(fmt.Errorf("the resolver of this host holds no listener: %s", in.State.Reason))
	}
	adapter, err := chooseAdapter(in.State, name, fleet.ConsumerName(f.consumer))
	if err != nil {
		return refused(err)
	}
	if err := errors.Join(refuseUnbound(in.State, adapter), refuseHeld(in, adapter)); err != nil {
		return refused(err)
	}
	if f.stdio {
		return a.joinStdio(c.Context(), adapter)
	}
	resolved, err := askResolver(c.Context(), in.State.API.Bind, string(name), string(adapter.Consumer))
	if err != nil {
		return err
	}
	answer := connection{Service: name, Consumer: adapter.Consumer, PlacedOn: placedOn(in.State, adapter), From: in.State.Target}
	if resolved.GatewayURL == nil {
		return refused(fmt.Errorf("the resolver of this host names no address for service %s and consumer %s at generation %d", name, adapter.Consumer, resolved.Generation))
	}
	answer.URL = *resolved.GatewayURL
	if !f.noVerify {
		if err := verify(c.Context(), adapter, &answer); err != nil {
			return err
		}
	}
	if f.asJSON {
		return a.printJSON(answer)
	}
	fmt.Fprintln(a.stdout, answer.URL)
	return nil
}

func placedOn(s *status.Resolver, ad status.Listener) []fleet.HostName {
	hosts := []fleet.HostName{}
	for _, c := range s.Candidates {
		if c.Service == ad.Service && c.Consumer == ad.Consumer {
			hosts = append(hosts, c.Host)
		}
	}
	return hosts
}

func chooseAdapter(s *status.Resolver, name fleet.ServiceName, consumer fleet.ConsumerName) (status.Listener, error) {
	var found []status.Listener
	var consumers []fleet.ConsumerName
	var services []fleet.ServiceName
	for _, ad := range s.Adapters {
		if !slices.Contains(services, ad.Service) {
			services = append(services, ad.Service)
		}
		if ad.Service == name && (consumer == "" || ad.Consumer == consumer) {
			found = append(found, ad)
			consumers = append(consumers, ad.Consumer)
		}
	}
	switch len(found) {
	case 0:
		return status.Listener{}, fmt.Errorf("host %s has no adapter for service %s%s (it has some for: %s; add one under hosts.%s.service_resolver.adapters)",
			s.Target, name, forConsumer(consumer), dash(joined(services)), s.Target)
	case 1:
		return found[0], nil
	}
	return status.Listener{}, fmt.Errorf("host %s has adapters for service %s and consumers %s: say which with --consumer", s.Target, name, joined(consumers))
}

func forConsumer(c fleet.ConsumerName) string {
	if c == "" {
		return ""
	}
	return " and consumer " + string(c)
}

// refuseUnbound refuses an adapter that its resolver does not hold: whoever answers there is somebody else. Whether other adapters are
// held is no matter of this caller's.
func refuseUnbound(s *status.Resolver, l status.Listener) error {
	switch {
	case l.Problem != "":
		return errors.New(l.Problem)
	case !l.Listening:
		return fmt.Errorf("the resolver of this host does not listen on %s%s", l.Bind, because(s.Reason))
	}
	return nil
}

// refuseHeld is the caller's side of the held rule: a request sent now would stand behind the ones that stand.
func refuseHeld(in status.Inputs, adapter status.Listener) error {
	if in.WaitingErr != nil {
		return in.WaitingErr
	}
	interval := time.Duration(in.State.RefreshSeconds) * time.Second
	for _, w := range status.Held(in.Waiting, in.Now, interval) {
		if w.Bind == adapter.Bind {
			return fmt.Errorf("the adapter at %s holds connections unanswered longer than the %ds refresh interval, so a request sent now would stand behind them: %s; `stado resolver status` lists every one",
				adapter.Bind, in.State.RefreshSeconds, status.SayWait(w, in.Now))
		}
	}
	return nil
}

// verify asks the address: any HTTP answer counts, for anything else an accepted connection does.
func verify(ctx context.Context, ad status.Listener, answer *connection) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	bind, err := fleet.ParseBind(ad.Bind)
	if err != nil {
		return refused(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, bind.Network, dialable(bind))
	}
	if strings.HasPrefix(answer.URL, "http") {
		answer.Status, err = askHTTP(ctx, dial, answer.URL)
	} else {
		var conn net.Conn
		if conn, err = dial(ctx, "", ""); err == nil {
			err = conn.Close()
			answer.Status = "connected"
		}
	}
	if err != nil {
		return transient(fmt.Errorf("service %s did not answer at %s: %w (`stado resolver status` says what stands)", ad.Service, answer.URL, err))
	}
	now := time.Now().UTC()
	answer.Verified, answer.CheckedFrom, answer.Observed = true, answer.From, &now
	return nil
}

func askHTTP(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	// The certificate is the service's business with its callers; this only asks whether something answers.
	transport := &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusBadGateway {
		// The resolver's own refusals are a 502 with one sentence: it is the cause, so it is what the person must read.
		body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		if err == nil && len(body) > 0 {
			return "", errors.New(strings.TrimSpace(string(body)))
		}
	}
	return fmt.Sprintf("HTTP %d", resp.StatusCode), nil
}

func (a *app) joinStdio(ctx context.Context, ad status.Listener) error {
	bind, err := fleet.ParseBind(ad.Bind)
	if err != nil {
		return refused(err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, bind.Network, dialable(bind))
	if err != nil {
		return transient(fmt.Errorf("the adapter at %s did not take the connection: %w", ad.Bind, err))
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var copies errgroup.Group
	copies.Go(func() error {
		_, err := io.Copy(conn, os.Stdin)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			return errors.Join(err, half.CloseWrite())
		}
		return err
	})
	// The answer's end is the end: stdin may stay open for ever, and the process takes its reader down with it.
	if _, err := io.Copy(a.stdout, conn); err != nil {
		return transient(fmt.Errorf("the connection to %s broke: %w", ad.Bind, err))
	}
	return nil
}
