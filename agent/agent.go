// Package agent wires one host's agent: it builds the parts in order, joins them, and owns the state directory. It decides nothing that
// a part could decide.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/agent/resolver"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/reconcile/duty"
	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/sources"
	"stado.internal/stado/reconcile/store"
	"stado.internal/stado/reconcile/webhook"
)

// Options is what an agent needs from its process. Home, Repository, Peers and Log are required.
type Options struct {
	Home     string
	Settings config.Agent
	Log      *slog.Logger
	// Peers are asked what they hold while this host is the authority.
	Peers duty.Peers
	// Child is the command line of this program's hidden verb that runs untrusted work under limits.
	Child []string
	// Fault is called at every named step of a write; crash tests end the process in it. nil means none.
	Fault func(point string) error
	// Adopted is called, when set, with every snapshot that this host began to serve; it must not block.
	Adopted func(s *fleet.Snapshot, host fleet.HostName)
	// Hostname overrides the machine's host name for the identity rule; empty means os.Hostname.
	Hostname string
}

// Agent is one running agent. Its documents may be read from any goroutine.
type Agent struct {
	opt        Options
	lock       *lock
	store      *store.Store
	sources    *sources.Set
	duty       *duty.Watch
	reconciler *reconcile.Reconciler
	hook       *webhook.Hook // nil: no webhook is configured
	resolver   *resolver.Resolver
	state      *status.Publisher[status.Resolver]
	waiting    *status.Publisher[[]status.Wait]

	mu     sync.Mutex
	target fleet.HostName // this host's name in the registry, once one was adopted
	lost   string         // why the served registry does not tell which host this is
}

// New takes the state directory, reads the anchor and builds the parts in the order in which they depend on each other. It binds no
// port and asks nobody. The caller must call [Agent.Run], which gives the directory back.
func New(opt Options) (*Agent, error) {
	if opt.Settings.Repository == "" {
		return nil, sayNoRepository(opt.Home, config.File)
	}
	if err := config.MakeHome(opt.Home); err != nil {
		return nil, err
	}
	held, err := acquire(opt.Home)
	if err != nil {
		return nil, err
	}
	a := &Agent{opt: opt, lock: held, target: fleet.HostName(opt.Settings.Host)}
	if err := a.build(); err != nil {
		return nil, errors.Join(err, held.release())
	}
	return a, nil
}

func (a *Agent) build() error {
	opt := a.opt
	published := durable.Folder{Path: opt.Home}
	if err := published.Sweep(); err != nil {
		return fmt.Errorf("cannot clear temporary files in %s: %w", opt.Home, err)
	}
	var err error
	// 1. The anchor: everything after it may rely on what this host already holds.
	if a.store, err = store.Open(filepath.Join(opt.Home, "registry"), opt.Fault); err != nil {
		return err
	}
	// 2. The documents: readable before anything runs, so that a hanging start says what it waits on.
	a.state = status.NewPublisher(published, status.ResolverFile, a.document, opt.Log, status.Synced())
	a.waiting = status.NewPublisher(published, status.WaitingFile, a.waits, opt.Log)
	// 3. The resolver: holds no port until a snapshot is adopted.
	a.resolver = resolver.New(resolver.Options{
		Log: opt.Log, Waiting: a.waiting, Changed: func() { a.state.Touch() }, Health: a.health, Drain: opt.Settings.Drain,
	})
	// 4. The source and the loop that feeds the resolver.
	set := opt.Settings
	named := []sources.Named{{Repository: set.Repository, Branch: set.Branch, CAFile: set.CAFile, CredentialFile: set.CredentialFile}}
	for _, m := range set.Mirrors {
		named = append(named, sources.Named(m))
	}
	started, err := sources.Remotes(named)
	if err != nil {
		return err
	}
	touch := func() { a.state.Touch() }
	if a.duty, err = duty.New(duty.Options{
		Home: durable.Folder{Path: opt.Home, Fault: opt.Fault}, Peers: opt.Peers, Bundle: a.bundle, Self: a.self, Interval: a.interval,
		Poke: func() { a.reconciler.Poke() }, Changed: touch, Log: opt.Log,
	}); err != nil {
		return err
	}
	a.sources = sources.New(sources.Options{Started: started, Complete: a.polling, Self: a.self, Own: a.duty.Guard, Log: opt.Log})
	a.reconciler = reconcile.New(reconcile.Options{
		Store: a.store, Sources: a.sources.Order, Authority: started[0].Host(), Refresh: opt.Settings.Refresh, Interval: a.interval,
		Adopt: a.adopt, Changed: touch, Log: opt.Log,
	})
	// 5. What says that there is news: nothing depends on it.
	if w := opt.Settings.Webhook; w != (config.Webhook{}) {
		a.hook, err = webhook.New(webhook.Options{
			Bind: w.Bind, SecretFile: w.SecretFile, Trigger: a.reconciler.Poke, Changed: func() { a.state.Touch() }, Log: opt.Log,
		})
	}
	return err
}

// OverSSH is how the hosts of the fleet are reached over SSH with an agent's settings.
func OverSSH(s config.Agent) remote.Options {
	o := remote.Options{Identity: remote.Identity{File: s.Identity, Agent: os.Getenv("SSH_AUTH_SOCK")}}
	if s.KnownHosts != "" {
		o.KnownHosts = []string{s.KnownHosts}
	}
	o.Keepalive = remote.Keepalive{Interval: time.Duration(s.SSHKeepalive.Seconds) * time.Second, Misses: s.SSHKeepalive.CountMax}
	return o
}

