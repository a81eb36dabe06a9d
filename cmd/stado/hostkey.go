package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/store"
)

// hostKeyAnswer is the JSON answer of `stado hostkey show`.
type hostKeyAnswer struct {
	Host  string         `json:"host"` // as it was asked about
	Paths []hostKeysPath `json:"paths"`
}

// hostKeysPath are the host keys on one path to a host.
type hostKeysPath struct {
	Path        string            `json:"path"` // "primary", or the name of a declared fallback
	Destination fleet.Destination `json:"destination"`
	Name        string            `json:"name,omitempty"`        // the host as known_hosts writes it
	KnownHosts  []string          `json:"known_hosts,omitempty"` // the files that were read
	Shown       []shownKey        `json:"shown"`                 // what the host has
	Known       []knownKey        `json:"known"`                 // what known_hosts has
	Trusted     bool              `json:"trusted"`               // whether a session would go on
	Refusal     string            `json:"refusal,omitempty"`     // why not
	Unreachable string            `json:"unreachable,omitempty"` // why the host could not be asked
}

type shownKey struct {
	Type        string          `json:"type"`
	Fingerprint string          `json:"fingerprint"`
	Authority   string          `json:"authority,omitempty"` // of a certificate
	State       remote.KeyState `json:"state"`
	Places      []string        `json:"places"` // file:line
}

type knownKey struct {
	Type        string `json:"type"`
	Fingerprint string `json:"fingerprint"`
	Place       string `json:"place"`
	Authority   bool   `json:"cert_authority"`
	Shown       bool   `json:"shown"`
}

// hostKeyFlags say whose keys are looked at, and beside what.
type hostKeyFlags struct {
	path, knownHosts string
	asJSON           bool
}

func (f *hostKeyFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.path, "path", "", "only this path of a declared host: primary, or the name of a fallback")
	c.Flags().StringVar(&f.knownHosts, "known-hosts", "", "known_hosts file (default: as agent.cue says, else those of this user and of the machine)")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
}

const hostKeyTarget = `HOST is a host of the registry that this host holds, on all of its paths; or an SSH destination, user@host or user@[host]:port.`

func newHostKeyShow(a *app) *cobra.Command {
	var f hostKeyFlags
	c := &cobra.Command{
		Use:   "show HOST",
		Short: "Show the keys that a host has beside those that known_hosts has",
		Long: `Ask a host which SSH keys it has, and compare them with known_hosts. ` + hostKeyTarget + `
No identity is needed, nothing is learned, and no file is written.

Every key of the host is one of: known (listed, or certified by a listed authority); additional (not listed, while others are: a host
that is given new keys shows them so before it drops the old ones); changed (another key of that type is listed); revoked; unknown
(nothing is listed for the host); refused (a certificate that no listed authority vouches for). Lines of known_hosts whose key the host
does not show are listed as well: pinned ahead of time, or left over.

Exit status: 0 a session would trust the host on every path, 1 it would not, 69 the host could not be asked.`,
		Example: "  stado hostkey show a1\n  stado hostkey show git@[git.example.net]:2222 --known-hosts /etc/stado/known_hosts --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			paths, o, err := a.hostPaths(args[0], f)
			if err != nil {
				return refused(err)
			}
			answer := hostKeyAnswer{Host: args[0]}
			for _, p := range paths {
				answer.Paths = append(answer.Paths, showPath(c.Context(), o, p))
			}
			if f.asJSON {
				err = a.printJSON(answer)
			} else {
				err = a.printHostKeys(answer)
			}
			if err != nil {
				return refused(err)
			}
			return answer.exit()
		},
	}
	f.flags(c)
	return c
}

