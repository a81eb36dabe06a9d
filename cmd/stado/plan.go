package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/fleet/plan"
	"stado.internal/stado/reconcile/source"
)

// exitChanges is what `stado plan --exit-code` ends with when something changes.
const exitChanges = 3

// planAnswer is the JSON answer of `stado plan`.
type planAnswer struct {
	Base    string `json:"base"`           // commit
	Head    string `json:"head,omitempty"` // commit; empty for the work tree
	Changed bool   `json:"changed"`
	plan.Plan
}

type planner struct {
	evaluator                source.Evaluator
	dir, base, ref, host     string
	mergeBase                bool
	markdown, json, exitCode bool
}

func newPlan(a *app) *cobra.Command {
	var p planner
	var limits config.Evaluation
	c := &cobra.Command{
		Use:   "plan [DIR]",
		Short: "Say what a change of the registry means, per host",
		Long: `Compile the registry repository DIR (default: this directory) twice, at a base revision and as its files lie there (or at --ref), and
say per host which adapters are bound, unbound or changed, which routes lead elsewhere or on other terms, and what else differs. The
compiled documents are compared: a change in a template or a default shows at every host that it reaches.

Exit status: 0, with --exit-code 3 when something changes; 1 when one of the two is refused; 2 usage.`,
		Example: "  stado plan\n  stado plan --base origin/main --merge-base --markdown\n  stado plan --base v41 --ref v42 --host a1 --exit-code",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p.dir = "."
			if len(args) == 1 {
				p.dir = args[0]
			}
			if p.json && p.markdown {
				return misused(fmt.Errorf("--json and --markdown are two forms of one answer (choose one)"))
			}
			child, err := childCommand()
			if err != nil {
				return refused(err)
			}
			p.evaluator = source.Evaluator{Runner: agent.Child(child, limits)}
			return p.run(c.Context(), a)
		},
	}
	f := c.Flags()
	f.StringVar(&p.base, "base", "HEAD", "revision that the change starts from, such as origin/main")
	f.StringVar(&p.ref, "ref", "", "revision that the change leads to (default: the files as they lie there)")
	f.BoolVar(&p.mergeBase, "merge-base", false, "start from where the change left --base, not from its tip")
	f.StringVar(&p.host, "host", "", "only what concerns this host")
	f.BoolVar(&p.markdown, "markdown", false, fmt.Sprintf("print a comment for a pull request, at most %d bytes", plan.MaxMarkdown))
	f.BoolVar(&p.json, "json", false, "print the plan as JSON")
	f.BoolVar(&p.exitCode, "exit-code", false, fmt.Sprintf("end with exit status %d when something changes", exitChanges))
	evaluationFlags(c, &limits)
	return c
}

func (p planner) run(ctx context.Context, a *app) error {
	if err := requireRepository(p.dir); err != nil {
		return refused(err)
	}
	answer, err := p.compare(ctx)
	if err != nil {
		return refused(err)
	}
	answer.Changed = !answer.Empty()
	if p.host != "" {
		answer.Plan = answer.For(fleet.HostName(p.host))
		answer.Changed = len(answer.Hosts)+len(answer.Authority) > 0
	}
	switch {
	case p.json:
		if err := a.printJSON(answer); err != nil {
			return refused(err)
		}
	case p.markdown:
		fmt.Fprint(a.stdout, answer.Markdown())
	default:
		fmt.Fprint(a.stdout, answer.Text())
		fmt.Fprintln(a.stderr, answer.Summary())
	}
	if p.exitCode && answer.Changed {
		return &exitError{code: exitChanges}
	}
	return nil
}

func (p planner) compare(ctx context.Context) (planAnswer, error) {
	base := p.base
	if p.mergeBase {
		head := p.ref
		if head == "" {
			head = "HEAD"
		}
		// A revision that starts with a hyphen would be an option of git.
		found, err := git(p.dir, "merge-base", "--end-of-options", base, head)
		if err != nil || found == "" {
			return planAnswer{}, fmt.Errorf("cannot find where %s left %s (are both here, with their history?)", head, base)
		}
		base = found
	}
	before, err := p.evaluator.Commit(ctx, p.dir, base)
	if err == nil {
		err = requireDocument(before, "the base "+p.base)
	}
	if err != nil {
		return planAnswer{}, err
	}
	after, side := source.Verdict{}, "the work tree"
	if p.ref == "" {
		after, err = p.evaluator.WorkTree(ctx, p.dir)
	} else {
		side = "the revision " + p.ref
		after, err = p.evaluator.Commit(ctx, p.dir, p.ref)
	}
	if err == nil {
		err = requireAdmitted(after, side)
	}
	if err != nil {
		return planAnswer{}, err
	}
	if err := p.requireHost(before, after); err != nil {
		return planAnswer{}, err
	}
	difference, err := plan.Between(before.Document, after.Document)
	return planAnswer{Base: before.Commit, Head: after.Commit, Plan: difference}, err
}

// requireHost refuses a host that neither side has: a plan without a word about a misspelt name would read as if nothing changed.
func (p planner) requireHost(sides ...source.Verdict) error {
	if p.host == "" {
		return nil
	}
	for _, v := range sides {
		registry, err := fleet.Decode(v.Document)
		if err != nil {
			return err
		}
		if _, ok := registry.Hosts[fleet.HostName(p.host)]; ok {
			return nil
		}
	}
	return fmt.Errorf("host %q is in neither registry (`stado plan` without --host names the hosts that change)", p.host)
}

// requireRepository refuses a directory that holds no registry.
func requireRepository(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "cue.mod", "module.cue")); err != nil {
		return fmt.Errorf("%s is not a registry repository: it has no cue.mod/module.cue (run `stado init` in an empty directory)", dir)
	}
	return nil
}

// requireDocument refuses a revision that does not compile. One that compiles and is refused all the same can be compared with: a
// repair of it must be possible.
func requireDocument(v source.Verdict, what string) error {
	if v.Document != nil {
		return nil
	}
	return fmt.Errorf("%s is itself refused: %s (name a revision that agents admitted)", what, firstError(v.Findings))
}

// requireAdmitted refuses a registry that agents would refuse, by its first finding.
func requireAdmitted(v source.Verdict, what string) error {
	if v.Document != nil && !v.Findings.Refuses() {
		return nil
	}
	return fmt.Errorf("%s is refused: %s (`stado vet` lists everything)", what, firstError(v.Findings))
}

func firstError(findings fleet.Findings) string {
	for _, f := range findings {
		if f.Severity == fleet.SeverityError {
			return f.String()
		}
	}
	return "it has no document"
}
