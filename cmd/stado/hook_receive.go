package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
)

const (
	// maxPushed is how many commits of a branch one push may bring, so that a hook ends in the time of a person: each is evaluated.
	maxPushed = 100
	// maxUpdates bounds the lines that git gives a hook, one for each branch or tag of the push.
	maxUpdates = 100_000
)

func newHookPreReceive(a *app) *cobra.Command {
	r := receiver{app: a}
	var branch string
	var limits config.Evaluation
	c := &cobra.Command{
		Use:   "pre-receive",
		Short: "Judge a push before git takes it",
		Long: `Judge a push to the branch that is a registry. git runs it in the receiving repository, with lines 'OLD NEW REF' on stdin; other
branches and tags pass.

The branch may be neither deleted nor rewound. Its new first-parent commits are judged in order, each against the last one that was
admitted, exactly as agents will do it, by signature where the registry asks for that: the push is refused when its last commit is
refused, and a commit on the way that agents will step over is named. At most 100 commits come in one push.

In the repository that this host serves as the authority ('stado authority init' names the state directory to the hook), a generation
that this host has promised to another host that is to take the role is refused, and so is every change while the role moves. Where the
registry asks for a majority of the hosts (policies: quorum), a change is claimed from all hosts first, over SSH as the agent reaches them.

Where this host's agent has found that the host is the registry authority no more, or that this is disputed, its repository takes only what
has the other registry among its ancestors.

Commits are read through git itself, which shows its hooks what a push brings before anybody else can see it.

Exit status: 0 take the push, 1 refuse it (findings on stderr), 2 usage.`,
		Example: "  stado hook pre-receive --branch main < updates\n  stado hook pre-receive --path fleet < updates",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r.ref = "refs/heads/" + branch
			r.path = strings.Trim(r.path, "/")
			dir, err := os.Getwd()
			if err != nil {
				return refused(err)
			}
			r.repository = source.Repository{Dir: dir, Env: os.Environ()}
			if r.evaluator, err = remembering(c.Context(), limits, "."); err != nil {
				return refused(err)
			}
			return asRefused(r.receive(c.Context(), c.InOrStdin()))
		},
	}
	f := c.Flags()
	f.StringVar(&branch, "branch", "main", "branch that is the registry")
	f.StringVar(&r.path, "path", "", "directory of the registry inside the repository (default: its top)")
	evaluationFlags(c, &limits)
	return c
}

// receiver judges one push.
type receiver struct {
	app        *app
	evaluator  source.Evaluator
	repository source.Repository
	ref, path  string
}

// update is one line of a hook's input.
type update struct{ old, new, ref string }

// absent reports whether an object id stands for no object.
func absent(id string) bool { return strings.Trim(id, "0") == "" }

