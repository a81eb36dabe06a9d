package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// authorityFolder is the part of a state directory that is the repository which a host serves as the authority.
const authorityFolder = "authority.git"

func newAuthorityInit(a *app) *cobra.Command {
	var from, branch string
	var asJSON bool
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a bare repository that this host can serve as the registry authority",
		Long: `Make the bare repository DIR (default: authority.git in the state directory) that this host can serve as the registry authority. Its
branch begins as what --from has, by default as what this host holds; a host that holds nothing gets an empty repository to push to. The
pre-receive hook judges every push as the agents will, and the repository refuses to rewind or delete branches and malformed objects.
What --from has is judged in the same way first: a registry that every agent would refuse is not taken, and no repository is made.

A repository that is there stays as it is; only the hook and these settings are put in order. Nothing is ever moved aside.

With '--from -' it begins as a git bundle on stdin ('stado registry bundle create'), and a repository that is there is pushed what the
bundle has, without force.`,
		Example: "  stado authority init\n  stado authority init /srv/git/fleet.git --from https://forge.example/fleet.git",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := a.clientHome(filepath.Join(registryFolder, store.HeldFile))
			if err != nil {
				return refused(err)
			}
			in := authorityInit{app: a, findings: a, dir: filepath.Join(home, authorityFolder), home: home, from: from, branch: branch}
			if len(args) == 1 {
				in.dir = args[0]
			}
			if in.dir, err = filepath.Abs(in.dir); err != nil {
				return refused(err)
			}
			if asJSON {
				in.app = a.silent()
			}
			if from == "-" {
				err = in.carried(c)
			} else {
				err = in.run(c.Context())
			}
			if err != nil || !asJSON {
				return asRefused(err)
			}
			return a.answerRepository(c.Context(), in)
		},
	}
	c.Flags().StringVar(&from, "from", "", "the repository that it begins as: a directory, a URL, or - for a bundle on stdin (default: what this host holds)")
	c.Flags().StringVar(&branch, "branch", source.DefaultBranch, "branch that is the registry")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// authorityRepository is the JSON answer of `stado authority init`: what service_directory.authority says of this host once it is the
// authority, and the tip of the branch.
type authorityRepository struct {
	Repository string `json:"repository"`
	Command    string `json:"command"`
	Branch     string `json:"branch"`
	Commit     string `json:"commit,omitempty"` // empty for an empty branch
}

func (a *app) answerRepository(ctx context.Context, in authorityInit) error {
	answer := authorityRepository{Repository: in.dir, Branch: in.branch}
	var err error
	if answer.Command, err = ownPath(); err != nil {
		return refused(err)
	}
	answer.Commit, _ = in.tip(ctx)
	return a.printJSON(answer)
}

// silent is the program without its words, for steps of a command that has words of its own.
func (a *app) silent() *app {
	quiet := *a
	quiet.stdout, quiet.stderr = io.Discard, io.Discard
	return &quiet
}

type authorityInit struct {
	app          *app
	findings     *app // where those are told although app says nothing; nil: nowhere
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
	if err := (installer{app: in.app, dir: in.dir, branch: in.branch, home: in.home}).install(false, true); err != nil {
		return err
	}
	tip, err := in.tip(ctx)
	if err != nil {
		fmt.Fprintf(in.app.stderr, "branch %s is empty: push a registry to it (git push %s HEAD:%s)\n", in.branch, in.dir, in.branch)
		return nil
	}
	if in.app.stderr != io.Discard {
		in.sayTip(ctx, tip)
	}
	return nil
}

func (in authorityInit) tip(ctx context.Context) (string, error) {
	return gitRepository{dir: in.dir}.run(ctx, "rev-parse", "--quiet", "--verify", "refs/heads/"+in.branch)
}

