package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/schema"
)

func newRegistryExplain(a *app) *cobra.Command {
	var asJSON bool
	var dir string
	var limits config.Evaluation
	c := &cobra.Command{
		Use:   "explain PATH",
		Short: "Say who sets a value of the registry, and what it must be",
		Long: `Say for one field of a registry repository, as its files lie there, which declarations give it its value, templates included, which
file owns it, which declaration of the schema constrains it, and which rules beside the schema refuse something there. PATH is written as findings write it: labels and list indexes with dots between them, and
quotes around a label that holds a dot. Files that contradict each other can be explained too.

Exit status: 0; 1 when the schema has no such field, or the files cannot be read as CUE; 2 usage.`,
		Example: "  stado registry explain hosts.a1.ssh\n  stado registry explain 'service_directory.services.\"a.b\".protocol' --json\n" +
			"  stado registry explain hosts.a1.service_resolver.adapters.0.bind --dir fleet",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := requireRepository(dir); err != nil {
				return refused(err)
			}
			child, err := childCommand()
			if err != nil {
				return refused(err)
			}
			t, findings, err := source.Evaluator{Runner: agent.Child(child, limits)}.Trace(c.Context(), dir, args[0])
			if err != nil {
				return refused(err)
			}
			if len(findings) > 0 {
				return refused(fmt.Errorf("cannot explain %s: %s", args[0], firstError(findings)))
			}
			answer := explain(t)
			if asJSON {
				if err := a.printJSON(answer); err != nil {
					return refused(err)
				}
				return nil
			}
			fmt.Fprint(a.stdout, sayTrace(answer))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&dir, "dir", ".", "registry repository")
	f.BoolVar(&asJSON, "json", false, "print the answer as JSON")
	evaluationFlags(c, &limits)
	return c
}

// explainAnswer is the JSON answer of `stado registry explain`.
type explainAnswer struct {
	schema.Trace
	// Owner is the file that alone may give the field; empty when any shared file may.
	Owner string `json:"owner,omitempty"`
	// entries: the field holds parts with owners of their own.
	entries bool
	// Rules refuse something at the field, beside the schema.
	Rules []policies.Rule `json:"rules"`
}

func explain(t schema.Trace) explainAnswer {
	out := explainAnswer{Trace: t, Rules: policies.Constraining(t.Path)}
	out.Owner, out.entries = schema.Owner(t.Path)
	for _, c := range t.SetBy {
		if schema.Owns(out.Owner, c.File) {
			out.Owner = c.File // where it really lies
		}
	}
	return out
}

// sayTrace is the answer for a terminal: the value, who sets it and who may, and what it must be.
func sayTrace(t explainAnswer) string {
	var b strings.Builder
	switch {
	case t.Retired != "":
		fmt.Fprintf(&b, "%s is retired: %s\n", t.Path, t.Retired)
	case t.Problem != "":
		fmt.Fprintf(&b, "%s has no value: %s\n", t.Path, t.Problem)
	case t.Value == nil:
		fmt.Fprintf(&b, "%s is not set\n", t.Path)
	default:
		fmt.Fprintf(&b, "%s is %s\n", t.Path, shortValue(t.Value))
	}
	for _, c := range t.SetBy {
		fmt.Fprintf(&b, "set by   %s\n", sayContribution(c))
	}
	if len(t.SetBy) == 0 && t.Value != nil {
		b.WriteString("set by   no file: it is the default of the schema\n")
	}
	fmt.Fprintf(&b, "owner    %s\n", t.sayOwner())
	if t.Doc != "" {
		fmt.Fprintf(&b, "meaning  %s\n", t.Doc)
	}
	for _, c := range t.Constraints {
		fmt.Fprintf(&b, "schema   %s\n", sayContribution(c))
	}
	for _, r := range t.Rules {
		fmt.Fprintf(&b, "rule     %s: %s\n", r.ID, r.Title)
	}
	return b.String()
}

func (t explainAnswer) sayOwner() string {
	switch {
	case t.Owner != "":
		return t.Owner
	case t.entries:
		return "each entry has a file of its own"
	}
	return "the shared files: all outside hosts/ and services/ but generation.cue and authority.cue"
}

func sayContribution(c schema.Contribution) string {
	at := fleet.Finding{File: c.File, Line: c.Line, Column: c.Column}.Position()
	if c.In != "" {
		return fmt.Sprintf("%s: %s (in %s)", at, c.Text, c.In)
	}
	return at + ": " + c.Text
}

// shortValue is a value on one line; a long one is told by its size, since --json has it whole.
func shortValue(v json.RawMessage) string {
	const enough = 200
	var b bytes.Buffer
	if err := json.Compact(&b, v); err != nil || b.Len() > enough {
		return fmt.Sprintf("a value of %d bytes (--json prints it)", len(v))
	}
	return b.String()
}
