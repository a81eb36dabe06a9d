package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
)

func newAgentRun(a *app) *cobra.Command {
	var set config.Agent
	c := &cobra.Command{
		Use:   "run",
		Short: "Run this host's agent: poll the registry, admit its commits, serve its adapters",
		Long: `Run this host's agent in the foreground until SIGTERM or SIGINT.

Settings come from flags and from agent.cue in the state directory, under the same names (memory, processor and clock limits
stand there under evaluation); a flag wins. What an agent serves is declared in the registry, not here.`,
		Example: `  stado agent run --repository https://git.example.net/fleet.git --host a1
  stado agent run --repository ssh://git@git.example.net/srv/fleet.git --identity /etc/stado/id_ed25519 --known-hosts /etc/stado/known_hosts
  stado agent run --repository https://git.example.net/fleet.git --mirror https://mirror.example.org/fleet.git --mirror /srv/fleet.git
  stado agent run --repository /srv/fleet.git --home /tmp/a1 --refresh 5s`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := a.agentHome()
			if err != nil {
				return refused(err)
			}
			settings, err := withFile(home, set)
			if err != nil {
				return refused(err)
			}
			opt, err := a.agentOptions(home, settings)
			if err != nil {
				return refused(err)
			}
			ag, err := agent.New(opt)
			if err != nil {
				return refused(err)
			}
			ctx, stop := context.WithCancel(c.Context())
			var beside sync.WaitGroup
			beside.Go(func() { a.errands(home, opt.Settings).run(ctx) })
			err = ag.Run(ctx)
			stop()
			beside.Wait()
			return asRefused(err)
		},
	}
	f := c.Flags()
	f.StringVar(&set.Repository, "repository", "", "registry repository: https://, ssh:// or file:// URL, or an absolute path")
	f.Var((*mirrorList)(&set.Mirrors), "mirror", "copy of the repository, asked when the registry's authority does not answer; may be given again (a mirror with credentials of its own stands in agent.cue)")
	f.StringVar(&set.Branch, "branch", "", "branch that is the registry (default main)")
	f.StringVar(&set.CAFile, "ca-file", "", "further certificate authorities for https, in PEM")
	f.StringVar(&set.CredentialFile, "credential-file", "", "file with user:password or a token for https, readable by its owner only")
	f.StringVar(&set.Identity, "identity", "", "private key for ssh, readable by its owner only (default: the keys of the ssh-agent)")
	f.StringVar(&set.KnownHosts, "known-hosts", "", "host keys that are trusted for ssh (default: known_hosts of this user and of the machine)")
	f.IntVar(&set.SSHKeepalive.Seconds, "ssh-keepalive-seconds", 0, "seconds between two questions to an ssh server whether it is there (default: none is asked)")
	f.IntVar(&set.SSHKeepalive.CountMax, "ssh-keepalive-count-max", 0, "how many of them without an answer end the connection")
	f.StringVar(&set.Host, "host", "", "this host's name in the registry (default: the one this machine's host name identifies)")
	f.DurationVar(&set.Refresh, "refresh", 0, "interval between reads until the registry declares this host's own (default 30s)")
	f.DurationVar(&set.Drain, "drain", 0, "how long relays in flight may go on when the agent stops (default 10s)")
	f.StringVar(&set.Webhook.Bind, "webhook-bind", "", "TCP address on which a forge may say that the registry has news, such as 127.0.0.1:8455")
	f.StringVar(&set.Webhook.SecretFile, "webhook-secret-file", "", "file with the secret that the forge signs with, readable by its owner only")
	evaluationFlags(c, &set.Evaluation)
	return c
}

// withFile puts agent.cue and then the defaults under the flags.
func withFile(home string, flags config.Agent) (config.Agent, error) {
	s, err := config.Load(home)
	if err != nil {
		return s, err
	}
	override(&s.Repository, flags.Repository, "")
	override(&s.Branch, flags.Branch, config.DefaultBranch)
	if len(flags.Mirrors) > 0 {
		s.Mirrors = flags.Mirrors
	}
	override(&s.CAFile, flags.CAFile, "")
	override(&s.CredentialFile, flags.CredentialFile, "")
	override(&s.Identity, flags.Identity, "")
	override(&s.KnownHosts, flags.KnownHosts, "")
	override(&s.SSHKeepalive.Seconds, flags.SSHKeepalive.Seconds, 0)
	override(&s.SSHKeepalive.CountMax, flags.SSHKeepalive.CountMax, 0)
	override(&s.Host, flags.Host, "")
	override(&s.Refresh, flags.Refresh, config.DefaultRefresh)
	override(&s.Drain, flags.Drain, config.DefaultDrain)
	override(&s.Webhook.Bind, flags.Webhook.Bind, "")
	override(&s.Webhook.SecretFile, flags.Webhook.SecretFile, "")
	override(&s.Evaluation.MemoryMiB, flags.Evaluation.MemoryMiB, 0)
	override(&s.Evaluation.CPUSeconds, flags.Evaluation.CPUSeconds, 0)
	override(&s.Evaluation.WallSeconds, flags.Evaluation.WallSeconds, 0)
	return s, nil
}

