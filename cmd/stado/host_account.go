package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/fleet/keys"
	"stado.internal/stado/reconcile/bootstrap"
)

// accountReceipt is the JSON answer of `stado host account`.
type accountReceipt struct {
	Host   fleet.HostName   `json:"host"`
	Status string           `json:"status"` // changed, unchanged or planned
	Path   string           `json:"path"`   // the SSH path that was used; local on this machine
	User   string           `json:"user"`
	Keys   []string         `json:"keys"` // fingerprints of those named
	Steps  []bootstrap.Step `json:"steps"`
}

type accountFlags struct {
	channelFlags
	user           string
	keys           []string
	remove, asJSON bool
	timeout        time.Duration
}

func newHostAccount(a *app) *cobra.Command {
	var f accountFlags
	c := &cobra.Command{
		Use:   "account HOST --key FILE",
		Short: "Let keys in to a host's account, or no longer",
		Long: `Let public keys in to an account of a host, such as those of the other hosts' agents, which relay over it and read the registry from it:
the account that the host's first declared path logs in to, or --user. It is made when it is not there, gets a shell when it has none, and
no password. A key may forward ports and run commands, and have no terminal, agent or X11; one that is there already keeps its options, and
all other lines stay. With --remove the keys are taken away; sessions that stand are not ended.

To make or change the account the login must be root's (--login root); its keys it can change by itself.` + channelHelp + `

Exit status: 0 done or nothing to do, 1 refused, 2 usage, 69 the host does not answer, no longer does, or not in time.`,
		Example: "  stado host account a1 --login root --key agent_key.pub\n  stado host account --registry fleet a1 --key old_key.pub --remove --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.account(c.Context(), f, fleet.HostName(args[0]))
		},
	}
	f.flags(c)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "look at the host, print what would be done and change nothing")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the receipt as JSON")
	c.Flags().StringVar(&f.user, "user", "", "account (default: the one that the host's first declared path logs in to)")
	c.Flags().StringArrayVar(&f.keys, "key", nil, "file with public keys, one in a line as ssh-keygen writes them; may be given again")
	c.Flags().BoolVar(&f.remove, "remove", false, "take the keys away")
	c.Flags().DurationVar(&f.timeout, "timeout", 2*time.Minute, "end after this time")
	_ = c.MarkFlagRequired("key") // which is there
	return c
}

func (a *app) account(ctx context.Context, f accountFlags, name fleet.HostName) error {
	t, err := a.target(ctx, f.channelFlags, name)
	if err != nil {
		return err
	}
	answer := accountReceipt{Host: name, Status: "unchanged", User: f.user, Keys: []string{}, Steps: []bootstrap.Step{}}
	if answer.User == "" {
		if answer.User, err = declaredUser(t); err != nil {
			return misused(err)
		}
	}
	w := bootstrap.Account{Host: string(name), User: answer.User, Remove: f.remove}
	for _, file := range f.keys {
		named, err := publicKeys(file)
		if err != nil {
			return refused(err)
		}
		for _, k := range named {
			w.Keys, answer.Keys = append(w.Keys, k.Line()), append(answer.Keys, k.Fingerprint)
		}
	}
	if err := w.Check(); err != nil {
		return misused(err)
	}
	ctx, cancel := within(ctx, f.timeout, "the change of the account on host "+string(name))
	defer cancel()
	words, script := w.Look()
	said, path, err := ask(ctx, t, words, []byte(script))
	if err != nil {
		return channelExit(err)
	}
	facts, err := bootstrap.ParseAccountFacts(said)
	if err != nil {
		return refused(fmt.Errorf("host %s: %w", name, err))
	}
	plan, err := w.Plan(facts)
	if err != nil {
		return refused(err)
	}
	answer.Path = path
	if answer.Steps, err = a.carryOut(ctx, t, plan, f.dryRun, f.asJSON); err != nil {
		return err
	}
	if len(plan) > 0 {
		answer.Status = statusOf(f.dryRun, "changed")
	}
	if f.asJSON {
		return asRefused(a.printJSON(answer))
	}
	if len(plan) == 0 {
		fmt.Fprintf(a.stdout, "account %s of host %s is as wanted: nothing to change\n", answer.User, t.name)
	}
	return nil
}

// declaredUser is the account that a host's first declared path logs in to, whoever logs in now.
func declaredUser(t target) (string, error) {
	destination := t.registry.Hosts[t.name].SSH
	if to, err := destination.Parse(); err != nil || to.User != "" {
		return to.User, err
	}
	return "", fmt.Errorf("host %s declares no user in %s (name the account: --user)", t.name, dash(string(destination)))
}

// publicKeys reads the keys of a file, which holds nothing else.
func publicKeys(file string) ([]keys.Key, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the file of --key: %w", err)
	}
	var out []keys.Key
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, err := keys.Parse(line)
		if err == nil && k.SSH == nil {
			err = errors.New("it is no SSH key")
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w (name the file that ends in .pub)", file, n, err)
		}
		out = append(out, k)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no public key (name the file that ends in .pub)", file)
	}
	return out, nil
}
