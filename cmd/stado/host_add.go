package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/change"
	"stado.internal/stado/schema"
)

// hostReceipt is the JSON answer of `stado host add`.
type hostReceipt struct {
	receipt
	Host fleet.HostName `json:"host"`
	File string         `json:"file"`
}

// hostFlags are what a new host is described by.
type hostFlags struct {
	ssh, zone, region, user, site, apiBind string
	fallbacks, hostnames, labels           []string
	refresh, stale                         int
}

func newHostAdd(a *app) *cobra.Command {
	var f changing
	var h hostFlags
	c := &cobra.Command{
		Use:   "add NAME --ssh DESTINATION",
		Short: "Declare a host",
		Long: `Declare the host NAME in a file of its own, hosts/NAME.cue or with --site hosts/SITE/NAME.cue;
where NAME ends in _test or _tool, which CUE does not read, the file is NAME.entry.cue. With --api-bind it has a resolver,
which begins without adapters.` + changeHelp,
		Example: "  stado host add delos --ssh stado@delos.example.net --zone fra1 --dry-run\n" +
			"  stado host add delos --ssh 'stado@[10.20.0.14]:2222' --ssh-fallback public=stado@delos.example.net --hostname delos.example.net --label role=app --api-bind 127.0.0.1:7700 --push",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := fleet.HostName(args[0])
			if err := checkName("host", args[0]); err != nil {
				return refused(err)
			}
			host, file, err := h.host(name)
			if err != nil {
				return refused(err)
			}
			out, err := a.apply(c, f, func(d *change.Draft) error {
				if _, declared := d.Registry.Hosts[name]; declared {
					return fmt.Errorf("host %s is declared already (%s)", name, d.At("hosts", string(name)))
				}
				d.Subject = change.Subject{Kind: "host", Summary: fmt.Sprintf("hosts/%s: new host", name)}
				return d.Create(file, host, "hosts", string(name))
			})
			if err != nil {
				return err
			}
			answer := hostReceipt{receipt: newReceipt(out, "added", "already_declared"), Host: name, File: file}
			return a.answerChange(f, out, answer, fmt.Sprintf("added host %s in %s", name, file), "")
		},
	}
	f.flags(c)
	c.Flags().StringVar(&h.ssh, "ssh", "", "SSH destination: user@host, user@[ipv6] or user@[host]:port")
	c.Flags().StringArrayVar(&h.fallbacks, "ssh-fallback", nil, "a further path to the host, NAME=DESTINATION (in order; may be given several times)")
	c.Flags().StringArrayVar(&h.hostnames, "hostname", nil, "a further name of the host (may be given several times)")
	c.Flags().StringVar(&h.zone, "zone", "", "failure domain of the host")
	c.Flags().StringVar(&h.region, "region", "", "part of the world of the host")
	c.Flags().StringVar(&h.user, "user", "", "account under which services of the host run")
	c.Flags().StringArrayVar(&h.labels, "label", nil, "a label for selectors, NAME=VALUE (may be given several times)")
	c.Flags().StringVar(&h.site, "site", "", "directory below hosts/ that the file is put in")
	c.Flags().StringVar(&h.apiBind, "api-bind", "", "give the host a resolver that answers here, such as 127.0.0.1:7700")
	c.Flags().IntVar(&h.refresh, "refresh-seconds", 30, "interval between two reads of the authority, with --api-bind")
	c.Flags().IntVar(&h.stale, "max-stale-seconds", 600, "age past which the resolver calls its snapshot stale, with --api-bind")
	return c
}

// host is the declaration that the flags describe, and its file.
func (h hostFlags) host(name fleet.HostName) (fleet.Host, string, error) {
	out := fleet.Host{SSH: fleet.Destination(h.ssh), Hostnames: h.hostnames, Zone: h.zone, Region: h.region, User: h.user}
	if h.ssh == "" {
		return out, "", fmt.Errorf("host %s has no SSH destination (write --ssh user@host)", name)
	}
	if _, err := out.SSH.Parse(); err != nil {
		return out, "", err
	}
	for _, word := range h.fallbacks {
		label, destination, ok := strings.Cut(word, "=")
		if !ok {
			return out, "", fmt.Errorf("--ssh-fallback %q has no name (write NAME=DESTINATION)", word)
		}
		f := fleet.SSHFallback{Name: label, Destination: fleet.Destination(destination)}
		if _, err := f.Destination.Parse(); err != nil {
			return out, "", err
		}
		out.SSHFallbacks = append(out.SSHFallbacks, f)
	}
	for _, word := range h.labels {
		label, value, ok := strings.Cut(word, "=")
		if !ok {
			return out, "", fmt.Errorf("--label %q has no value (write NAME=VALUE)", word)
		}
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels[label] = value
	}
	if h.apiBind != "" {
		out.Resolver = &fleet.ServiceResolver{APIBind: h.apiBind, RefreshSeconds: h.refresh, MaxStaleSeconds: h.stale}
	}
	if h.site != "" {
		if err := checkName("site", h.site); err != nil {
			return out, "", err
		}
	}
	return out, path.Join("hosts", h.site, schema.EntryFile(string(name))), nil
}
