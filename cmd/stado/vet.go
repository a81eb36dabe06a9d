package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/schema"
)

func newVet(a *app) *cobra.Command {
	var v vetter
	var format string
	var asJSON, verbose bool
	var limits config.Evaluation
	c := &cobra.Command{
		Use:   "vet [DIR]",
		Short: "Judge a registry repository as every agent would",
		Long: `Judge the files of the registry repository DIR (default: this directory) with the schema and the rules of this version, in a
child process under limits. With --base the change from that revision is judged too: its generation, and what it removes.

--staged judges what a commit made now would hold: the index, not the work tree; the change is from HEAD unless --base names another
revision. --ref judges a revision; the change is from its first parent unless --base names another one, so that on the result of a
merge it is what the merge brings to the branch. Where the registry before the change asks for signatures, those of the revision are
judged as well; with --trial-merge, for a merge that a forge makes only to test it and then makes anew, they are a warning.

Findings are lines of text, or with --format: json; github, workflow commands within what GitHub shows of a step, with the rest in the
log and in the file that GITHUB_STEP_SUMMARY names; gitlab, a Code Quality report; sarif, SARIF 2.1.0. Paths in the last three start
at the top of the git repository that DIR lies in.

What files come to is kept in the stado folder of the git directory, so that the next judgement evaluates what has changed. The folder
may be deleted at any time.

Exit status: 0 admitted, 1 refused (findings on stdout), 2 usage.`,
		Example: "  stado vet\n  stado vet fleet --base origin/main\n  stado vet --staged\n  stado vet --ref HEAD --format github\n  stado vet fleet --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			v.dir = "."
			if len(args) == 1 {
				v.dir = args[0]
			}
			if err := errors.Join(oneOf(c, "staged", "ref"), oneOf(c, "staged", "trial-merge")); err != nil {
				return misused(err)
			}
			if asJSON {
				if c.Flags().Changed("format") && format != formatJSON {
					return misused(fmt.Errorf("--json and --format %s are two forms of one answer (choose one)", format))
				}
				format = formatJSON
			}
			if !slices.Contains(formats(), format) {
				return misused(fmt.Errorf("--format is %q (write %s)", format, strings.Join(formats(), ", ")))
			}
			var err error
			if v.evaluator, err = remembering(c.Context(), limits, v.dir); err != nil {
				return refused(err)
			}
			answer, err := v.judge(c.Context())
			if err != nil {
				return refused(err)
			}
			if verbose {
				fmt.Fprintln(a.stderr, sayCounts(answer.Evaluated))
			}
			return a.answerVet(c.Context(), answer, format, v.dir)
		},
	}
	f := c.Flags()
	f.StringVar(&v.base, "base", "", "revision that the change starts from, such as origin/main or HEAD")
	f.BoolVar(&v.staged, "staged", false, "judge the index instead of the work tree")
	f.StringVar(&v.ref, "ref", "", "judge this revision instead of the work tree")
	f.BoolVar(&v.trial, "trial-merge", false, "the revision is a trial merge: what its signature lacks is a warning")
	f.StringVar(&format, "format", formatText, "form of the findings: "+strings.Join(formats(), ", "))
	f.BoolVar(&asJSON, "json", false, "the same as --format json")
	f.BoolVar(&verbose, "verbose", false, "say on stderr how much was evaluated")
	evaluationFlags(c, &limits)
	return c
}

// evaluator judges registries in children of this program.
func evaluator(limits config.Evaluation) (source.Evaluator, error) {
	child, err := childCommand()
	if err != nil {
		return source.Evaluator{}, err
	}
	return source.Evaluator{Runner: agent.Child(child, limits)}, nil
}

// remembering is [evaluator] for judgements that are made again and again: what files come to is kept in the repository that dir lies in.
func remembering(ctx context.Context, limits config.Evaluation, dir string) (source.Evaluator, error) {
	e, err := evaluator(limits)
	if err != nil {
		return source.Evaluator{}, err
	}
	repository, err := localRepository(dir)
	if err != nil {
		return source.Evaluator{}, err
	}
	e.Results, e.Sparse = repository.ResultsFolder(ctx), true
	return e, nil
}

// sayCounts says what an evaluation did.
func sayCounts(n schema.Counts) string {
	return fmt.Sprintf("%d units: %d known from earlier evaluations, %d of pure data, %d evaluated as CUE", n.Units, n.Cached, n.Literal, n.Evaluated)
}
