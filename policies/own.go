package policies

import (
	"path"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
	"cuelang.org/go/encoding/json"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// The names of the contract between a fleet and its own policies: package policies in the files of policies/, with two inputs and one
// output. previous and next are compiled documents; there is no previous for a first commit. violations maps the name of a rule to the
// sentence that says how next breaks it.
const (
	inputPrevious = "previous"
	inputNext     = "next"
	outputField   = "violations"
)

// contractText gives every set of policies the contract's names, so that a policy which misspells one is found out.
const (
	contractFile = "stado:policies"
	contractText = "package " + schema.PoliciesDir + "\n\n" + inputPrevious + "?: {...}\n" + inputNext + ": {...}\n" + outputField + ": [string]: string\n"
)

// JudgeOwn applies the fleet's own policies to a change; files are those of the previous commit, which judge whatever follows on it. It
// evaluates what strangers wrote, so it belongs in a process that has limits; begin, if set, is called before work on a file begins.
func JudgeOwn(files []schema.File, previous, next []byte, begin func(file string)) fleet.Findings {
	own := schema.PolicyFiles(files)
	if len(own) == 0 {
		return nil
	}
	o := ownJudge{begin: begin, files: map[string]bool{}}
	for _, f := range own {
		o.files[f.Path] = true
	}
	return schema.Limit(o.judge(own, previous, next))
}

// CheckOwn judges the fleet's own policies themselves: that they can be evaluated over the document of their own revision, as for a
// first commit. A policy that cannot would refuse every change after the one that brings it. That this very document breaks a policy is
// a warning.
func CheckOwn(files []schema.File, document []byte, begin func(file string)) fleet.Findings {
	var findings fleet.Findings
	for _, f := range schema.PolicyFiles(files) {
		if path.Dir(f.Path) != schema.PoliciesDir {
			at := schema.Position{File: f.Path}
			findings = append(findings, refuse(RulePolicyBroken, at, "", sayPolicyNested(), hintPolicyNested))
		}
	}
	for _, f := range JudgeOwn(files, nil, document, begin) {
		if f.Rule == RulePolicy {
			f.Severity = fleet.SeverityWarning
			f.Hint = hintPolicyStands
		}
		findings = append(findings, f)
	}
	return schema.Limit(findings)
}

// Together joins what is said of a revision with what is said of the change that leads to it, sorted. That a policy of the fleet's own
// will refuse what it refuses already is left out.
func Together(revision, change fleet.Findings) fleet.Findings {
	out := slices.DeleteFunc(slices.Clone(revision), func(f fleet.Finding) bool {
		return f.Rule == RulePolicy && slices.ContainsFunc(change, func(c fleet.Finding) bool {
			return c.Rule == f.Rule && c.Message == f.Message
		})
	})
	out = append(out, change...)
	out.Sort()
	return out
}

// ownJudge is one evaluation.
type ownJudge struct {
	begin func(file string)
	files map[string]bool
}

func (o ownJudge) judge(files []schema.File, previous, next []byte) (findings fleet.Findings) {
	defer func() {
		// As for registries: if the evaluator panics on what it is given, that refuses the change and nothing else.
		if what := recover(); what != nil {
			findings = fleet.Findings{o.broken(schema.Position{File: files[0].Path}, sayPolicyPanic(what))}
		}
	}()
	trees, findings := schema.ParsePolicies(files, o.begin)
	if len(findings) > 0 {
		return findings
	}
	instance, err := ownInstance(trees, previous, next)
	if err != nil {
		return o.explain(err)
	}
	v := cuecontext.New().BuildInstance(instance)
	violations := v.LookupPath(cue.ParsePath(outputField))
	if err := v.Validate(); err != nil {
		return o.explain(err)
	}
	if err := violations.Validate(cue.Concrete(true)); err != nil {
		return o.explain(err)
	}
	return o.violations(violations)
}

// violations turns the output into findings, each at the place where the policy gives the sentence.
func (o ownJudge) violations(v cue.Value) fleet.Findings {
	fields, err := v.Fields()
	if err != nil {
		return o.explain(err)
	}
	var out fleet.Findings
	for fields.Next() {
		sentence, err := fields.Value().String()
		if err != nil {
			return o.explain(err)
		}
		at := o.place(fields.Value().Pos())
		out = append(out, refuse(RulePolicy, at, "", sayPolicy(fields.Selector().Unquoted(), sentence), hintPolicy))
	}
	return out
}

// explain gives the evaluator's errors the form of findings in the policies' own files.
func (o ownJudge) explain(err error) fleet.Findings {
	var out fleet.Findings
	for _, e := range errors.Errors(err) {
		at := o.place(errors.Positions(e)...)
		format, args := e.Msg()
		f := o.broken(at, sayPolicyBroken(strings.Join(e.Path(), "."), format, args))
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

func (o ownJudge) broken(at schema.Position, message string) fleet.Finding {
	return refuse(RulePolicyBroken, at, "", message, hintPolicyBroken)
}

// place is the first position in the policies' own files, the directory itself when none is.
func (o ownJudge) place(positions ...token.Pos) schema.Position {
	for _, p := range positions {
		if p.IsValid() && o.files[p.Filename()] {
			return schema.Position{File: p.Filename(), Line: p.Line(), Column: p.Column()}
		}
	}
	return schema.Position{File: schema.PoliciesDir}
}

// ownInstance is the package of the policies with its inputs.
func ownInstance(trees []*ast.File, previous, next []byte) (*build.Instance, error) {
	instance := build.NewContext(build.Loader(func(token.Pos, string) *build.Instance { return nil })).NewInstance("", nil)
	contract, err := parser.ParseFile(contractFile, contractText)
	if err != nil {
		return nil, err
	}
	inputs := &ast.File{Filename: contractFile, Decls: []ast.Decl{&ast.Package{Name: ast.NewIdent(schema.PoliciesDir)}}}
	for _, input := range []struct {
		name     string
		document []byte
	}{{inputPrevious, previous}, {inputNext, next}} {
		if input.document == nil {
			continue
		}
		value, err := json.Extract("stado:"+input.name, input.document)
		if err != nil {
			return nil, err
		}
		inputs.Decls = append(inputs.Decls, &ast.Field{Label: ast.NewIdent(input.name), Value: value})
	}
	for _, f := range append(trees, contract, inputs) {
		if err := instance.AddSyntax(f); err != nil {
			return nil, err
		}
	}
	if err := instance.Complete(); err != nil {
		return nil, err
	}
	return instance, nil
}
