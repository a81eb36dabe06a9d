package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/fleet/doctor"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/schema"
)

// doctorAnswer is the JSON answer of `stado registry doctor`.
type doctorAnswer struct {
	OK         bool             `json:"ok"`
	Generation fleet.Generation `json:"generation"`
	Checked    doctorChecked    `json:"checked"`
	Findings   []doctor.Finding `json:"findings"`
}

type doctorChecked struct {
	Hosts    int `json:"hosts"`
	Services int `json:"services"`
	Adapters int `json:"adapters"`
}

func newRegistryDoctor(a *app) *cobra.Command {
	var asJSON bool
	var limits config.Evaluation
	c := &cobra.Command{
		Use:   "doctor [DIR]",
		Short: "Look for mistakes that are no reason to refuse a registry",
		Long: `Examine the files of the registry repository DIR (default: this directory) for what agents admit and is still most likely a mistake:
endpoints that are listeners of their own host, hosts without an SSH destination that routes lead to, routes that lead to such hosts only,
consumers without an adapter, endpoints that are never used, a vendored schema of another version, and, where the registry asks for
signatures, a newest commit of the branch that hosts which hold the one before it would refuse. Nothing is contacted.

Exit status: 0 nothing found; 1 findings (on stdout), or a registry that is refused; 2 usage.`,
		Example: "  stado registry doctor\n  stado registry doctor fleet --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			child, err := childCommand()
			if err != nil {
				return refused(err)
			}
			if err := requireRepository(dir); err != nil {
				return refused(err)
			}
			v, err := source.Evaluator{Runner: agent.Child(child, limits)}.WorkTree(c.Context(), dir)
			if err == nil {
				err = requireAdmitted(v, "the registry in "+dir)
			}
			if err != nil {
				return refused(err)
			}
			answer, err := examine(dir, v)
			if err != nil {
				return refused(err)
			}
			unsigned, err := doctorSignature(c.Context(), dir, limits)
			if err != nil {
				return refused(err)
			}
			answer.Findings = append(answer.Findings, unsigned...)
			answer.OK = len(answer.Findings) == 0
			return a.answerDoctor(answer, asJSON)
		},
	}
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print the answer as JSON")
	evaluationFlags(c, &limits)
	return c
}

func examine(dir string, v source.Verdict) (doctorAnswer, error) {
	registry, err := fleet.Decode(v.Document)
	if err != nil {
		return doctorAnswer{}, err
	}
	answer := doctorAnswer{
		Generation: registry.Directory.Generation,
		Checked:    doctorChecked{Hosts: len(registry.Hosts), Services: len(registry.Directory.Services)},
		Findings:   append([]doctor.Finding{}, doctor.Examine(registry)...),
	}
	for i := range answer.Findings {
		f := &answer.Findings[i]
		at := schema.At(v.Positions, f.Subject)
		f.File, f.Line, f.Column = at.File, at.Line, at.Column
	}
	for _, h := range registry.Hosts {
		if h.Resolver != nil {
			answer.Checked.Adapters += len(h.Resolver.Adapters)
		}
	}
	drift, err := vendoredDrift(dir)
	if err != nil {
		return doctorAnswer{}, err
	}
	for _, p := range drift {
		f := doctor.Finding{
			Kind: doctor.DriftedSchema, Subject: p, File: p,
			Detail: p + " is not the file of this version; agents judge with their own, plain cue with this one",
			Hint:   "run `stado schema export .` and commit the result",
		}
		if !strings.HasPrefix(p, schema.VendorDir()+"/") {
			f.Detail = p + " is not a directory, so the schema is not there; agents judge with their own, plain cue with none"
			f.Hint = "remove it, run `stado schema export .` and commit the result"
		}
		answer.Findings = append(answer.Findings, f)
	}
	return answer, nil
}

func (a *app) answerDoctor(answer doctorAnswer, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(answer); err != nil {
			return refused(err)
		}
	} else {
		for _, f := range answer.Findings {
			if at := (fleet.Finding{File: f.File, Line: f.Line, Column: f.Column}).Position(); at != "" {
				fmt.Fprint(a.stdout, at+": ")
			}
			fmt.Fprintf(a.stdout, "%s: %s (%s)\n", f.Kind, f.Detail, f.Hint)
		}
		c := answer.Checked
		fmt.Fprintf(a.stderr, "examined %d host(s), %d service(s) and %d adapter(s) at generation %d: %d finding(s)\n",
			c.Hosts, c.Services, c.Adapters, answer.Generation, len(answer.Findings))
	}
	if !answer.OK {
		return notReady()
	}
	return nil
}
