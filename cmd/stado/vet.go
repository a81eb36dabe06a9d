package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/source"
)

// vetAnswer is the JSON answer of `stado vet`.
type vetAnswer struct {
	OK         bool             `json:"ok"`
	Generation fleet.Generation `json:"generation,omitempty"`
	Digest     string           `json:"digest,omitempty"`
	Base       string           `json:"base,omitempty"`
	Findings   fleet.Findings   `json:"findings"`
}

func newVet(a *app) *cobra.Command {
	var base, format string
	var asJSON bool
	var limits config.Evaluation
	c := &cobra.Command{
		Use:   "vet [DIR]",
		Short: "Judge a registry repository as every agent would",
		Long: `Judge the files of the registry repository DIR (default: this directory) with the schema and the rules of this version, in a
child process under limits. With --base the change from that revision is judged too: its generation, its authority, what it removes,
and the fleet's own policies, as the base has them.

Exit status: 0 admitted, 1 refused (findings on stdout), 2 usage.`,
		Example: "  stado vet\n  stado vet fleet --base origin/main\n  stado vet fleet --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if asJSON {
				format = "json"
			}
			if format != "text" && format != "json" {
				return misused(fmt.Errorf("--format is %q (write text or json)", format))
			}
			child, err := childCommand()
			if err != nil {
				return refused(err)
			}
			v := vetter{evaluator: source.Evaluator{Runner: agent.Child(child, limits)}, dir: dir, base: base}
			answer, err := v.judge(c)
			if err != nil {
				return refused(err)
			}
			return a.answerVet(answer, format)
		},
	}
	f := c.Flags()
	f.StringVar(&base, "base", "", "revision that the change starts from, such as origin/main or HEAD")
	f.StringVar(&format, "format", "text", "form of the findings: text or json")
	f.BoolVar(&asJSON, "json", false, "the same as --format json")
	f.IntVar(&limits.MemoryMiB, "evaluation-memory-mib", 0, "data limit of the evaluation, in MiB")
	f.IntVar(&limits.CPUSeconds, "evaluation-cpu-seconds", 0, "processor time of the evaluation, in seconds")
	f.IntVar(&limits.WallSeconds, "evaluation-wall-seconds", 0, "time on the clock of the evaluation, in seconds")
	return c
}

type vetter struct {
	evaluator source.Evaluator
	dir, base string
}

func (v vetter) judge(c *cobra.Command) (vetAnswer, error) {
	if _, err := os.Stat(filepath.Join(v.dir, "cue.mod", "module.cue")); err != nil {
		return vetAnswer{}, fmt.Errorf("%s is not a registry repository: it has no cue.mod/module.cue (run `stado init` in an empty directory)", v.dir)
	}
	next, err := v.evaluator.WorkTree(c.Context(), v.dir)
	if err != nil {
		return vetAnswer{}, err
	}
	answer := vetAnswer{Digest: next.Digest, Findings: next.Findings}
	if answer.Findings == nil {
		answer.Findings = fleet.Findings{}
	}
	drift, err := vendoredDrift(v.dir)
	if err != nil {
		return vetAnswer{}, err
	}
	answer.Findings = append(answer.Findings, driftFindings(drift)...)
	if next.Document != nil {
		registry, err := fleet.Decode(next.Document)
		if err != nil {
			return vetAnswer{}, err
		}
		answer.Generation = registry.Directory.Generation
		if v.base != "" {
			if err := v.compare(c, &answer, next); err != nil {
				return vetAnswer{}, err
			}
		}
	}
	answer.Findings.Sort()
	answer.OK = !answer.Findings.Refuses()
	return answer, nil
}

// compare adds what the change from the base revision says. A base that does not compile is judged as far as it goes: a repair must be
// possible, so it only takes away the comparison.
func (v vetter) compare(c *cobra.Command, answer *vetAnswer, next source.Verdict) error {
	base, err := v.evaluator.Commit(c.Context(), v.dir, v.base)
	if err != nil {
		return fmt.Errorf("cannot judge the change from %s: %w", v.base, err)
	}
	answer.Base = base.Commit
	if base.Document == nil {
		answer.Findings = append(answer.Findings, fleet.Finding{
			Rule: ruleBase, Severity: fleet.SeverityWarning,
			Message: fmt.Sprintf("the base %s (%.12s) is itself refused, so the change from it was not judged", v.base, base.Commit),
			Hint:    "name a base that agents admitted",
		})
		return nil
	}
	findings, err := v.evaluator.Judge(c.Context(), v.dir, base, next)
	if err != nil {
		return fmt.Errorf("cannot judge the change from %s: %w", v.base, err)
	}
	answer.Findings = append(answer.Findings, findings...)
	return nil
}

// Rules of findings that only the command line makes.
const (
	ruleVendor = "STADO-VENDOR-001"
	ruleBase   = "STADO-BASE-001"
)

func driftFindings(drift []string) fleet.Findings {
	var out fleet.Findings
	for _, p := range drift {
		out = append(out, fleet.Finding{
			Rule: ruleVendor, Severity: fleet.SeverityWarning, File: p,
			Message: "this vendored schema file differs from the one in this version; agents judge with their own",
			Hint:    "run `stado schema export .` and commit the result",
		})
	}
	return out
}

func (a *app) answerVet(answer vetAnswer, format string) error {
	if format == "json" {
		if err := a.printJSON(answer); err != nil {
			return refused(err)
		}
	} else {
		for _, f := range answer.Findings {
			line := f.String()
			if f.Severity == fleet.SeverityWarning {
				line = "warning: " + line
			}
			fmt.Fprintln(a.stdout, line)
		}
		if answer.OK {
			fmt.Fprintf(a.stderr, "admitted: generation %d, digest %.12s\n", answer.Generation, answer.Digest)
		} else {
			fmt.Fprintf(a.stderr, "refused: %d finding(s)\n", len(answer.Findings))
		}
	}
	if !answer.OK {
		return notReady()
	}
	return nil
}
