package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/examples/systemd"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/bootstrap"
	"stado.internal/stado/reconcile/openssh"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/sources"
)

// bootstrapReceipt is the JSON answer of `stado host bootstrap`.
type bootstrapReceipt struct {
	Host   fleet.HostName   `json:"host"`
	Status string           `json:"status"` // installed, unchanged or planned
	Path   string           `json:"path"`   // the SSH path that was used; local on this machine
	Steps  []bootstrap.Step `json:"steps"`
}

type bootstrapFlags struct {
	channelFlags
	root, init, binary, repository, branch    string
	mirrors                                   []string
	identity, agentKnownHosts, ca, credential string
	replace, asJSON                           bool
	timeout                                   time.Duration
}

func newHostBootstrap(a *app) *cobra.Command {
	var f bootstrapFlags
	c := &cobra.Command{
		Use:   "bootstrap HOST",
		Short: "Bring a host from nothing to a running agent",
		Long: `Install this program, its systemd unit and the agent's first settings on a host, and start the agent. What is there as wanted stays;
everything else is replaced whole, after its SHA-256 is proved on the host. Run again it changes nothing, and says so; cut off, it is
completed by the next run. A unit or an agent.cue that somebody else wrote is replaced only with --replace.

On a host the account stado is made, and the login must be root's. With --root DIR everything is put below that directory instead, for
the account that logs in; systemd is then told nothing of the unit, and --init none is the way to start the agent.` + channelHelp + `

Exit status: 0 done or nothing to do, 1 refused, 2 usage, 69 the host does not answer, no longer does, or not in time.`,
		Example: "  stado host bootstrap a1 --registry fleet --identity deploy_key --known-hosts known_hosts --dry-run\n" +
			"  stado host bootstrap a1 --registry fleet --repository https://git.example.net/fleet.git --init none --json",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.bootstrap(c.Context(), f, fleet.HostName(args[0]))
		},
	}
	f.flags(c)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "look at the host, print what would be done and change nothing")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the receipt as JSON")
	c.Flags().StringVar(&f.root, "root", "/", "directory of the host below which everything is put")
	c.Flags().StringVar(&f.init, "init", string(bootstrap.InitSystemd), "what starts the agent: systemd or none")
	c.Flags().StringVar(&f.binary, "binary", "", "program to install, for a host with another processor (default: this one)")
	c.Flags().BoolVar(&f.replace, "replace", false, "also replace a unit and an agent.cue that somebody else wrote")
	c.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "end after this time")
	c.Flags().StringVar(&f.repository, "repository", "", "registry repository for the agent (default: that of the authority which the registry names)")
	c.Flags().StringArrayVar(&f.mirrors, "mirror", nil, "`URL` of a copy of the repository for the agent, asked when the registry's authority does not answer; may be given again")
	c.Flags().StringVar(&f.branch, "branch", "", "branch that is the registry, for the agent")
	c.Flags().StringVar(&f.identity, "identity", "", "private key with which the agent reads the repository; it is copied to the host")
	c.Flags().StringVar(&f.agentKnownHosts, "known-hosts", "", "host keys that the agent trusts; the file is copied to the host")
	c.Flags().StringVar(&f.ca, "ca-file", "", "further certificate authorities for the agent's https; the file is copied to the host")
	c.Flags().StringVar(&f.credential, "credential-file", "", "file with the agent's credentials for https; it is copied to the host")
	return c
}

func (a *app) bootstrap(ctx context.Context, f bootstrapFlags, name fleet.HostName) error {
	t, err := a.target(ctx, f.channelFlags, name)
	if err != nil {
		return err
	}
	w, err := f.wanted(t)
	if err != nil {
		return err
	}
	ctx, cancel := within(ctx, f.timeout, "the bootstrap of host "+string(name))
	defer cancel()
	path, plan, err := look(ctx, t, w)
	if err != nil {
		return channelExit(err)
	}
	answer := bootstrapReceipt{Host: name, Status: "unchanged", Path: path}
	if answer.Steps, err = a.carryOut(ctx, t, plan, f.dryRun, f.asJSON); err != nil {
		return err
	}
	if len(plan) > 0 {
		answer.Status = statusOf(f.dryRun, "installed")
	}
	if f.asJSON {
		return asRefused(a.printJSON(answer))
	}
	if len(answer.Steps) == 0 {
		fmt.Fprintf(a.stdout, "host %s is as wanted: nothing to change\n", name)
	}
	return nil
}

