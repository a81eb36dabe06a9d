package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/source"
)

// storeFolder is the part of a state directory that is this host's own repository of the registry.
const storeFolder = "registry.git"

func newBundleCreate(a *app) *cobra.Command {
	var repository, since, ref string
	var asJSON bool
	c := &cobra.Command{
		Use:   "create FILE",
		Short: "Write the registry that this host holds, or a repository's, to a git bundle",
		Long: `Write the registry that this host holds, with its history, to a git bundle. With --repository, what that repository's HEAD or --ref
has. --since leaves out what a commit that the reader has already reaches. FILE may be - for stdout. 'git bundle verify' reads the file.`,
		Example: "  stado registry bundle create registry.bundle\n  stado registry bundle create registry.bundle --repository . --since origin/main",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, rev := repository, ref
			if repository == "" {
				q, err := a.inquire(c.Context(), config.Agent{})
				if err != nil {
					return refused(err)
				}
				defer func() { _ = q.close() }() // the bundle is written or it is not
				if dir, rev, err = q.heldHistory(); err != nil {
					return err
				}
			}
			e, err := evaluator(config.Evaluation{})
			if err != nil {
				return refused(err)
			}
			if args[0] == "-" {
				return asRefused(a.streamBundle(func(file string) error {
					_, err := e.Bundle(c.Context(), dir, rev, since, source.DefaultBranch, file)
					return err
				}))
			}
			b, err := e.Bundle(c.Context(), dir, rev, since, source.DefaultBranch, args[0])
			if err != nil {
				return refused(err)
			}
			if asJSON {
				return a.printJSON(b)
			}
			what := "the whole history"
			if b.Since != "" {
				what = "what follows on " + short(b.Since)
			}
			fmt.Fprintf(a.stdout, "wrote %s: %s up to commit %s, %d objects\n", args[0], what, short(b.Commit), b.Objects)
			return nil
		},
	}
	c.Flags().StringVar(&repository, "repository", "", "a registry repository (default: what this host holds)")
	c.Flags().StringVar(&ref, "ref", "HEAD", "the revision to write, with --repository")
	c.Flags().StringVar(&since, "since", "", "a revision that the reader has already")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// heldHistory is the history of what this host holds.
func (q *inquiry) heldHistory() (dir, commit string, err error) {
	held, err := q.app.held()
	if err != nil {
		return "", "", err
	}
	if held.Commit == "" {
		return "", "", refused(fmt.Errorf("this host holds generation %d as a document without a commit, so there is no history to write (export it: stado registry export)", held.Generation()))
	}
	dir, err = q.history()
	return dir, held.Commit, asRefused(err)
}

// streamBundle writes a bundle to stdout once it is whole.
func (a *app) streamBundle(write func(file string) error) (err error) {
	dir, err := os.MkdirTemp("", "stado-bundle-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "registry.bundle")
	if err := write(file); err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(a.stdout, f)
	return err
}

// bundleAnswer is the JSON answer of `stado registry bundle verify`.
type bundleAnswer struct {
	File       string           `json:"file"`
	Commit     string           `json:"commit"`
	Generation fleet.Generation `json:"generation"`
	Held       fleet.Generation `json:"held_generation"`   // 0: this host holds nothing
	Admitted   bool             `json:"admitted"`          // what this host would do with it
	Rule       string           `json:"rule,omitempty"`    // that refuses it
	Refusal    string           `json:"refusal,omitempty"` // why
}

func newBundleVerify(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "verify FILE",
		Short:   "Say whether this host would admit what a git bundle carries",
		Long:    "Say whether this host would admit what a git bundle carries, by every rule that it applies to its authority. Nothing is changed.\n\nExit status: 0 it would, 1 it would not.",
		Example: "  stado registry bundle verify registry.bundle --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			q, err := a.inquire(c.Context(), config.Agent{})
			if err != nil {
				return refused(err)
			}
			defer func() { err = errors.Join(err, q.close()) }()
			remote, err := source.BundleRemote(args[0], "")
			if err != nil {
				return refused(err)
			}
			asked, err := q.ask(source.Options{Remote: remote})
			if err != nil {
				return refused(err)
			}
			answer := bundleAnswer{File: args[0], Commit: asked.Tip, Generation: asked.Newest, Held: asked.Held.Generation, Admitted: asked.Refusal == nil}
			if asked.Refusal != nil {
				answer.Rule, answer.Refusal = asked.Refusal.Rule, asked.Refusal.Sentence
			}
			return a.answerBundle(answer, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) answerBundle(b bundleAnswer, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(b); err != nil || b.Admitted {
			return err
		}
		return notReady()
	}
	fmt.Fprintf(a.stdout, "%s carries commit %s, generation %d; this host holds generation %d\n", b.File, short(b.Commit), b.Generation, b.Held)
	if !b.Admitted {
		return refused(fmt.Errorf("this host would refuse it: %s: %s", b.Rule, b.Refusal))
	}
	fmt.Fprintln(a.stderr, "this host would admit it")
	return nil
}
