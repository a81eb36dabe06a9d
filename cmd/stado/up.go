package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/reconcile/store"
	"stado.internal/stado/schema"
)

// upReadyTimeout is how long `up` waits for its own registry to be served before it says why it is not. It goes on waiting after that.
const upReadyTimeout = 10 * time.Second

func newUp(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "up [DIR]",
		Short: "Run a one-host fleet from nothing",
		Long: `Run a one-host fleet in the foreground: a registry repository in DIR (default: registry-repo in the state directory; made when
absent or empty, refused when it is something else), this host's agent, and a small sample service behind one adapter. Ctrl-C ends
it; run it again and it continues with what is there.`,
		Example: "  stado up\n  stado up ./fleet",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := a.agentHome()
			if err != nil {
				return refused(err)
			}
			dir := filepath.Join(home, "registry-repo")
			if len(args) == 1 {
				if dir, err = filepath.Abs(args[0]); err != nil {
					return refused(err)
				}
			}
			if err := a.up(c.Context(), home, dir); err != nil {
				return refused(err)
			}
			return nil
		},
	}
}

func (a *app) up(ctx context.Context, home, dir string) error {
	if err := config.MakeHome(home); err != nil {
		return err
	}
	if err := a.ensureRepository(home, dir); err != nil {
		return err
	}
	settings, err := upSettings(home, dir)
	if err != nil {
		return err
	}
	opt, err := a.agentOptions(home, settings)
	if err != nil {
		return err
	}
	sample := newSample(opt.Log)
	opt.Adopted = sample.follow
	ag, err := agent.New(opt)
	if err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return ag.Run(ctx) })
	parts.Go(func() error { return sample.run(ctx) })
	parts.Go(func() error { return a.announce(ctx, ag, home, dir) })
	return parts.Wait()
}

func (a *app) ensureRepository(home, dir string) error {
	switch state, err := inspectRepository(dir); {
	case err != nil:
		return err
	case state == repositoryPresent:
		return nil
	}
	// A new repository is a new history, which this host would refuse for ever after it has held another one.
	view, err := store.Read(filepath.Join(home, registryFolder))
	if err != nil {
		return err
	}
	if view.Held.Generation > 0 {
		return fmt.Errorf("there is no registry repository in %s, and %s holds generation %d of one: put that repository back, or start a new fleet with another --home",
			dir, home, view.Held.Generation)
	}
	s, err := scaffoldFor("")
	if err != nil {
		return err
	}
	if s.APIPort, s.AdapterPort, s.ServicePort, err = freePorts(s.APIPort, s.AdapterPort, s.ServicePort); err != nil {
		return err
	}
	// A fleet that a person is trying out should answer an edit while they watch.
	s.RefreshSeconds = 2
	if err := s.write(dir); err != nil {
		return fmt.Errorf("cannot make a registry repository in %s: %w", dir, err)
	}
	return nil
}

// freePorts keeps the three well-known ports when all are free, else takes three that are: the numbers stand in the registry from then
// on, so they must work on this machine and need not be the same on another.
func freePorts(api, adapter, service int) (int, int, int, error) {
	want := []int{api, adapter, service}
	open := func(port int) (net.Listener, error) { return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) }
	for _, fallback := range []bool{false, true} {
		var held []net.Listener
		var err error
		for i := range want {
			if fallback {
				want[i] = 0
			}
			var l net.Listener
			if l, err = open(want[i]); err != nil {
				break
			}
			held = append(held, l)
			want[i] = l.Addr().(*net.TCPAddr).Port
		}
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
		if err == nil {
			return want[0], want[1], want[2], nil
		}
		if fallback {
			return 0, 0, 0, fmt.Errorf("cannot find three free loopback ports: %w", err)
		}
	}
	return want[0], want[1], want[2], nil
}

// upSettings is agent.cue, made on the first run so that `stado agent run` with the same state directory means the same host. The
// repository named on the command line wins, and the host is the one that the repository was made for.
func upSettings(home, dir string) (config.Agent, error) {
	s, err := withFile(home, config.Agent{Repository: dir})
	if err != nil || s.Host != "" {
		return s, err
	}
	if s.Host, err = soleHost(dir); err != nil || s.Host == "" {
		return s, err
	}
	text := fmt.Sprintf("// What this agent needs before any registry is known; see `stado agent run --help`.\nrepository: %q\nhost:       %q\n", s.Repository, s.Host)
	if _, err := os.Stat(filepath.Join(home, config.File)); errors.Is(err, os.ErrNotExist) {
		return s, durable.Folder{Path: home}.Write(config.File, []byte(text), 0o600)
	}
	return s, nil
}

