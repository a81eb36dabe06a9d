package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/change"
)

// moveReceipt is the JSON answer of `stado placement move`.
type moveReceipt struct {
	receipt
	ToHost   fleet.HostName `json:"to_host"`
	FromHost fleet.HostName `json:"from_host,omitempty"` // the one host that all services leave, if there is one
	Services []movedService `json:"services"`
}

// movedService is one service of a move.
type movedService struct {
	Service   fleet.ServiceName `json:"service"`
	FromHosts []fleet.HostName  `json:"from_hosts"` // where it was active
	Endpoint  string            `json:"endpoint"`   // where it answers on the host that it moves to
}

func newPlacementMove(a *app) *cobra.Command {
	var f changing
	var to string
	var role bool
	var take taking
	c := &cobra.Command{
		Use:   "move {SERVICE...|--authority} --to-host HOST",
		Short: "Route services, or give the registry authority, to another host",
		Long: `Make HOST the active host of every SERVICE, in one commit. The registry says where a service answers, not how it is run: start it
on HOST first. HOST must have an endpoint of each service.` + changeHelp + `

With --authority, run on HOST while the declared authority does not answer, HOST becomes the registry authority: every host is asked to
keep the next generation for it, this host's copy of the registry is promoted by a commit that names HOST, and the result becomes its copy
and its authority.git and is handed to every other host but the old authority.

With --authority, run on the authority itself, it gives the role to HOST: HOST makes its authority.git, takes the commit that names it, and then
the authority's own branch has it, where every other host reads it.

What is interrupted goes on when it is run again, or by itself when the agent starts; --abandon gives a move up that has written nothing. Exit
status 1 is also that of a role that was taken only partly: the receipt names what is missing.`,
		Example: "  stado placement move shop --to-host carme --dry-run\n  stado placement move shop orders-db --to-host carme --push --json\n" +
			"  stado placement move --authority --to-host carme --json",
		Args: func(c *cobra.Command, args []string) error {
			if role {
				return cobra.NoArgs(c, args)
			}
			return cobra.MinimumNArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if flag := strayFlag(c, role); flag != "" {
				return misused(fmt.Errorf("--%s is for the other kind of move (services move by a change of a repository, the authority by this host's own copy)", flag))
			}
			if to == "" && !take.abandon {
				return misused(fmt.Errorf("--to-host is missing (name the host that is to serve)"))
			}
			if role {
				take.to, take.sign, take.asJSON = fleet.HostName(to), f.sign, f.asJSON
				return a.takeAuthority(c, take)
			}
			answer := moveReceipt{ToHost: fleet.HostName(to)}
			out, err := a.apply(c, f, func(d *change.Draft) (err error) {
				answer.Services, err = move(d, args, answer.ToHost)
				return err
			})
			if err != nil {
				return err
			}
			answer.FromHost = commonSource(answer.Services, answer.ToHost)
			answer.receipt = newReceipt(out, "moved", "already_placed")
			services := strings.Join(args, ", ")
			return a.answerChange(f, out, answer, fmt.Sprintf("moved %s to %s", services, to), fmt.Sprintf("%s: already placed on %s", services, to))
		},
	}
	f.flags(c)
	c.Flags().StringVar(&to, "to-host", "", "the host that is to serve")
	c.Flags().BoolVar(&role, "authority", false, "move the role of the registry authority")
	c.Flags().BoolVar(&take.abandon, "abandon", false, "with --authority: give up the move that was begun on this host")
	reachFlags(c, &take.ssh, "with --authority: ")
	return c
}

// strayFlag is a flag that was given and is for the other kind of move, empty for none.
func strayFlag(c *cobra.Command, role bool) string {
	of := []string{"abandon", "host", "identity", "known-hosts"}
	if role {
		of = []string{"repository", "push", "remote", "dry-run"}
	}
	i := slices.IndexFunc(of, c.Flags().Changed)
	if i < 0 {
		return ""
	}
	return of[i]
}

// move makes a host the only active one of services.
func move(d *change.Draft, names []string, to fleet.HostName) ([]movedService, error) {
	if _, err := hostOf(d, to); err != nil {
		return nil, err
	}
	var out []movedService
	for _, word := range names {
		name := fleet.ServiceName(word)
		s, err := serviceOf(d, name)
		if err != nil {
			return nil, err
		}
		endpoint, ok := s.Endpoints[to]
		if !ok {
			return nil, fmt.Errorf("service %s has no endpoint on host %s (%s; add endpoints: %s: url: … to it first)", name, to, d.At(servicePath(name, "endpoints")...), to)
		}
		out = append(out, movedService{Service: name, FromHosts: s.ActiveHosts, Endpoint: endpoint.URL})
		if slices.Equal(s.ActiveHosts, []fleet.HostName{to}) {
			continue
		}
		if err := d.Put([]fleet.HostName{to}, servicePath(name, "active_hosts")...); err != nil {
			return nil, err
		}
	}
	d.Subject = change.Subject{Kind: "placement", Summary: fmt.Sprintf("services: move %s to %s", strings.Join(names, ", "), to)}
	return out, nil
}

// commonSource is the one host that services leave, empty when there are several.
func commonSource(services []movedService, to fleet.HostName) fleet.HostName {
	var from []fleet.HostName
	for _, s := range services {
		for _, h := range s.FromHosts {
			if h != to && !slices.Contains(from, h) {
				from = append(from, h)
			}
		}
	}
	if len(from) != 1 {
		return ""
	}
	return from[0]
}
