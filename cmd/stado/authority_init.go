package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// authorityFolder is the part of a state directory that is the repository which a host serves as the authority.
const authorityFolder = "authority.git"

func newAuthorityInit(a *app) *cobra.Command {
	var from, branch string
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a bare repository that this host can serve as the registry authority",
		Long: `Make the bare repository DIR (default: authority.git in the state directory) that this host can serve as the registry authority. Its
branch begins as what --from has, by default as what this host holds; a host that holds nothing gets an empty repository to push to. The
pre-receive hook judges every push as the agents will, and the repository refuses to rewind or delete branches and malformed objects.

A repository that is there stays as it is; only the hook and these settings are put in order. Nothing is ever moved aside.`,
		Example: "  stado authority init\n  stado authority init /srv/git/fleet.git --from https://forge.example/fleet.git",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := a.clientHome(filepath.Join(registryFolder, store.HeldFile))
			if err != nil {
				return refused(err)
			}
			in := authorityInit{app: a, dir: filepath.Join(home, authorityFolder), home: home, from: from, branch: branch}
			if len(args) == 1 {
				in.dir = args[0]
			}
			if in.dir, err = filepath.Abs(in.dir); err != nil {
				return refused(err)
			}
			return asRefused(in.run(c.Context()))
		},
	}
	c.Flags().StringVar(&from, "from", "", "the repository that it begins as: a directory or a URL (default: what this host holds)")
	c.Flags().StringVar(&branch, "branch", source.DefaultBranch, "branch that is the registry")
	return c
}

type authorityInit struct {
	app          *app
	home, dir    string
	from, branch string
}

func (in authorityInit) run(ctx context.Context) error {
	exists, err := in.exists()
	if err != nil {
		return err
	}
	step := in.create
	if exists {
		step = in.present
	}
	if err := step(ctx); err != nil {
		return err
	}
	if err := (installer{app: in.app, dir: in.dir, branch: in.branch}).install(false, true); err != nil {
		return err
	}
	tip, err := (gitRepository{dir: in.dir}).run(ctx, "rev-parse", "--quiet", "--verify", "refs/heads/"+in.branch)
	if err != nil {
		fmt.Fprintf(in.app.stderr, "branch %s is empty: push a registry to it (git push %s HEAD:%s)\n", in.branch, in.dir, in.branch)
		return nil
	}
	fmt.Fprintf(in.app.stderr, "branch %s is at %s; to make this host the authority, say so in authority.cue: host, repository: %q, command\n", in.branch, short(tip), in.dir)
	return nil
}

// exists reports whether something is in the way of making the repository.
func (in authorityInit) exists() (bool, error) {
	entries, err := os.ReadDir(in.dir)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return len(entries) > 0, err
}

// present accepts a bare repository and nothing else: what people push to is not made over.
func (in authorityInit) present(ctx context.Context) error {
	bare, err := (gitRepository{dir: in.dir}).run(ctx, "rev-parse", "--is-bare-repository")
	if err != nil || bare != "true" {
		return fmt.Errorf("%s is there and is not a bare git repository (name another directory)", in.dir)
	}
	if in.from != "" {
		return fmt.Errorf("%s is a repository already, so --from says nothing about it (push to it instead)", in.dir)
	}
	fmt.Fprintf(in.app.stdout, "kept  %s\n", in.dir)
	return nil
}

// create makes the repository beside its place, so that a killed run leaves nothing that looks like one.
func (in authorityInit) create(ctx context.Context) (err error) {
	from, ref, err := in.beginning()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(in.dir), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(in.dir), "."+filepath.Base(in.dir)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	g := gitRepository{dir: fresh}
	steps := [][]string{{"init", "--quiet", "--bare", "--initial-branch", in.branch}}
	if from != "" {
		steps = append(steps, []string{"fetch", "--quiet", "--no-tags", "--", from, ref + ":refs/heads/" + in.branch}, []string{"fsck", "--no-progress", "--no-dangling"})
	}
	for _, args := range steps {
		if _, err := g.run(ctx, args...); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Chmod(fresh, 0o755), os.Rename(fresh, in.dir)); err != nil {
		return err
	}
	fmt.Fprintf(in.app.stdout, "made  %s\n", in.dir)
	return nil
}

// beginning is where the branch comes from: a repository and what to fetch of it. Both are empty for an empty one.
func (in authorityInit) beginning() (from, ref string, err error) {
	if in.from != "" {
		if _, err := os.Stat(in.from); err == nil {
			in.from, err = filepath.Abs(in.from)
			return in.from, "refs/heads/" + in.branch, err
		}
		return in.from, "refs/heads/" + in.branch, nil
	}
	view, err := store.Read(filepath.Join(in.home, registryFolder))
	if err != nil || view.Held.Generation == 0 {
		return "", "", err
	}
	if view.Held.Commit == "" {
		return "", "", fmt.Errorf("this host holds generation %d as a document without a commit, which has no history to begin with (name a repository: --from)", view.Held.Generation)
	}
	return filepath.Join(in.home, storeFolder), view.Held.Commit, nil
}
