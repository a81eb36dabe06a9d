package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/bootstrap"
	"stado.internal/stado/reconcile/openssh"
	"stado.internal/stado/reconcile/remote"
)

// hostKeyVariable names the private key of the host channel where no flag does.
const hostKeyVariable = "STADO_HOST_SSH_KEY_FILE"

// channelHelp is the part that the help of every verb of the host channel has in common.
const channelHelp = `

HOST is a host that the registry declares: the one that this host holds, or with --registry the files of a registry repository. It is
reached by OpenSSH's ssh, along its declared paths in their order; the next one is tried only while nothing has run. What you have told
ssh in its configuration holds. This machine itself needs no ssh. Nothing is ever asked: keys come from --ssh-key, else from
$STADO_HOST_SSH_KEY_FILE, else from what ssh finds. A changed host key is refused; that of a host met for the first time is added to your
known_hosts, unless --ssh-known-hosts names the file of the only keys that are trusted.`

// channelFlags say how the verbs of the host channel reach a host.
type channelFlags struct {
	registry, login, key, knownHosts, config string
	dryRun                                   bool
}

func (f *channelFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.registry, "registry", "", "registry repository whose files declare the host (default: the registry that this host holds)")
	c.Flags().StringVar(&f.login, "login", "", "user to log in as (default: the one that the registry declares)")
	c.Flags().StringVar(&f.key, "ssh-key", "", "private key for the host, readable by its owner only; nothing else is offered")
	c.Flags().StringVar(&f.knownHosts, "ssh-known-hosts", "", "file of the only host keys that are trusted; it is never written")
	c.Flags().StringVar(&f.config, "ssh-config", "", "configuration that ssh reads in place of yours")
}

// target is a host on which something is to be done.
type target struct {
	openssh.Channel
	name     fleet.HostName
	registry *fleet.Registry
}

// target finds a declared host and the way to it.
func (a *app) target(ctx context.Context, f channelFlags, name fleet.HostName) (target, error) {
	registry, err := a.declared(ctx, f.registry)
	if err != nil {
		return target{}, err
	}
	host, ok := registry.Hosts[name]
	if !ok {
		return target{}, refused(fmt.Errorf("unknown host %q: the registry declares %s", name, orNone(joined(registry.HostNames()))))
	}
	here, err := a.isHere(registry, name)
	if err != nil {
		return target{}, refused(err)
	}
	t := target{name: name, registry: registry}
	t.Channel = openssh.Channel{Host: string(name), Local: here, Avoid: a.avoidHeld(ctx)}
	switch {
	case host.SSH != "":
		if t.Paths, err = f.paths(host); err != nil {
			return target{}, misused(err)
		}
	case !t.Local:
		return target{}, refused(&openssh.Unreachable{Host: string(name)})
	}
	if f.key == "" {
		f.key = os.Getenv(hostKeyVariable)
		if f.key != "" && !filepath.IsAbs(f.key) {
			return target{}, refused(fmt.Errorf("%s is %s, which is not an absolute path", hostKeyVariable, f.key))
		}
	}
	for _, file := range []struct {
		flag, from string
		to         *string
	}{{"--ssh-key", f.key, &t.Identity}, {"--ssh-known-hosts", f.knownHosts, &t.KnownHosts}, {"--ssh-config", f.config, &t.Config}} {
		*file.to = file.from
		if err := readableFile(file.flag, file.to); err != nil {
			return target{}, refused(err)
		}
	}
	if t.Identity != "" {
		if err := ownersOnly(t.Identity); err != nil {
			return target{}, refused(err)
		}
	}
	return t, nil
}

// paths are the declared ways to a host, with the user of --login.
func (f channelFlags) paths(host fleet.Host) ([]remote.Path, error) {
	out := remote.Paths(host)
	for i := range out {
		if f.login == "" {
			continue
		}
		var err error
		if out[i].Destination, err = out[i].Destination.As(f.login); err != nil {
			return nil, fmt.Errorf("--login %q is no user to log in as (write the name of an account there, and nothing else)", f.login)
		}
	}
	return out, nil
}

// ownersOnly refuses a secret that others can use.
func ownersOnly(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("the file %s can be used by others (mode %04o; run: chmod 0600 %s)", file, perm, file)
	}
	return nil
}