// hostPaths are the ways to a host that was named on the command line.
func (a *app) hostPaths(word string, f hostKeyFlags) ([]remote.Path, remote.Options, error) {
	home, err := a.clientHome(filepath.Join(registryFolder, store.HeldFile))
	if err != nil {
		return nil, remote.Options{}, err
	}
	settings, err := withFile(home, config.Agent{KnownHosts: f.knownHosts})
	if err != nil {
		return nil, remote.Options{}, err
	}
	o := agent.OverSSH(settings)
	o.Host = word
	if strings.ContainsAny(word, "@[") {
		if f.path != "" {
			return nil, o, fmt.Errorf("--path is for a host of the registry, and %s is a destination (leave it out)", word)
		}
		_, err := fleet.Destination(word).Parse()
		return []remote.Path{{Name: "destination", Destination: fleet.Destination(word)}}, o, err
	}
	held, err := a.held()
	if err != nil {
		return nil, o, fmt.Errorf("%w (write user@host to ask a host that is not declared)", err)
	}
	h, ok := held.Registry.Hosts[fleet.HostName(word)]
	if !ok {
		return nil, o, fmt.Errorf("host %q is not in the registry at generation %d (write user@host to ask a host that is not declared)", word, held.Generation())
	}
	paths := remote.Paths(h)
	if f.path == "" {
		return paths, o, nil
	}
	var names []string
	for _, p := range paths {
		if p.Name == f.path {
			return []remote.Path{p}, o, nil
		}
		names = append(names, p.Name)
	}
	return nil, o, fmt.Errorf("host %s has no path %q (it has: %s)", word, f.path, strings.Join(names, ", "))
}

func showPath(ctx context.Context, o remote.Options, p remote.Path) hostKeysPath {
	out := hostKeysPath{Path: p.Name, Destination: p.Destination, Shown: []shownKey{}, Known: []knownKey{}}
	keys, err := remote.ShowHostKeys(ctx, o, p)
	if err != nil {
		if e, ok := errors.AsType[*remote.Error](err); ok && e.Stalled() {
			out.Refusal = err.Error()
		} else {
			out.Unreachable = err.Error()
		}
		return out
	}
	out.Name, out.KnownHosts, out.Trusted = keys.Name, keys.Files, keys.Refusal == nil
	if keys.Refusal != nil {
		out.Refusal = keys.Refusal.Error()
	}
	for _, k := range keys.Shown {
		out.Shown = append(out.Shown, shownKey{Type: k.Type, Fingerprint: k.Fingerprint, Authority: k.Authority, State: k.State, Places: append([]string{}, k.Places...)})
	}
	for _, k := range keys.Known {
		out.Known = append(out.Known, knownKey{Type: k.Type, Fingerprint: k.Fingerprint, Place: k.Place(), Authority: k.Authority, Shown: k.Shown})
	}
	return out
}

// exit is 1 for a host that is not to be trusted, whatever else could not be asked.
func (h hostKeyAnswer) exit() error {
	switch {
	case slices.ContainsFunc(h.Paths, func(p hostKeysPath) bool { return p.Refusal != "" }):
		return notReady()
	case slices.ContainsFunc(h.Paths, func(p hostKeysPath) bool { return p.Unreachable != "" }):
		return &exitError{code: exitTransient}
	}
	return nil
}

func (a *app) printHostKeys(answer hostKeyAnswer) error {
	for _, p := range answer.Paths {
		fmt.Fprintf(a.stdout, "%s  %s  %s\n", p.Path, p.Destination, dash(strings.Join(p.KnownHosts, " ")))
		rows := [][]string{{"  KEY", "FINGERPRINT", "STATE", "KNOWN_HOSTS"}}
		for _, k := range p.Shown {
			fingerprint := k.Fingerprint
			if k.Authority != "" {
				fingerprint += " of " + k.Authority
			}
			rows = append(rows, []string{"  " + k.Type, fingerprint, string(k.State), dash(strings.Join(k.Places, " "))})
		}
		for _, k := range p.Known {
			what := k.Type
			if k.Authority {
				what = "@cert-authority " + what
			}
			if !k.Shown {
				rows = append(rows, []string{"  " + what, k.Fingerprint, "not shown", k.Place})
			}
		}
		if len(rows) > 1 {
			if err := a.table(rows); err != nil {
				return err
			}
		}
		switch {
		case p.Trusted:
			fmt.Fprintln(a.stdout, "  trusted")
		default:
			fmt.Fprintln(a.stdout, "  "+p.Refusal+p.Unreachable)
		}
	}
	return nil
}
