package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/duty"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// inquiry looks at what this host holds and asks sources and hosts, beside a running agent.
type inquiry struct {
	app      *app
	ctx      context.Context
	home     string
	settings config.Agent
	scratch  string
	store    *store.Store // nil: this host has none
	fault    func(point string) error
	lines    lines
	kept     sandbox.Keeper // of the child that fetches, and writes bundles

	// What [inquiry.look] found.
	held      store.Held
	copied    *fleet.Snapshot // the last-known-good copy; nil when there is none
	copyError string          // why it cannot be read
	self      fleet.HostName  // empty when it is not known
	assumed   fleet.HostName  // what this host is called as long as there is neither a copy nor a setting to tell
}

// inquire begins an inquiry. flags go before agent.cue.
func (a *app) inquire(ctx context.Context, flags config.Agent) (_ *inquiry, err error) {
	q := &inquiry{app: a, ctx: ctx, kept: sandbox.Keeper{For: time.Minute}}
	if q.home, err = a.clientHome(filepath.Join(registryFolder, store.HeldFile)); err != nil {
		return nil, err
	}
	if q.settings, err = withFile(q.home, flags); err != nil {
		return nil, err
	}
	if q.fault, err = faultFromEnvironment(os.Getenv(faultVariable)); err != nil {
		return nil, err
	}
	folder := filepath.Join(q.home, registryFolder)
	if _, err := os.Stat(folder); err == nil { // else nothing is held, and asking does not change that
		if q.store, err = store.Open(folder, q.fault); err != nil {
			return nil, err
		}
	}
	q.look()
	q.scratch, err = os.MkdirTemp("", "stado-inquiry-")
	return q, err
}

// evaluator is [evaluator] with the child that the inquiry keeps.
func (q *inquiry) evaluator() (source.Evaluator, error) {
	e, err := evaluator(q.settings.Evaluation)
	e.Kept = &q.kept
	return e, err
}

// close ends connections and the child that is kept, and removes what the inquiry has fetched.
func (q *inquiry) close() error {
	q.lines.close()
	q.kept.Close()
	return os.RemoveAll(q.scratch)
}

// look takes over what the store has read last.
func (q *inquiry) look() {
	if q.store != nil {
		q.held, _ = q.store.Held()
		q.copied, q.copyError = q.store.Snapshot(), ""
		if blockers := q.store.Blockers(); q.copied == nil && len(blockers) > 0 {
			q.copyError = blockers[0].Sentence
		}
	}
	if q.self = q.app.self(q.settings, q.copied); q.self == "" && q.copied == nil {
		q.self = q.assumed
	}
}

// authority reads the authority that the copy names, without a copy the repository that the agent is started with. This host does not answer
// itself once its agent knows that the role has moved on.
func (q *inquiry) authority() authority.Reading {
	if q.copied != nil && q.copied.Registry.Directory.Authority.Host == q.self {
		if record, err := duty.Load(q.home); err == nil && record.Deposed() {
			return authority.Reading{Cause: record.Sentence}
		}
	}
	o, err := q.named(q.copied)
	var asked reconcile.Asked
	if err == nil {
		asked, err = q.ask(o)
	}
	switch {
	case err != nil:
		return authority.Reading{Cause: err.Error()}
	case asked.Refusal != nil:
		return authority.Reading{Refused: asked.Refusal.Sentence}
	}
	return authority.Reading{}
}

// named is the authority that a copy names, without one the repository that the agent is started with. Files with credentials are for that
// repository alone.
func (q *inquiry) named(copied *fleet.Snapshot) (o source.Options, err error) {
	if copied != nil {
		o, named, err := source.Authority(copied.Registry, q.self)
		if named || err != nil {
			return o, err
		}
	}
	o.Remote, err = source.ParseRemote(q.settings.Repository, q.settings.Branch)
	o.Remote.CAFile, o.Remote.CredentialFile = q.settings.CAFile, q.settings.CredentialFile
	return o, err
}

// ask asks a source, in a copy of this host's repository of the registry.
func (q *inquiry) ask(o source.Options) (reconcile.Asked, error) {
	asked, _, err := q.askFor(q.store, o)
	return asked, err
}