// look asks the host what it has, and gives the path that answered and what is to be done.
func look(ctx context.Context, t target, w bootstrap.Wanted) (path string, plan []bootstrap.Step, err error) {
	words, script, err := w.Look()
	if err != nil {
		return "", nil, err
	}
	answer, path, err := ask(ctx, t, words, []byte(script))
	if err != nil {
		return "", nil, err
	}
	facts, err := bootstrap.ParseFacts(answer)
	if err != nil {
		return "", nil, fmt.Errorf("host %s: %w", t.name, err)
	}
	plan, err = w.Plan(facts)
	return path, plan, err
}

// maxAnswer bounds what a host says of itself.
const maxAnswer = 1 << 20

// bounded keeps as much as it may; a writer that has more to say is ended.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxAnswer {
		return 0, fmt.Errorf("the host says more than %d bytes, where a few lines were asked for", maxAnswer)
	}
	return b.Buffer.Write(p)
}

// ask runs a command whose answer is short, and makes its failure an error with its last line on stderr.
func ask(ctx context.Context, t target, words []string, stdin []byte) (answer, path string, err error) {
	var stdout, stderr bounded
	exit, err := t.Run(ctx, openssh.Command{
		Line: shellLine(words), Stdin: func() io.Reader { return bytes.NewReader(stdin) }, Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil {
		return "", "", err
	}
	if exit.Status != 0 {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return "", "", fmt.Errorf("exit status %d: %s", exit.Status, dash(fleet.EscapeControls(lines[len(lines)-1])))
	}
	return stdout.String(), exit.Path, nil
}

// wanted is what the flags ask for.
func (f bootstrapFlags) wanted(t target) (w bootstrap.Wanted, err error) {
	w = bootstrap.Wanted{Host: string(t.name), Root: f.root, Init: bootstrap.Init(f.init), Unit: systemd.Unit, Replace: f.replace}
	program := f.binary
	if program == "" {
		program = "/proc/self/exe"
	}
	if w.Binary, err = os.ReadFile(program); err != nil {
		return w, refused(fmt.Errorf("cannot read the program to install: %w", err))
	}
	if err := w.Check(); err != nil {
		return w, misused(err)
	}
	if w.Config.Repository, w.Config.Branch, err = f.agentRepository(t); err != nil {
		return w, err
	}
	read := []sources.Named{{Repository: w.Config.Repository, Branch: w.Config.Branch}}
	for _, url := range f.mirrors {
		read = append(read, sources.Named{Repository: url})
	}
	if _, err := sources.Remotes(read); err != nil {
		return w, misused(err)
	}
	w.Config.Mirrors = f.mirrors
	for _, r := range read {
		if f.identity == "" && f.root == "/" && strings.HasPrefix(r.Repository, "ssh://") {
			return w, misused(fmt.Errorf("the agent's account on host %s has no key of its own for %s (name one: --identity FILE)", t.name, r.Repository))
		}
	}
	for _, file := range []struct {
		flag, name string
		to         *[]byte
		secret     bool
	}{
		{"--identity", f.identity, &w.Config.Identity, true},
		{"--known-hosts", f.agentKnownHosts, &w.Config.KnownHosts, false},
		{"--ca-file", f.ca, &w.Config.CAFile, false},
		{"--credential-file", f.credential, &w.Config.Credential, true},
	} {
		if file.name == "" {
			continue
		}
		if *file.to, err = os.ReadFile(file.name); err != nil {
			return w, refused(fmt.Errorf("cannot read the file of %s: %w", file.flag, err))
		}
		if file.secret {
			err = ownersOnly(file.name)
		}
		if err != nil {
			return w, refused(err)
		}
	}
	return w, nil
}

// agentRepository is where the agent reads the registry: as the flags say, else from the authority.
func (f bootstrapFlags) agentRepository(t target) (repository, branch string, err error) {
	if f.repository != "" {
		if _, err := source.ParseRemote(f.repository, f.branch); err != nil {
			return "", "", misused(fmt.Errorf("--repository: %w", err))
		}
		return f.repository, f.branch, nil
	}
	authority, ok, err := source.Authority(t.registry, t.name)
	switch {
	case err != nil:
		return "", "", refused(err)
	case !ok:
		return "", "", misused(errors.New("the registry names no authority to read from (name the repository for the agent: --repository)"))
	}
	if f.branch == "" && authority.Remote.Branch != source.DefaultBranch {
		f.branch = authority.Remote.Branch
	}
	return authority.Remote.URL, f.branch, nil
}