// receive returns nil when the push may be taken; it is taken or refused whole.
func (r receiver) receive(ctx context.Context, stdin io.Reader) error {
	updates, err := readUpdates(stdin)
	if err != nil {
		return err
	}
	for _, u := range updates {
		if u.ref != r.ref {
			continue
		}
		if err := r.onDuty(ctx, u); err != nil {
			return err
		}
		if err := r.judge(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

func readUpdates(stdin io.Reader) ([]update, error) {
	var out []update
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 || len(out) == maxUpdates {
			return nil, fmt.Errorf("cannot read the push: line %d is not OLD NEW REF (git gives such lines to a pre-receive hook)", len(out)+1)
		}
		out = append(out, update{words[0], words[1], words[2]})
	}
	return out, lines.Err()
}

func (r receiver) judge(ctx context.Context, u update) error {
	if absent(u.new) {
		return fmt.Errorf("%s may not be deleted: it is the registry of a fleet (push to another branch, or take the hook out of this repository)", u.ref)
	}
	if absent(u.old) {
		return r.walk(ctx, source.Verdict{}, []string{u.new})
	}
	if forward, err := r.repository.Descends(ctx, u.old, u.new); err != nil {
		return err
	} else if !forward {
		return fmt.Errorf("%s may not be rewound: %.12s does not descend from %.12s, and no agent would follow (fetch the branch, rebase or merge, and push again)", u.ref, u.new, u.old)
	}
	chain, more, err := r.repository.Chain(ctx, u.old, u.new, maxPushed)
	if err != nil {
		return err
	}
	if more {
		return fmt.Errorf("the push brings more than %d commits to %s, and each is evaluated (push it in parts: git push origin COMMIT:%s)", maxPushed, u.ref, u.ref)
	}
	base, err := r.evaluator.Tree(ctx, r.repository, u.old, r.path)
	if err != nil {
		return err
	}
	if base.Document == nil {
		fmt.Fprintf(r.app.stderr, "note: %.12s, from which the push starts, is itself refused, so the change from it is not judged\n", u.old)
	}
	return r.walk(ctx, base, chain)
}

// walk judges commits, oldest first, each against the last admitted one. Only the last of them must be admitted: that is the one which
// agents end at.
func (r receiver) walk(ctx context.Context, held source.Verdict, chain []string) error {
	base, start := held, held.Commit
	guard := r.guard(ctx, start, chain)
	trust, err := trustOf(held)
	if err != nil {
		return err
	}
	for i, last := 0, start; i < len(chain); i, last = i+1, chain[i] {
		commit := chain[i]
		refusal, err := guard.Pass(i, trust)
		if err != nil {
			return err
		}
		if refusal != nil { // and so is all that follows
			return r.refuse(refusal.Commit, fleet.Findings{refusal.Finding()})
		}
		before := held
		before.Policies = before.Policies && held.Commit == start // what a push only brings can be read by git alone
		next, findings, err := r.step(ctx, before, last, commit)
		if err != nil {
			return err
		}
		newest := i == len(chain)-1
		if newest {
			findings = append(findings, driftFindings(next.Drift)...) // on the way it keeps no agent from admitting
			findings.Sort()
		}
		if findings.Refuses() && !newest {
			fmt.Fprintf(r.app.stderr, "note: agents will step over %.12s, which is refused by %s\n", commit, firstRule(findings))
		}
		if !findings.Refuses() {
			if trust, err = trustAfter(held, next, trust); err != nil {
				return err
			}
			held = next
		}
		switch {
		case newest && findings.Refuses():
			return r.refuse(commit, findings)
		case newest:
			return errors.Join(r.app.tellFindings(findings), r.promised(ctx, base, next))
		}
	}
	return nil
}

func (r receiver) refuse(commit string, findings fleet.Findings) error {
	if err := r.app.tellFindings(findings); err != nil {
		return err
	}
	return fmt.Errorf("refused: %.12s, %d finding(s) (correct them, commit, and push again)", commit, len(findings))
}

// guard judges signatures as agents do. The push of a new branch has nothing to be judged by.
func (r receiver) guard(ctx context.Context, since string, chain []string) *signature.Guard {
	return &signature.Guard{
		Since: since, Commits: chain,
		Ask: func(since string, commits []string, trust fleet.Trust) (int, *signature.Refusal, error) {
			return r.repository.Vouch(ctx, source.Question{Since: since, Tip: chain[len(chain)-1], Commits: commits, Trust: trust})
		},
	}
}

// trustAfter is the trust in force after a commit passed: its document's, when that has a higher generation, so that hosts hold it.
func trustAfter(held, next source.Verdict, trust *fleet.Trust) (*fleet.Trust, error) {
	if held.Document == nil {
		return trustOf(next)
	}
	now, err := fleet.Decode(next.Document)
	if err != nil {
		return trust, err
	}
	before, err := fleet.Decode(held.Document)
	if err != nil || now.Directory.Generation <= before.Directory.Generation {
		return trust, err
	}
	return trustOf(next)
}

// step judges one commit, the one before it being last.
func (r receiver) step(ctx context.Context, held source.Verdict, last, commit string) (source.Verdict, fleet.Findings, error) {
	next, err := r.evaluator.Tree(ctx, r.repository, commit, r.path)
	if err != nil {
		return next, nil, err
	}
	findings := slices.Clone(next.Findings)
	if held.Document != nil && next.Document != nil {
		next.Gap = policies.GapBetween(held.Commit, last, next.Parent)
		change, err := r.evaluator.Judge(ctx, r.repository.Dir, held, next)
		if err != nil {
			return next, nil, err
		}
		findings = policies.Together(findings, change)
	}
	if next.Document == nil && !findings.Refuses() {
		return next, nil, errors.New("the evaluation gave neither a document nor a reason")
	}
	findings.Sort()
	return next, findings, nil
}

func firstRule(findings fleet.Findings) string {
	for _, f := range findings {
		if f.Severity == fleet.SeverityError {
			return f.Rule
		}
	}
	return ""
}