// askFor asks a source on behalf of whoever holds what st does; nil holds nothing. The repository has what the source offered.
func (q *inquiry) askFor(st *store.Store, o source.Options) (asked reconcile.Asked, repository string, err error) {
	dir, err := os.MkdirTemp(q.scratch, "ask-")
	if err != nil {
		return asked, "", err
	}
	g, err := q.open(o, dir)
	if err != nil {
		return asked, "", err
	}
	defer g.Close()
	if st == nil {
		if st, err = store.Open(filepath.Join(dir, registryFolder), nil); err != nil {
			return asked, "", err
		}
	}
	asked, err = reconcile.Ask(q.ctx, st, g)
	return asked, filepath.Join(dir, storeFolder), err
}

// open makes a source with a copy of this host's repository of the registry in dir.
func (q *inquiry) open(o source.Options, dir string) (*source.Git, error) {
	o.Store = filepath.Join(dir, storeFolder)
	if err := source.CopyStore(filepath.Join(q.home, storeFolder), o.Store); err != nil {
		return nil, err
	}
	e, err := q.evaluator()
	if err != nil {
		return nil, err
	}
	ssh := agent.OverSSH(q.settings)
	ssh.Host, ssh.Paths = o.SSH.Host, o.SSH.Paths
	o.SSH, o.Runner, o.Kept = ssh, e.Runner, e.Kept
	return source.New(o), nil
}

// carried is what a git bundle is to this host.
type carried struct {
	reconcile.Asked
	repository string // has what is held and what the bundle carries
}

// askBundle asks a bundle that no operator gave as a file.
func (q *inquiry) askBundle(data []byte) (carried, error) { return q.askFile("the bundle", data) }

// askFile asks a bundle. Errors call it by name: the copy that is read is gone when they are.
func (q *inquiry) askFile(name string, data []byte) (c carried, err error) {
	dir, err := os.MkdirTemp(q.scratch, "bundle-")
	if err != nil {
		return c, err
	}
	file := filepath.Join(dir, bundleFile)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return c, err
	}
	remote, err := source.BundleRemote(file, "")
	if err != nil {
		return c, err
	}
	c.Asked, c.repository, err = q.askFor(q.store, source.Options{Remote: remote})
	if e, ok := errors.AsType[*source.Error](err); ok && e.Remote == remote.URL {
		e.Name = name
	}
	return c, err
}

// handedFile is the registry that was handed over last, in a state directory: the history of what is held, until the repository has it.
const handedFile = "handed.bundle"

// hold makes what a bundle carries this host's copy. Its history comes first, and whole, whatever the bundle leaves out.
func (q *inquiry) hold(c carried) error {
	e, err := q.evaluator()
	if err != nil {
		return err
	}
	if _, err := e.Bundle(q.ctx, c.repository, c.Snapshot.Commit, "", source.DefaultBranch, filepath.Join(q.home, handedFile)); err != nil {
		return err
	}
	return c.HandOver(q.store)
}

// repository is this host's own repository of the registry.
func (q *inquiry) repository() (source.Repository, error) {
	return localRepository(filepath.Join(q.home, storeFolder))
}

// history is a repository of this host that has the held commit with its history: its own one, else what was handed over last. The one
// that an agent fetches into may be in use, so a command does not write there.
func (q *inquiry) history() (dir string, err error) {
	own := filepath.Join(q.home, storeFolder)
	if _, err = (gitRepository{dir: own}).run(q.ctx, "cat-file", "-e", q.held.Commit+"^{commit}"); err == nil {
		return own, nil
	}
	handed := filepath.Join(q.home, handedFile)
	if _, err := os.Stat(handed); err == nil {
		g, err := q.repositoryOf(handed, "refs/heads/"+source.DefaultBranch)
		if err != nil {
			return "", err
		}
		if _, err := g.run(q.ctx, "cat-file", "-e", q.held.Commit+"^{commit}"); err == nil {
			return g.dir, nil
		}
	}
	return "", fmt.Errorf("this host has no history of generation %d, commit %s, which it holds (run its agent until it has read it from the authority): %w", q.held.Generation, short(q.held.Commit), err)
}

// repositoryOf is a fresh bare repository whose branch is a revision of another one, or of a bundle.
func (q *inquiry) repositoryOf(from, revision string) (gitRepository, error) {
	dir, err := os.MkdirTemp(q.scratch, "repository-")
	if err != nil {
		return gitRepository{}, err
	}
	g := gitRepository{dir: dir}
	_, err = g.run(q.ctx, "init", "--quiet", "--bare", "--initial-branch", authority.Branch)
	if err == nil {
		_, err = g.run(q.ctx, "fetch", "--quiet", "--no-tags", "--no-auto-gc", "--", from, revision+":refs/heads/"+authority.Branch)
	}
	return g, err
}