// Child is the runner for untrusted work with an operator's limits over the defaults.
func Child(command []string, e config.Evaluation) sandbox.Runner {
	limits := sandbox.DefaultLimits()
	if e.MemoryMiB > 0 {
		limits.Data = uint64(e.MemoryMiB) << 20
	}
	if e.CPUSeconds > 0 {
		limits.CPU = time.Duration(e.CPUSeconds) * time.Second
	}
	if e.WallSeconds > 0 {
		limits.Wall = time.Duration(e.WallSeconds) * time.Second
	}
	return sandbox.Runner{Command: command, Limits: limits}
}

// Run runs the agent until ctx ends, then lets relays in flight finish and publishes the last state. It returns nil on an orderly end.
func (a *Agent) Run(ctx context.Context) error {
	defer func() { _ = a.lock.release() }() // the process is ending, and the kernel drops the lock with it
	api, err := listenAPI(a.opt.Home)
	if err != nil {
		return err
	}
	// The documents outlive the parts they describe, so that the last thing on disk is how it ended.
	docs, stopDocs := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDocs()
	var publishers errgroup.Group
	publishers.Go(func() error { return a.state.Run(docs) })
	publishers.Go(func() error { return a.waiting.Run(docs) })

	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return a.resolver.Run(ctx) })
	parts.Go(func() error { return a.reconciler.Run(ctx) })
	parts.Go(func() error { return a.duty.Run(ctx) })
	parts.Go(func() error { return a.serveAPI(ctx, api) })
	parts.Go(func() error { return a.notify(ctx) })
	if a.hook != nil {
		parts.Go(func() error { return a.hook.Run(ctx) })
	}
	a.state.Touch()
	err = parts.Wait()
	a.sources.Close()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	a.state.Touch()
	stopDocs()
	return errors.Join(err, publishers.Wait())
}

// Serving reports whether the adapters of an admitted registry are up.
func (a *Agent) Serving() bool { return a.state.Load().State == status.StateServing }

// State is the published document as of now.
func (a *Agent) State() status.Resolver { return a.state.Load() }

// adopt runs on the reconciler's goroutine. A registry that does not tell which host this is closes every adapter: whatever they led to
// is no longer declared.
func (a *Agent) adopt(s *fleet.Snapshot) {
	host, err := a.identify(s)
	// The listeners first: a document that names the new generation must not list the old ones.
	a.resolver.Apply(s, host)
	a.mu.Lock()
	a.target, a.lost = host, ""
	if err != nil {
		a.lost = err.Error()
	}
	a.mu.Unlock()
	a.duty.Adopted(s)
	a.state.Touch()
	if a.opt.Adopted != nil {
		a.opt.Adopted(s, host)
	}
	if r := resolverOf(s, host); r != nil {
		a.opt.Log.Info(sayServing(string(host), r.APIBind, len(r.Adapters), r.RefreshSeconds, r.MaxStaleSeconds))
	}
}

// identify finds this host in a registry. With an error the name is what was looked for.
func (a *Agent) identify(s *fleet.Snapshot) (fleet.HostName, error) {
	if h := fleet.HostName(a.opt.Settings.Host); h != "" {
		if _, ok := s.Registry.Hosts[h]; !ok {
			return h, sayNotInRegistry(h, s.Generation())
		}
		return h, nil
	}
	name := a.opt.Hostname
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("cannot tell which host this is: %w (give --host)", err)
		}
	}
	host, err := s.Registry.HostByIdentity(name)
	if err != nil {
		return fleet.HostName(name), err
	}
	return host, nil
}

// self is this host's name in a registry, empty when that does not tell.
func (a *Agent) self(s *fleet.Snapshot) fleet.HostName {
	host, err := a.identify(s)
	if err != nil {
		return ""
	}
	return host
}

// reading completes the options of a source. Files with credentials are for the remote that this agent was started with; no registry leads
// them elsewhere.
func (a *Agent) reading(o source.Options) source.Options {
	o.Store, o.Runner = filepath.Join(a.opt.Home, "registry.git"), Child(a.opt.Child, a.opt.Settings.Evaluation)
	o.Log, o.Fault = a.opt.Log, a.opt.Fault
	ssh := OverSSH(a.opt.Settings)
	ssh.Host, ssh.Paths = o.SSH.Host, o.SSH.Paths
	o.SSH = ssh
	return o
}

// childKept is how long the child of a fetch stays for the next one: commits come in rows.
const childKept = 5 * time.Minute

// polling completes the options of a source that is read again and again.
func (a *Agent) polling(o source.Options) source.Options {
	o.Keep = childKept
	return a.reading(o)
}

// bundle reads a git bundle.
func (a *Agent) bundle(file string) (reconcile.Source, error) {
	remote, err := source.BundleRemote(file, "")
	return source.New(a.reading(source.Options{Remote: remote})), err
}

func (a *Agent) interval(s *fleet.Snapshot) time.Duration {
	host, err := a.identify(s)
	if err != nil {
		return 0
	}
	if r := resolverOf(s, host); r != nil {
		return r.Refresh()
	}
	return 0
}

func resolverOf(s *fleet.Snapshot, host fleet.HostName) *fleet.ServiceResolver {
	if s == nil || s.Registry == nil {
		return nil
	}
	return s.Registry.Hosts[host].Resolver
}

func (a *Agent) waits() []status.Wait {
	if w := a.resolver.Waits(); w != nil {
		return w
	}
	return []status.Wait{}
}
