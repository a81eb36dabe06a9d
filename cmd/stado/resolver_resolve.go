package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/durable"
)

// resolution is the answer of the resolution API.
type resolution struct {
	Service      string           `json:"service"`
	Generation   fleet.Generation `json:"generation"`
	GatewayURL   *string          `json:"gateway_url"`
	Capabilities []string         `json:"capabilities"`
}

func newResolverResolve(a *app) *cobra.Command {
	var asJSON bool
	var consumer string
	c := &cobra.Command{
		Use:     "resolve SERVICE",
		Short:   "Ask this host's resolver for a service, as a program would",
		Example: "  stado resolver resolve hello --consumer curl --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if consumer == "" {
				return misused(fmt.Errorf("--consumer is required: a service is resolved for one of its declared consumers"))
			}
			home, err := a.clientHome(status.ResolverFile)
			if err != nil {
				return refused(err)
			}
			var doc status.Resolver
			if err := durable.ReadJSON(filepath.Join(home, status.ResolverFile), &doc); err != nil {
				return refused(fmt.Errorf("cannot find this host's resolver: %w (is an agent running? `stado agent status`)", err))
			}
			if doc.API == nil {
				return refused(fmt.Errorf("this host's resolver holds no listener%s", because(doc.Reason)))
			}
			r, err := askResolver(c.Context(), doc.API.Bind, args[0], consumer)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(r)
			}
			gateway := "no adapter for this consumer on this host"
			if r.GatewayURL != nil {
				gateway = *r.GatewayURL
			}
			fmt.Fprintf(a.stdout, "%s generation=%d capabilities=%s\n%s\n", r.Service, r.Generation, strings.Join(r.Capabilities, ","), gateway)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&consumer, "consumer", "", "consumer that asks (required)")
	return c
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func askResolver(ctx context.Context, bind, service, consumer string) (resolution, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	b, err := fleet.ParseBind(bind)
	if err != nil {
		return resolution{}, refused(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, b.Network, dialable(b))
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://resolver/v1/resolve/service/"+url.PathEscape(service), http.NoBody)
	if err != nil {
		return resolution{}, refused(err)
	}
	req.Header.Set("X-Stado-Consumer", consumer)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return resolution{}, transient(fmt.Errorf("the resolver at %s did not answer: %w", bind, err))
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return resolution{}, transient(err)
	}
	if resp.StatusCode != http.StatusOK {
		var e struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(data, &e) != nil || e.Error == "" {
			e.Error = resp.Status
		}
		return resolution{}, refused(fmt.Errorf("service %q is not resolved for consumer %q: %s", service, consumer, e.Error))
	}
	var r resolution
	if err := json.Unmarshal(data, &r); err != nil {
		return r, refused(fmt.Errorf("the resolver at %s gave an answer that cannot be read: %w", bind, err))
	}
	return r, nil
}
