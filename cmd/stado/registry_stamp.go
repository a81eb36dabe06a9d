package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/reconcile/source"
)

func newRegistryStamp(a *app) *cobra.Command {
	var push, sign, asJSON bool
	var remote, branch string
	var limits config.Evaluation
	c := &cobra.Command{
		Use:   "stamp [DIR]",
		Short: "Raise the generation after a merge, in a commit of its own",
		Long: `Where the fleet's generation_mode is "stamped", changes leave generation.cue alone and this command raises the number: when the document
at HEAD of the registry repository DIR (default: this directory) differs from the one that got the current generation, it makes a commit
that changes nothing but the number. Otherwise there is nothing to stamp.

With --push the branch at the remote is stamped, whatever is here: its tip is fetched, and the commit is pushed without force. When
somebody else was faster the new tip is looked at, up to 8 times. The work tree follows when it stands on the stamped commit. Run this
from one job after each merge; running it twice, or in two places at once, does no harm. The commit is signed with --sign, or if
commit.gpgsign says so.

Exit status: 0 stamped, or nothing to stamp; 1 refused; 2 usage; 69 the remote cannot be reached; 75 lost the race every time.`,
		Example: "  stado registry stamp\n  stado registry stamp --push\n  stado registry stamp --push --remote origin --branch main --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if !push && (c.Flags().Changed("remote") || c.Flags().Changed("branch")) {
				return misused(fmt.Errorf("--remote and --branch say where --push pushes to"))
			}
			if err := requireRepository(dir); err != nil {
				return refused(err)
			}
			child, err := childCommand()
			if err != nil {
				return refused(err)
			}
			s, err := newStamper(c.Context(), source.Evaluator{Runner: agent.Child(child, limits)}, dir, a.log())
			if err != nil {
				return refused(err)
			}
			defer s.close()
			s.sign = sign
			if s.push = push; push {
				if s.remote, s.branch, err = s.repo.upstream(c.Context(), remote, branch); err != nil {
					return refused(err)
				}
			}
			return a.answerStamp(c.Context(), s, asJSON)
		},
	}
	f := c.Flags()
	f.BoolVar(&push, "push", false, "stamp the branch at the remote")
	f.BoolVar(&sign, "sign", false, "sign the commit as git is configured to (default: when commit.gpgsign says so)")
	f.StringVar(&remote, "remote", "", "remote to push to (default: the one of the current branch, else origin)")
	f.StringVar(&branch, "branch", "", "branch to stamp (default: the one that the current branch follows)")
	f.BoolVar(&asJSON, "json", false, "print the answer as JSON")
	evaluationFlags(c, &limits)
	return c
}

func (a *app) answerStamp(ctx context.Context, s stamper, asJSON bool) error {
	answer, err := s.stamp(ctx)
	var coded *exitError
	switch {
	case errors.Is(err, errStampLost):
		return conflict(fmt.Errorf("cannot stamp branch %s of %s: %w, in %d attempts (try again)", s.branch, s.remote, err, stampAttempts))
	case errors.As(err, &coded):
		return err
	case err != nil:
		return refused(err)
	case asJSON:
		if err := a.printJSON(answer); err != nil {
			return refused(err)
		}
	case !answer.Stamped:
		fmt.Fprintf(a.stdout, "nothing to stamp: generation %d covers commit %.12s\n", answer.Before, answer.Base)
	case answer.Pushed:
		fmt.Fprintf(a.stdout, "stamped: generation %d -> %d in commit %.12s, pushed to branch %s of %s\n", answer.Before, answer.After, answer.Commit, s.branch, s.remote)
	default:
		fmt.Fprintf(a.stdout, "stamped: generation %d -> %d in commit %.12s\n", answer.Before, answer.After, answer.Commit)
	}
	return nil
}

// upstream is the remote and the branch that the current branch follows, as far as the command line does not name them.
func (g gitRepository) upstream(ctx context.Context, remote, branch string) (string, string, error) {
	if branch != "" {
		if _, err := g.run(ctx, "check-ref-format", "refs/heads/"+branch); err != nil {
			return "", "", fmt.Errorf("--branch %q is not the name of a branch", branch)
		}
	}
	if remote != "" && branch != "" {
		return remote, branch, nil
	}
	current, detached := g.run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if branch == "" && detached != nil {
		return "", "", fmt.Errorf("HEAD is on no branch (name the one to stamp with --branch)")
	}
	declared, err := g.run(ctx, "config", "--null", "--get-regexp", `^branch\.`)
	if err != nil {
		declared = "" // no branch follows any
	}
	followed := func(key string) string {
		value := ""
		for setting := range strings.SplitSeq(declared, "\x00") { // the last one counts
			if name, is, _ := strings.Cut(setting, "\n"); name == "branch."+current+"."+key {
				value = is
			}
		}
		return value
	}
	if remote == "" {
		if remote = followed("remote"); remote == "" || remote == "." {
			remote = "origin"
		}
	}
	if branch == "" {
		ok := false
		if branch, ok = strings.CutPrefix(followed("merge"), "refs/heads/"); !ok {
			branch = current
		}
	}
	return remote, branch, nil
}
