package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/pin"
)

// pinReceipt is the JSON answer of `stado hostkey pin`.
type pinReceipt struct {
	Host       string       `json:"host"`
	State      string       `json:"state"` // pinned, or known when there was nothing to do
	KnownHosts string       `json:"known_hosts"`
	Paths      []pinnedPath `json:"paths"`
}

type pinnedPath struct {
	Path        string            `json:"path"`
	Destination fleet.Destination `json:"destination"`
	Name        string            `json:"name"`
	Added       []string          `json:"added"`    // lines of known_hosts
	Replaced    []string          `json:"replaced"` // file:line that each replaced key had

	keys []remote.HostKey
	drop []remote.KnownKey
}

// pinning is one `stado hostkey pin`.
type pinning struct {
	hostKeyFlags
	fingerprints []string
	replace      bool
}

func newHostKeyPin(a *app) *cobra.Command {
	var f pinning
	c := &cobra.Command{
		Use:   "pin HOST --from-fingerprint SHA256:…",
		Short: "Write a host's key into known_hosts, once its fingerprint was given",
		Long: `Write a host's key into known_hosts. ` + hostKeyTarget + `

The fingerprint comes from somewhere else than the network: the host's console, or whoever made the host ('ssh-keygen -lf
/etc/ssh/ssh_host_ed25519_key.pub' on it). Each --from-fingerprint must be that of a key which the host has proved to have, on every path;
else nothing is written. A revoked key is refused. A key that known_hosts has another one of the same type for is refused too, unless
--replace takes those lines away; a line that is about other hosts as well is left to be edited by hand.

The file is that of --known-hosts, of agent.cue, or ~/.ssh/known_hosts. What else is in it stays. Agents read it at their next connection.

Exit status: 0 the host is known by these keys, 1 refused, nothing is written, 2 usage, 69 the host could not be asked.`,
		Example: "  stado hostkey pin a1 --from-fingerprint SHA256:Qn9…\n" +
			"  stado hostkey pin git@git.example.net --from-fingerprint SHA256:Qn9… --replace --known-hosts /etc/stado/known_hosts --json",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(f.fingerprints) == 0 {
				return misused(errors.New("--from-fingerprint is missing: a host key is never taken on the host's own word (read it on the host: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub)"))
			}
			for _, fp := range f.fingerprints {
				if !strings.HasPrefix(fp, "SHA256:") || len(fp) != len("SHA256:")+43 {
					return misused(fmt.Errorf("--from-fingerprint %q is no SHA-256 fingerprint (ssh-keygen -l prints it: SHA256: and 43 characters)", fp))
				}
			}
			return a.pin(c.Context(), f, args[0])
		},
	}
	f.flags(c)
	c.Flags().StringArrayVar(&f.fingerprints, "from-fingerprint", nil, "SHA-256 fingerprint of a key that the host must have; may be given several times")
	c.Flags().BoolVar(&f.replace, "replace", false, "take away other keys of the same type that known_hosts has for the host")
	return c
}

func (a *app) pin(ctx context.Context, f pinning, word string) error {
	paths, o, err := a.hostPaths(word, f.hostKeyFlags)
	if err != nil {
		return refused(err)
	}
	if len(o.KnownHosts) == 0 {
		o.KnownHosts = remote.DefaultKnownHosts()[:1] // the one that is written; the others are for the machine
	}
	r := pinReceipt{Host: word, State: "known", KnownHosts: o.KnownHosts[0]}
	for _, p := range paths { // all of them are asked before anything is written
		planned, err := f.plan(ctx, o, p)
		if e, ok := errors.AsType[*remote.Error](err); ok && !e.Stalled() {
			return transient(err)
		}
		if err != nil {
			return refused(err)
		}
		r.Paths = append(r.Paths, planned)
	}
	if err := r.write(); err != nil {
		return refused(err)
	}
	if f.asJSON {
		return a.printJSON(r)
	}
	for _, p := range r.Paths {
		for _, place := range p.Replaced {
			fmt.Fprintf(a.stdout, "replaced %s\n", place)
		}
		for _, line := range p.Added {
			fmt.Fprintf(a.stdout, "pinned %s in %s\n", line, r.KnownHosts)
		}
		if len(p.Added)+len(p.Replaced) == 0 {
			fmt.Fprintf(a.stdout, "known already: %s in %s\n", p.Name, r.KnownHosts)
		}
	}
	return nil
}

// plan decides what is written for one path.
func (f pinning) plan(ctx context.Context, o remote.Options, p remote.Path) (pinnedPath, error) {
	out := pinnedPath{Path: p.Name, Destination: p.Destination, Added: []string{}, Replaced: []string{}}
	keys, err := remote.ShowHostKeys(ctx, o, p)
	if err != nil {
		return out, err
	}
	out.Name = keys.Name
	for _, fp := range f.fingerprints {
		key, ok := shownBy(keys, fp)
		switch {
		case !ok:
			return out, sayNotShown(keys, p, fp)
		case key.State == remote.KeyRevoked:
			return out, fmt.Errorf("%s has %s %s, which %s revokes (give the host a new key)", keys.Name, key.Type, fp, keys.Files[0])
		case key.State != remote.KeyKnown:
			out.keys = append(out.keys, key)
		}
		for _, k := range keys.Known {
			if k.Authority || k.Type != key.Type || slices.Contains(f.fingerprints, k.Fingerprint) {
				continue
			}
			if f.replace {
				out.drop = append(out.drop, k)
			} else if key.State != remote.KeyKnown {
				return out, fmt.Errorf("%s has another %s key for %s, %s (if the host has a new key and the old one is to be trusted no longer, say --replace)", k.Place(), k.Type, keys.Name, k.Fingerprint)
			}
		}
	}
	return out, nil
}

// shownBy finds a plain key of a host.
func shownBy(keys remote.HostKeys, fingerprint string) (remote.HostKey, bool) {
	for _, k := range keys.Shown {
		if k.Authority == "" && k.Fingerprint == fingerprint {
			return k, true
		}
	}
	return remote.HostKey{}, false
}

func sayNotShown(keys remote.HostKeys, p remote.Path, fingerprint string) error {
	var have []string
	for _, k := range keys.Shown {
		if k.Authority == "" {
			have = append(have, k.Type+" "+k.Fingerprint)
		}
	}
	return fmt.Errorf("%s on the path %s has no key with the fingerprint %s: nothing is written; it has %s (if that is not what the host's own console says, somebody else answers)",
		keys.Name, p.Name, fingerprint, dash(strings.Join(have, ", ")))
}

// write makes the change of all paths at once.
func (r *pinReceipt) write() error {
	c := pin.Change{File: r.KnownHosts}
	for i, p := range r.Paths {
		for _, k := range p.keys {
			c.Add = append(c.Add, pin.Entry{Name: p.Name, Key: k.Key})
		}
		for _, k := range p.drop {
			c.Drop = append(c.Drop, pin.Line{Number: k.Line, Entry: pin.Entry{Name: p.Name, Key: k.Key}})
			r.Paths[i].Replaced = append(r.Paths[i].Replaced, k.Place())
			r.State = "pinned"
		}
	}
	added, err := c.Apply()
	for _, line := range added {
		r.State = "pinned"
		for i, p := range r.Paths {
			if strings.HasPrefix(line, p.Name+" ") {
				r.Paths[i].Added = append(r.Paths[i].Added, line)
			}
		}
	}
	return err
}