// carried is --from -.
func (in authorityInit) carried(c *cobra.Command) (err error) {
	q, err := in.app.inquire(c.Context(), config.Agent{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	_, bundle, err := readInput("-", c.InOrStdin(), maxBundle)
	if err != nil {
		return fmt.Errorf("cannot read the bundle: %w", err)
	}
	if err = q.bring(in, bundle); err != nil { // git names the copy that it read, which is gone by then
		err = errors.New(strings.ReplaceAll(err.Error(), filepath.Join(q.scratch, bundleFile), "the bundle on stdin"))
	}
	return err
}

// bring makes the repository from a bundle. One that is there takes what the bundle has as every push, without force.
func (q *inquiry) bring(in authorityInit, bundle []byte) error {
	present, err := in.exists()
	if err != nil {
		return err
	}
	if in.from = ""; !present {
		if in.from, err = q.bundleFile(bundle); err != nil {
			return err
		}
		return in.run(q.ctx)
	}
	g, err := q.unpacked(bundle)
	if err != nil {
		return err
	}
	if err := in.run(q.ctx); err != nil {
		return err
	}
	return in.take(q.ctx, g)
}

// unpacked is a fresh repository with what a bundle carries.
func (q *inquiry) unpacked(bundle []byte) (gitRepository, error) {
	file, err := q.bundleFile(bundle)
	if err != nil {
		return gitRepository{}, err
	}
	return q.repositoryOf(file, "refs/heads/"+authority.Branch)
}

// bundleFile is a bundle where git reads it.
func (q *inquiry) bundleFile(bundle []byte) (string, error) {
	file := filepath.Join(q.scratch, bundleFile)
	return file, os.WriteFile(file, bundle, 0o600)
}

// take pushes what another repository has, without force.
func (in authorityInit) take(ctx context.Context, g gitRepository) error {
	if has, err := in.has(ctx, g); has || err != nil {
		return err
	}
	parts, err := in.parts(ctx, g)
	if err != nil {
		return err
	}
	for _, commit := range parts {
		if _, err := g.run(ctx, "push", "--quiet", in.dir, commit+":refs/heads/"+in.branch); err != nil {
			return errors.New(fleet.OneLine(err.Error(), fleet.MaxText)) // another host may read the last line alone
		}
	}
	return nil
}

// has reports whether the branch has what another repository's has, and perhaps more.
func (in authorityInit) has(ctx context.Context, other gitRepository) (bool, error) {
	head, err := other.run(ctx, "rev-parse", "HEAD")
	return err == nil && in.reaches(ctx, head), err
}

func (in authorityInit) reaches(ctx context.Context, commit string) bool {
	_, err := gitRepository{dir: in.dir}.run(ctx, "merge-base", "--is-ancestor", commit, "refs/heads/"+in.branch)
	return err == nil
}

// parts are the commits at which a repository is pushed, so that no push brings more than a hook judges.
func (in authorityInit) parts(ctx context.Context, from gitRepository) ([]string, error) {
	tip, err := in.tip(ctx)
	if err != nil {
		return []string{"HEAD"}, nil
	}
	if _, err := from.run(ctx, "merge-base", "--is-ancestor", tip, "HEAD"); err != nil {
		return nil, fmt.Errorf("branch %s of %s is at commit %s, which is not in the history of what it is to have, and nothing is pushed with force (join the two histories first)", in.branch, in.dir, short(tip))
	}
	list, err := from.run(ctx, "rev-list", "--first-parent", "--reverse", tip+"..HEAD")
	var parts []string
	for each := range slices.Chunk(strings.Fields(list), maxPushed) {
		parts = append(parts, each[len(each)-1])
	}
	return parts, err
}

// exists reports whether something is in the way of making the repository.
func (in authorityInit) exists() (bool, error) {
	entries, err := os.ReadDir(in.dir)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return true, nil
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
		steps = append(steps, []string{"fetch", "--quiet", "--no-tags", "--no-auto-gc", "--", from, ref + ":refs/heads/" + in.branch}, []string{"fsck", "--no-progress", "--no-dangling"})
	}
	for _, args := range steps {
		if _, err := g.run(ctx, args...); err != nil { // it names a folder that is gone by then
			return fmt.Errorf("%s is not made from %s: %s", in.dir, dash(from), strings.ReplaceAll(err.Error(), fresh, in.dir))
		}
	}
	if in.from != "" { // else it is what this host has admitted
		if err := (authorityInit{app: in.app, findings: in.findings, dir: fresh, from: in.from, branch: in.branch}).admit(ctx, in.dir); err != nil {
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