// soleHost is the host of a repository that declares exactly one, and empty for any other: then the machine's host name decides.
func soleHost(dir string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "hosts"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	var hosts []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".cue") {
			hosts = append(hosts, schema.EntryName(e.Name()))
		}
	}
	if len(hosts) != 1 {
		return "", nil
	}
	return hosts[0], nil
}

// announce prints the block once the registry is served. Until then it says what is being waited on.
func (a *app) announce(ctx context.Context, ag *agent.Agent, home, dir string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(upReadyTimeout)
	for !ag.Serving() {
		select {
		case <-ctx.Done():
			return nil
		case <-late:
			st := ag.State()
			fmt.Fprintf(a.stderr, "still %s%s\n", st.State, because(st.Reason))
			for _, r := range st.Refusals {
				fmt.Fprintln(a.stderr, r.Sentence)
			}
		case <-tick.C:
		}
	}
	a.printUp(ag.State(), home, dir)
	return nil
}

func (a *app) printUp(st status.Resolver, home, dir string) {
	stado := fmt.Sprintf("%s --home %s", programName(), shellWord(home))
	if refusal := upRefusal(st); refusal != "" {
		fmt.Fprintf(a.stdout, "stado is up, but %s is refused: %s\n\nhost %s serves generation %d, which it held before; another --home starts a fleet of its own\n\n",
			dir, refusal, st.Target, st.Generation)
	} else {
		fmt.Fprintf(a.stdout, "stado is up: host %s serves generation %d of %s\n\n", st.Target, st.Generation, dir)
	}
	for _, l := range st.Adapters {
		if line := curlLine(l); line != "" {
			fmt.Fprintf(a.stdout, "%s\n\n", line)
			break
		}
	}
	rows := [][]string{
		{"edit", filepath.Join(dir, "hosts", schema.EntryFile(string(st.Target))), "(an adapter's bind, say)"},
		{"and", filepath.Join(dir, "generation.cue"), "(raise the number in the same commit)"},
		{"check", stado + " vet " + shellWord(dir) + " --base HEAD", ""},
		{"commit", "git -C " + shellWord(dir) + " commit -am 'move the adapter'", ""},
		{"adopted?", stado + " registry log", ""},
		{"serving?", stado + " resolver status", ""},
		{"stop", "Ctrl-C; run it again and it continues", ""},
	}
	for _, r := range rows {
		fmt.Fprintln(a.stdout, strings.TrimRight(fmt.Sprintf("%-9s %s %s", r[0], r[1], r[2]), " "))
	}
}

// upRefusal is why the repository is not what is served; empty when it is.
func upRefusal(st status.Resolver) string {
	for _, r := range st.Refusals {
		return r.Sentence
	}
	if up := st.Authority.Reachable; up != nil && !*up && st.Authority.ReadFrom == "" {
		return st.Authority.Detail
	}
	return ""
}

// curlLine asks the sample service through its adapter; empty for other adapters.
func curlLine(l status.Listener) string {
	socket, unix := strings.CutPrefix(l.Bind, "unix://")
	switch {
	case !l.Listening || l.Service != sampleService:
		return ""
	case unix:
		return "curl --unix-socket " + shellWord(socket) + " http://localhost/"
	}
	return "curl http://" + l.Bind + "/"
}

func programName() string {
	if strings.ContainsRune(os.Args[0], filepath.Separator) {
		if abs, err := filepath.Abs(os.Args[0]); err == nil {
			return shellWord(abs)
		}
	}
	return "stado"
}

// shellWord quotes a path so that a printed command line can be pasted.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+,=", r)
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// hello is the endpoint of the sample service on one host, if the registry still declares it.
func hello(s *fleet.Snapshot, host fleet.HostName) (fleet.Endpoint, bool) {
	ep, ok := s.Registry.Directory.Services[sampleService].Endpoints[host]
	if !ok {
		return fleet.Endpoint{}, false
	}
	parsed, err := fleet.ParseEndpoint(ep.URL)
	return parsed, err == nil && parsed.Scheme == "http"
}