// mirrorList is the value of --mirror: repositories, one each time that the flag is given.
type mirrorList []config.Mirror

// String is the list as the help text shows a default.
func (l *mirrorList) String() string {
	var urls []string
	for _, m := range *l {
		urls = append(urls, m.Repository)
	}
	return strings.Join(urls, " ")
}

// Set adds one.
func (l *mirrorList) Set(url string) error {
	*l = append(*l, config.Mirror{Repository: url})
	return nil
}

// Type is how the help text calls the value.
func (l *mirrorList) Type() string { return "URL" }

func override[T comparable](dst *T, flag, def T) {
	var zero T
	switch {
	case flag != zero:
		*dst = flag
	case *dst == zero:
		*dst = def
	}
}

// settingsFile is a file that a setting names.
type settingsFile struct {
	flag string
	path *string
}

func (a *app) agentOptions(home string, settings config.Agent) (agent.Options, error) {
	if err := checkEvaluation(settings.Evaluation); err != nil {
		return agent.Options{}, err
	}
	files := []settingsFile{{"--ca-file", &settings.CAFile}, {"--credential-file", &settings.CredentialFile}, {"--identity", &settings.Identity}, {"--known-hosts", &settings.KnownHosts}, {"--webhook-secret-file", &settings.Webhook.SecretFile}}
	for i := range settings.Mirrors {
		m := &settings.Mirrors[i]
		files = append(files, settingsFile{"ca_file of mirror " + m.Repository, &m.CAFile}, settingsFile{"credential_file of mirror " + m.Repository, &m.CredentialFile})
	}
	for _, file := range files {
		if err := readableFile(file.flag, file.path); err != nil {
			return agent.Options{}, err
		}
	}
	for name, d := range map[string]time.Duration{"--refresh": settings.Refresh, "--drain": settings.Drain} {
		if d <= 0 {
			return agent.Options{}, fmt.Errorf("%s is %s, which is not above zero (write 30s)", name, d)
		}
	}
	if k := settings.SSHKeepalive; k.Seconds < 0 || k.CountMax < 0 || (k.Seconds > 0) != (k.CountMax > 0) {
		return agent.Options{}, fmt.Errorf("--ssh-keepalive-seconds is %d and --ssh-keepalive-count-max %d (give both, above zero, or none)", k.Seconds, k.CountMax)
	}
	child, err := childCommand()
	if err != nil {
		return agent.Options{}, err
	}
	fault, err := faultFromEnvironment(os.Getenv(faultVariable))
	if err != nil {
		return agent.Options{}, err
	}
	return agent.Options{Home: home, Settings: settings, Log: a.log(), Peers: peers{settings}, Child: child, Fault: fault}, nil
}

// checkEvaluation refuses limits that no evaluation could meet; 0 means the program's default.
func checkEvaluation(e config.Evaluation) error {
	for _, l := range []struct {
		name         string
		value, least int
	}{
		{"memory (MiB)", e.MemoryMiB, config.LeastMemoryMiB}, {"processor time (seconds)", e.CPUSeconds, 1}, {"time on the clock (seconds)", e.WallSeconds, 1},
	} {
		if l.value != 0 && l.value < l.least {
			return fmt.Errorf("the evaluation limit for %s is %d (write %d or more, or leave it out)", l.name, l.value, l.least)
		}
	}
	return nil
}

// readableFile makes a path absolute, because the child that opens it has another working directory, and refuses a file that is not there.
func readableFile(flag string, path *string) error {
	if *path == "" {
		return nil
	}
	abs, err := filepath.Abs(*path)
	if err != nil {
		return err
	}
	f, err := os.Open(abs)
	if err != nil {
		return fmt.Errorf("cannot read the file of %s: %w", flag, err)
	}
	*path = abs
	return f.Close()
}
