package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/schema"
)

// vetAnswer is the JSON answer of `stado vet`.
type vetAnswer struct {
	OK bool `json:"ok"`
	// Judged is what was judged: "work tree", "index", or a commit's id.
	Judged     string           `json:"judged"`
	Generation fleet.Generation `json:"generation,omitempty"`
	Digest     string           `json:"digest,omitempty"`
	Base       string           `json:"base,omitempty"` // commit that the change starts from
	Findings   fleet.Findings   `json:"findings"`
	// Evaluated says how much of what was judged had to be evaluated.
	Evaluated schema.Counts `json:"evaluated"`
}

const (
	judgedWorkTree = "work tree"
	judgedIndex    = "index"
)

// vetter is one judgement that was asked for.
type vetter struct {
	evaluator      source.Evaluator
	dir, base, ref string
	staged         bool
	trial          bool // the commit is a merge that somebody else makes anew
}

func (v vetter) judge(ctx context.Context) (vetAnswer, error) {
	next, answer, err := v.read(ctx)
	if err != nil {
		return vetAnswer{}, err
	}
	answer.Digest, answer.Evaluated = next.Digest, next.Counts
	answer.Findings = append(append(answer.Findings, next.Findings...), driftFindings(next.Drift)...)
	if next.Document != nil {
		registry, err := fleet.Decode(next.Document)
		if err != nil {
			return vetAnswer{}, err
		}
		answer.Generation = registry.Directory.Generation
		if err := v.change(ctx, &answer, next); err != nil {
			return vetAnswer{}, err
		}
	}
	answer.Findings.Sort()
	answer.OK = !answer.Findings.Refuses()
	return answer, nil
}

// read evaluates what is to be judged.
func (v vetter) read(ctx context.Context) (source.Verdict, vetAnswer, error) {
	answer := vetAnswer{Judged: judgedWorkTree, Findings: fleet.Findings{}}
	switch {
	case v.ref != "":
		next, err := v.evaluator.Commit(ctx, v.dir, v.ref)
		answer.Judged = next.Commit
		if answer.Judged == "" {
			answer.Judged = v.ref // an evaluation that met a limit
		}
		return next, answer, err
	case v.staged:
		repository, err := localRepository(v.dir)
		if err != nil {
			return source.Verdict{}, answer, err
		}
		answer.Judged = judgedIndex
		next, err := v.evaluator.Index(ctx, repository)
		return next, answer, err
	}
	if _, err := os.Stat(filepath.Join(v.dir, "cue.mod", "module.cue")); err != nil {
		return source.Verdict{}, answer, fmt.Errorf("%s is not a registry repository: it has no cue.mod/module.cue (run `stado init` in an empty directory)", v.dir)
	}
	next, err := v.evaluator.WorkTree(ctx, v.dir)
	return next, answer, err
}

// change adds what the change from the base says. A base that does not compile is judged as far as it goes: a repair must be possible,
// so it only takes away the comparison.
func (v vetter) change(ctx context.Context, answer *vetAnswer, next source.Verdict) error {
	rev, err := v.baseOf(ctx, next)
	if err != nil || rev == "" {
		return err
	}
	base, err := v.evaluator.Commit(ctx, v.dir, rev)
	if err != nil {
		return fmt.Errorf("cannot judge the change from %s: %w", rev, err)
	}
	answer.Base = base.Commit
	if base.Document == nil {
		answer.Findings = append(answer.Findings, fleet.Finding{
			Rule: ruleBase, Severity: fleet.SeverityWarning,
			Message: fmt.Sprintf("the base %s (%.12s) is itself refused, so the change from it was not judged", rev, base.Commit),
			Hint:    "name a base that agents admitted",
		})
		return nil
	}
	findings, err := v.evaluator.Judge(ctx, v.dir, base, next)
	if err != nil {
		return fmt.Errorf("cannot judge the change from %s: %w", rev, err)
	}
	if v.base != "" {
		for i := range findings {
			findings[i].Hint = strings.ReplaceAll(findings[i].Hint, policies.Upstream, v.base) // it is the base that a command must name
		}
	}
	answer.Findings = policies.Together(answer.Findings, findings)
	unsigned, err := v.signatureFinding(ctx, base, next)
	if err != nil {
		return fmt.Errorf("cannot judge the signatures since %s: %w", rev, err)
	}
	answer.Findings = append(answer.Findings, unsigned...)
	return nil
}

// baseOf is the revision that the change starts from; empty for none: nobody asked, or there is nothing before.
func (v vetter) baseOf(ctx context.Context, next source.Verdict) (string, error) {
	switch {
	case v.base != "":
		return v.base, nil
	case v.ref != "":
		return next.Parent, nil
	case v.staged:
		repository, err := localRepository(v.dir)
		if err != nil {
			return "", err
		}
		if head, err := repository.HasHead(ctx); err != nil || !head {
			return "", err
		}
		return "HEAD", nil
	}
	return "", nil
}

// Rules of findings that only the command line makes.
const (
	ruleVendor  = "STADO-VENDOR-001"
	ruleBinding = "STADO-VENDOR-002"
	ruleBase    = "STADO-BASE-001"
)

func driftFindings(drift []string) fleet.Findings {
	var out fleet.Findings
	for _, p := range drift {
		if p == schema.ModuleFile { // refused here and not by agents: a fleet that has lived without it goes on living
			out = append(out, fleet.Finding{
				Rule: schema.RuleModule, Severity: fleet.SeverityError, File: p,
				Message: "the file is missing, so plain `cue vet` reads nothing of the registry; agents do not need it",
				Hint:    "bring it back from a commit that has it, or take the one that `stado init` writes",
			})
			continue
		}
		if p == schema.BindingFile {
			out = append(out, fleet.Finding{
				Rule: ruleBinding, Severity: fleet.SeverityWarning, File: p,
				Message: "nothing binds the registry to the schema, so plain `cue vet` checks nothing; agents bind it themselves",
				Hint:    `write into it: import "` + schema.ImportPath + `" and registry: schema.#Registry`,
			})
			continue
		}
		out = append(out, fleet.Finding{
			Rule: ruleVendor, Severity: fleet.SeverityWarning, File: p,
			Message: "this vendored schema file differs from the one in this version; agents judge with their own",
			Hint:    "run `stado schema export .` and commit the result",
		})
	}
	return out
}
