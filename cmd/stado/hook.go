package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/fleet/report"
)

func newHook(a *app) *cobra.Command {
	return group("hook", "Judge registries inside git: before a commit, and before a push is taken",
		newHookPreCommit(a), newHookPreReceive(a), newHookInstall(a))
}

func newHookPreCommit(a *app) *cobra.Command {
	var limits config.Evaluation
	var verbose bool
	c := &cobra.Command{
		Use:   "pre-commit [DIR]",
		Short: "Judge what is about to be committed",
		Long: `Judge what a commit made now would hold in the registry repository DIR (default: this directory), and the change from HEAD, as
'stado vet --staged' does. When no CUE file below DIR is staged there is nothing to judge, and nothing is evaluated.

git runs it through the script that 'stado hook install' writes, or through the pre-commit framework.

Exit status: 0 go on, 1 refused (findings on stderr), 2 usage.`,
		Example: "  stado hook pre-commit\n  stado hook pre-commit fleet",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			v := vetter{dir: ".", staged: true}
			if len(args) == 1 {
				v.dir = args[0]
			}
			repository, err := localRepository(v.dir)
			if err != nil {
				return refused(err)
			}
			if staged, err := repository.Staged(c.Context()); err != nil || !staged {
				return asRefused(err)
			}
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
			return a.answerHook(answer)
		},
	}
	c.Flags().BoolVar(&verbose, "verbose", false, "say on stderr how much was evaluated")
	evaluationFlags(c, &limits)
	return c
}

// answerHook says on stderr, where git shows it, what stands in the way; silence means that nothing does.
func (a *app) answerHook(answer vetAnswer) error {
	if err := a.tellFindings(answer.Findings); err != nil {
		return refused(err)
	}
	if !answer.OK {
		return refused(errors.New(sayVerdict(answer)))
	}
	return nil
}

func asRefused(err error) error {
	if err == nil {
		return nil
	}
	return refused(err)
}

func (a *app) tellFindings(findings fleet.Findings) error {
	return report.Report{Findings: findings}.Text(a.stderr)
}