// declared is the registry that a repository's files declare, or that this host holds.
func (a *app) declared(ctx context.Context, dir string) (*fleet.Registry, error) {
	if dir == "" {
		s, err := a.held()
		if err != nil {
			return nil, refused(fmt.Errorf("%w; a registry repository can be named: --registry DIR", err))
		}
		return s.Registry, nil
	}
	if err := requireRepository(dir); err != nil {
		return nil, refused(err)
	}
	e, err := evaluator(config.Evaluation{})
	if err != nil {
		return nil, refused(err)
	}
	v, err := e.WorkTree(ctx, dir)
	if err == nil {
		err = requireAdmitted(v, "the registry in "+dir)
	}
	if err != nil {
		return nil, refused(err)
	}
	registry, err := fleet.Decode(v.Document)
	if err != nil {
		return nil, refused(err)
	}
	return registry, nil
}

// isHere reports whether a host is this machine: as its agent.cue says, else by the identity rule.
func (a *app) isHere(r *fleet.Registry, name fleet.HostName) (bool, error) {
	settings := config.Agent{}
	if home, err := a.clientHome(config.File); err == nil { // else this machine keeps no state
		if settings, err = config.Load(home); err != nil {
			return false, fmt.Errorf("whether host %s is this machine cannot be told: %w", name, err)
		}
	}
	return a.self(settings, &fleet.Snapshot{Registry: r}) == name, nil
}

// avoidHeld keeps the channel off an adapter of this host that holds connections unanswered: a session over it would stand behind them.
func (a *app) avoidHeld(ctx context.Context) func(remote.Path) string {
	home, err := a.clientHome(status.ResolverFile)
	if err != nil {
		return nil
	}
	in := a.inputs(ctx, home)
	if in.State == nil || in.Stopped {
		return nil
	}
	return func(p remote.Path) string {
		to, err := p.Destination.Parse()
		if err != nil {
			return ""
		}
		bind := net.JoinHostPort(to.Host, strconv.Itoa(to.Port))
		for _, ad := range in.State.Adapters {
			if ad.Bind != bind {
				continue
			}
			if err := refuseHeld(in, ad); err != nil {
				return err.Error()
			}
		}
		return ""
	}
}

// channelExit gives an error of the host channel its exit code.
func channelExit(err error) error {
	var lost *openssh.Lost
	var unreachable *openssh.Unreachable
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return refused(errors.New("interrupted; whether the command on the host has ended is not known"))
	case errors.As(err, &lost), errors.As(err, &unreachable), errors.Is(err, errOverdue):
		return transient(err)
	}
	return refused(err)
}

// sshLines are the command lines that would be tried, in order.
func (t target) sshLines(line string) ([][]string, error) {
	if t.Local {
		return [][]string{{"/bin/sh", "-c", line}}, nil
	}
	var out [][]string
	for _, p := range t.Paths {
		argv, err := t.Args(p, line)
		if err != nil {
			return nil, err
		}
		out = append(out, argv)
	}
	return out, nil
}

// errOverdue ends what a verb does on a host at its --timeout.
var errOverdue = errors.New("what it has begun there may still run: look there before you run it again, or give it more: --timeout")

// within bounds what a verb does on a host; 0 leaves it unbounded.
func within(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s did not end within %s (%w)", what, d, errOverdue))
}

// carryOut carries a plan out on a host, or with dryRun shows it, and gives the steps that are told of.
func (a *app) carryOut(ctx context.Context, t target, plan []bootstrap.Step, dryRun, quiet bool) ([]bootstrap.Step, error) {
	told := []bootstrap.Step{}
	for _, s := range plan {
		if !dryRun {
			if _, _, err := ask(ctx, t, s.Words, s.Stdin); err != nil {
				return nil, channelExit(fmt.Errorf("host %s: %s of %s: %w (run it again: what is done stays)", t.name, s.Action, s.Path, err))
			}
		}
		if s.Silent {
			continue
		}
		told = append(told, s)
		if !quiet {
			fmt.Fprintf(a.stdout, "%-9s  %s (%s)\n", s.Action, s.Path, fleet.EscapeControls(s.Detail)) // some of it is the host's word
		}
	}
	if dryRun && !quiet && len(told) > 0 {
		fmt.Fprintf(a.stderr, "host %s: a dry run, nothing was changed\n", t.name)
	}
	return told, nil
}

func statusOf(dryRun bool, done string) string {
	if dryRun {
		return statusPlanned
	}
	return done
}
