package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/change"
)

// changeHelp is the part that the help of every verb that changes a registry has in common.
const changeHelp = `

The file that declares the thing is edited as a person would: comments and formatting stay, and what a file computes is refused with
file and line. The result is judged as every agent would judge it; then it is one commit, with the generation advanced by one (left
alone where policies.generation_mode is "stamped"). With --push the change is made on what the remote's branch holds and pushed there
without force before the branch here moves; a push that loses the race is made again on what won. --dry-run prints the difference and
changes nothing.

Exit status: 0 done, 1 refused (nothing is changed), 2 usage, 69 the remote does not answer, 75 somebody else's change came first.`

// changing are the flags of every verb that changes a registry.
type changing struct {
	repository, remote   string
	push, dryRun, asJSON bool
	sign                 bool
}

func (f *changing) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.repository, "repository", ".", "the registry repository to change, bare or with a work tree")
	c.Flags().BoolVar(&f.push, "push", false, "push the commit to the remote's branch, by compare-and-swap")
	c.Flags().StringVar(&f.remote, "remote", "", "the remote to push to (default: the branch's own, else origin)")
	c.Flags().BoolVar(&f.sign, "sign", false, "sign the commit as git is configured to (default: when commit.gpgsign says so)")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the difference and change nothing")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the receipt as JSON")
}

// receipt is what the JSON answer of every such verb has in common.
type receipt struct {
	Status             string           `json:"status"`
	RegistryGeneration fleet.Generation `json:"registry_generation"`
	Base               string           `json:"base"`
	Commit             string           `json:"commit,omitempty"`
	Pushed             bool             `json:"pushed,omitempty"`
	Diff               string           `json:"diff,omitempty"` // of a dry run
}

// statusPlanned is the status of a dry run.
const statusPlanned = "planned"

func newReceipt(out change.Outcome, done, already string) receipt {
	r := receipt{Status: done, RegistryGeneration: out.Generation, Base: out.Base, Commit: out.Commit, Pushed: out.Pushed}
	switch {
	case !out.Changed:
		r.Status = already
	case out.Commit == "":
		r.Status, r.Diff = statusPlanned, out.Diff
	}
	return r
}

// apply makes a change of the repository that the flags name.
func (a *app) apply(c *cobra.Command, f changing, edit change.Edit) (change.Outcome, error) {
	return a.applyWith(c, f, change.Options{}, edit)
}

func (a *app) applyWith(c *cobra.Command, f changing, o change.Options, edit change.Edit) (change.Outcome, error) {
	evaluator, err := evaluator(config.Evaluation{})
	if err != nil {
		return change.Outcome{}, refused(err)
	}
	o.Dir, o.Evaluator, o.Push, o.Remote, o.DryRun, o.Sign = f.repository, evaluator, f.push, f.remote, f.dryRun, f.sign
	out, err := change.Apply(c.Context(), o, edit)
	return out, changeExit(err)
}

// changeExit gives an error of a change its exit code.
func changeExit(err error) error {
	var lost *change.ConflictError
	var silent *change.UnreachableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &lost):
		return conflict(err)
	case errors.As(err, &silent):
		return transient(err)
	}
	return refused(err)
}

// answerChange prints what became of a change: the receipt, or the difference of a dry run, or one line.
func (a *app) answerChange(f changing, out change.Outcome, receipt any, done, already string) error {
	switch {
	case f.asJSON:
		if err := a.printJSON(receipt); err != nil {
			return refused(err)
		}
	case !out.Changed:
		fmt.Fprintln(a.stdout, already)
	case out.Commit == "":
		fmt.Fprint(a.stdout, out.Diff)
	default:
		fmt.Fprintf(a.stdout, "%s: commit %.12s on %s, generation %d\n", done, out.Commit, out.Branch, out.Generation)
	}
	if out.Pushed && !f.asJSON {
		fmt.Fprintf(a.stderr, "pushed to %s\n", out.Remote)
	}
	if out.Behind != "" {
		fmt.Fprintf(a.stderr, "the push was taken, but the branch here was not moved (run git pull): %s\n", out.Behind)
	}
	return nil
}

// identifier is the form of names, which have at most maxName characters.
var identifier = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)

const maxName = 63

// checkName refuses a name before it becomes part of a path; the schema says the same of every name in a document.
func checkName(kind, name string) error {
	if len(name) > maxName || !identifier.MatchString(name) {
		return fmt.Errorf("%s name %q is not an identifier (1 to 63 lower-case letters, digits, dots, hyphens or underscores, starting and ending with a letter or a digit)", kind, name)
	}
	return nil
}

// serviceOf finds a service of a draft.
func serviceOf(d *change.Draft, name fleet.ServiceName) (fleet.Service, error) {
	s, ok := d.Registry.Directory.Services[name]
	if !ok {
		return s, fmt.Errorf("unknown service %q: the registry declares %s", name, orNone(joined(d.Registry.ServiceNames())))
	}
	return s, nil
}

func hostOf(d *change.Draft, name fleet.HostName) (fleet.Host, error) {
	h, ok := d.Registry.Hosts[name]
	if !ok {
		return h, fmt.Errorf("unknown host %q: the registry declares %s", name, orNone(joined(d.Registry.HostNames())))
	}
	return h, nil
}

func orNone(list string) string {
	if list == "" {
		return "none"
	}
	return strings.ReplaceAll(list, ",", ", ")
}

// servicePath is where a service stands below `registry`.
func servicePath(name fleet.ServiceName, labels ...string) []string {
	return append([]string{"service_directory", "services", string(name)}, labels...)
}
