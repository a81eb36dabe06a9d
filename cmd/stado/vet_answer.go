package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"stado.internal/stado/fleet/report"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
)

// The forms of findings.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatGitHub = "github"
	formatGitLab = "gitlab"
	formatSARIF  = "sarif"
)

func formats() []string {
	return []string{formatText, formatJSON, formatGitHub, formatGitLab, formatSARIF}
}

// answerVet prints findings in a form on stdout and the verdict on stderr.
func (a *app) answerVet(ctx context.Context, answer vetAnswer, format, dir string) error {
	r := report.Report{Findings: answer.Findings, Verdict: sayVerdict(answer), Version: readVersion().Version, Rules: explainedRules()}
	var err error
	switch format {
	case formatJSON:
		err = a.printJSON(answer)
	case formatText:
		err = r.Text(a.stdout)
	default:
		if r.Prefix, err = repositoryPrefix(ctx, dir); err == nil {
			err = a.forgeReport(r, format)
		}
	}
	if err != nil {
		return refused(err)
	}
	if format != formatJSON {
		fmt.Fprintln(a.stderr, r.Verdict)
	}
	if !answer.OK {
		return notReady()
	}
	return nil
}

func sayVerdict(answer vetAnswer) string {
	if answer.OK {
		return fmt.Sprintf("admitted: generation %d, digest %.12s", answer.Generation, answer.Digest)
	}
	return fmt.Sprintf("refused: %d finding(s)", len(answer.Findings))
}

func (a *app) forgeReport(r report.Report, format string) error {
	switch format {
	case formatGitLab:
		return r.GitLab(a.stdout)
	case formatSARIF:
		return r.SARIF(a.stdout)
	}
	if err := r.GitHub(a.stdout); err != nil {
		return err
	}
	return appendSummary(os.Getenv("GITHUB_STEP_SUMMARY"), r)
}

// appendSummary adds to the summary of the step, as far as what stands there already leaves room.
func appendSummary(file string, r report.Report) (err error) {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("cannot write the summary of the step: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err == nil {
		_, err = f.Write(r.Summary(report.SummaryLimit - int(min(info.Size(), report.SummaryLimit))))
	}
	return err
}

// repositoryPrefix is where a registry lies in its git repository; nowhere special when it lies in none.
func repositoryPrefix(ctx context.Context, dir string) (string, error) {
	repository, err := localRepository(dir)
	if err != nil {
		return "", err
	}
	prefix, err := repository.Prefix(ctx)
	var read *source.Error
	if errors.As(err, &read) && (read.Kind == source.KindNotFound || read.Kind == source.KindNoGit) {
		return "", nil
	}
	return prefix, err
}

// explainedRules are all rules that a finding of `stado vet` can carry.
func explainedRules() []report.Rule {
	var out []report.Rule
	for _, r := range policies.Rules() {
		out = append(out, report.Rule(r))
	}
	for _, r := range source.Rules() {
		out = append(out, report.Rule(r))
	}
	for _, r := range signature.Rules() {
		out = append(out, report.Rule(r))
	}
	return append(out,
		report.Rule{ID: ruleVendor, Title: "vendored schema differs", Explanation: "The copy of the schema in cue.mod/pkg is for plain `cue vet`; one of another version judges otherwise than agents do."},
		report.Rule{ID: ruleBinding, Title: "registry not bound to the schema", Explanation: "No file in the top directory says registry: schema.#Registry. Agents bind the registry to their own schema; plain `cue vet` checks only what the files bind."},
		report.Rule{ID: ruleBase, Title: "base is refused", Explanation: "The revision that the change starts from does not compile, so nothing can be said about the change."},
	)
}
