package schema

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"

	"stado.internal/stado/fleet"
)

// Contribution is one declaration that says something about a field.
type Contribution struct {
	Position
	// Text is the expression, shortened to a line; a struct is {…}.
	Text string `json:"text"`
	// In is the template or definition that the declaration stands in; empty for one that stands in the registry itself.
	In string `json:"in,omitempty"`
}

// Trace says where the value of one field comes from and what it must satisfy.
type Trace struct {
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"` // canonical; nil when there is none
	// Problem says why there is no value although files speak of the field.
	Problem string `json:"problem,omitempty"`
	// SetBy are the declarations of the registry's own files, those of templates included.
	SetBy []Contribution `json:"set_by"`
	// Constraints are the declarations of the schema; their files are those of the vendored copy.
	Constraints []Contribution `json:"constraints"`
	Doc         string         `json:"doc,omitempty"`     // the schema's comment
	Retired     string         `json:"retired,omitempty"` // the sentence, when the field is retired
}

// maxTraceText bounds the text of one contribution, in bytes: more is read in the file.
const maxTraceText = 300

// TraceField finds every declaration that gives, or constrains, the field at a path such as hosts.a1.ssh. Files that refuse each other
// can be traced; findings say that they cannot be read, or that the schema has no such field. It evaluates, so it belongs where [Compile]
// does.
func TraceField(files []File, fieldPath string, o Options) (out Trace, findings fleet.Findings) {
	defer func() {
		if what := recover(); what != nil { // as in evaluateCUE
			out, findings = Trace{}, fleet.Findings{refusal(RuleSyntax, Position{}, fieldPath, sayInternal(what))}
		}
	}()
	labels, err := fleet.SplitFieldPath(strings.TrimPrefix(fieldPath, rootLabel+"."))
	if err != nil {
		return Trace{}, fleet.Findings{refusal(RuleUnknown, Position{}, fieldPath, err.Error())}
	}
	c := newCompiler(o)
	for i, label := range labels {
		if parent := c.shape.at(labels[:i]); parent == nil || c.shape.at(labels[:i+1]) == nil {
			return Trace{}, fleet.Findings{unknownField(Position{}, FieldPath(labels...), label, parent)}
		}
	}
	var sources []source
	if passed := c.gateFiles(files); !c.findings.refuses() {
		c.files = make(map[string][]byte, len(passed))
		for _, f := range passed {
			c.files[f.Path] = f.Data
		}
		sources = c.parse(passed)
	}
	if c.findings.refuses() && !c.findings.only(RuleUnknown, RuleRetired) {
		return Trace{}, c.findings.list()
	}
	t, err := c.trace(labels, c.plan(sources).about(labels))
	if err != nil {
		return Trace{}, c.explain(err)
	}
	return t, nil
}

// about are the files that can say something about a field: for one inside a host or a service, the leaf and what is shared.
func (p plan) about(labels []string) []source {
	own := func(entry) bool { return true }
	if !p.whole && len(labels) > 0 {
		at := slices.Index(labels, hostsLabel)
		if labels[0] == directoryLabel {
			at = slices.Index(labels, servicesLabel)
		}
		switch {
		case at >= 0 && at < 2 && len(labels) > at+1:
			own = func(e entry) bool { return e.kind == labels[at] && e.name == labels[at+1] }
		case at < 0 && len(labels) > 1:
			own = func(entry) bool { return false }
		}
	}
	out := slices.Clone(p.shared)
	for _, e := range p.entries {
		if own(e) {
			out = append(out, e.sources...)
		}
	}
	return out
}

func (c *compiler) trace(labels []string, sources []source) (Trace, error) {
	s := c.shape.at(labels)
	t := tracer{
		out:   Trace{Path: FieldPath(labels...), SetBy: []Contribution{}, Constraints: []Contribution{}, Doc: s.doc, Retired: s.retired},
		files: map[string]*ast.File{},
	}
	for _, src := range sources {
		file, err := parseCUE(src.path, src.data)
		if err != nil {
			return Trace{}, err
		}
		t.files[src.path] = file
	}
	for _, f := range Files() {
		file, err := parser.ParseFile(schemaFile(f.Path), f.Data)
		if err != nil {
			return Trace{}, err
		}
		t.files[schemaFile(f.Path)] = file
	}
	in := newSession()
	instance, err := newInstance(in.build, sources)
	if err != nil {
		return Trace{}, err
	}
	c.begin(phaseEvaluate, "") // all of them at once: vet is what names the one that does not end
	line, set := lookup(in.context.BuildInstance(instance), labels)
	v := line[len(line)-1]
	t.collect(v, t.add)
	t.bringIn(line[:len(line)-1])
	directFirst(t.out.SetBy)
	if !set {
		return t.out, nil
	}
	if err := v.Validate(cue.Concrete(true), cue.Final()); err != nil {
		if findings := c.explain(err); len(findings) > 0 {
			t.out.Problem = findings[0].String()
		}
		return t.out, nil
	}
	t.out.Value, err = renderValue(v)
	return t.out, err
}

// lookup finds the values on the way to a field, the field's own last. When nobody sets the field, the last one is what is said of it in
// case somebody does.
func lookup(root cue.Value, labels []string) (line []cue.Value, set bool) {
	v, set := root.LookupPath(cue.ParsePath(rootLabel)), true
	for _, label := range labels {
		selector := cue.Str(label)
		if i, err := strconv.Atoi(label); err == nil && v.IncompleteKind() == cue.ListKind {
			selector = cue.Index(i)
		}
		next := v.LookupPath(cue.MakePath(selector))
		if !next.Exists() && selector.LabelType() == cue.StringLabel && next.Err() != nil {
			if optional := v.LookupPath(cue.MakePath(selector.Optional())); optional.Exists() {
				next, set = optional, false
			}
		}
		line, v = append(line, next), next
	}
	return line, set
}

// tracer collects the declarations of one field.
type tracer struct {
	out   Trace
	files map[string]*ast.File // the registry's own, and the schema's
}

// collect takes apart what was unified into a value. Every part is a declaration, with its expression.
func (t *tracer) collect(v cue.Value, found func(n ast.Node, value ast.Expr)) {
	_, declared := v.Source().(*ast.Field)
	if op, parts := v.Expr(); !declared && op == cue.AndOp {
		for _, part := range parts {
			t.collect(part, found)
		}
		return
	}
	switch n := v.Source().(type) {
	case *ast.Field:
		found(n, n.Value)
	case ast.Expr:
		found(n, n)
	}
}

// bringIn notes the declarations further up that bring in the templates in which the field is set.
func (t *tracer) bringIn(line []cue.Value) {
	templates := map[string]bool{}
	for _, c := range t.out.SetBy {
		templates[c.In] = true
	}
	for _, v := range line {
		t.collect(v, func(n ast.Node, value ast.Expr) {
			names := false
			named(value, func(name string) { names = names || templates[name] })
			if names {
				t.note(n, value)
			}
		})
	}
}

// add notes a declaration, and those of the templates and definitions that its expression names.
func (t *tracer) add(n ast.Node, value ast.Expr) {
	at, isNew := t.note(n, value)
	if !isNew {
		return
	}
	named(value, func(name string) {
		for _, path := range slices.Sorted(maps.Keys(t.files)) {
			if inSchema(path) != inSchema(at.File) {
				continue // the schema's names are not the registry's
			}
			for _, d := range t.files[path].Decls {
				if declared, ok := d.(*ast.Field); ok && labelOf(declared) == name {
					t.add(declared, declared.Value)
				}
			}
		}
	})
}

func inSchema(path string) bool { return strings.HasPrefix(path, VendorDir()+"/") }

// named calls found for every template and definition that an expression is made of. What the fields of a struct are made of is said of
// those fields.
func named(e ast.Expr, found func(name string)) {
	switch x := e.(type) {
	case *ast.StructLit:
		for _, d := range x.Elts {
			if embedded, ok := d.(*ast.EmbedDecl); ok {
				named(embedded.Expr, found)
			}
		}
	case *ast.BinaryExpr:
		named(x.X, found)
		named(x.Y, found)
	case *ast.ParenExpr:
		named(x.X, found)
	default:
		references(e, func(base *ast.Ident, _ []string, _ ast.Node) {
			if _, local := base.Scope.(*ast.StructLit); !local && hiddenLabel(base.Name, true) {
				found(base.Name)
			}
		})
	}
}

// note keeps a declaration once; the line that binds the schema is none.
func (t *tracer) note(n ast.Node, value ast.Expr) (at Position, isNew bool) {
	at = position(n.Pos())
	if scalar(value) {
		at = position(value.Pos())
	}
	file, ours := t.files[at.File]
	if !ours {
		return at, false
	}
	c := Contribution{Position: at, Text: oneLineOf(value), In: enclosing(file, n)}
	list := &t.out.SetBy
	if inSchema(at.File) {
		list = &t.out.Constraints
	}
	if slices.Contains(*list, c) {
		return at, false
	}
	*list = append(*list, c)
	return at, true
}

// enclosing is the top-level field that a node stands in, when that is a template or a definition.
func enclosing(file *ast.File, n ast.Node) string {
	offset := n.Pos().Offset()
	for _, d := range file.Decls {
		f, ok := d.(*ast.Field)
		if ok && f.Pos().Offset() <= offset && offset <= f.End().Offset() {
			if label := labelOf(f); hiddenLabel(label, true) {
				return label
			}
			return ""
		}
	}
	return ""
}

func labelOf(f *ast.Field) string {
	label, _, err := ast.LabelName(f.Label)
	if err != nil {
		return ""
	}
	return label
}

// oneLineOf is an expression for a list of them.
func oneLineOf(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StructLit:
		return "{…}"
	case *ast.BinaryExpr:
		return shorten(oneLineOf(x.X) + " " + x.Op.String() + " " + oneLineOf(x.Y))
	}
	raw, err := format.Node(e)
	if err != nil {
		return "…"
	}
	return shorten(strings.Join(strings.Fields(string(raw)), " "))
}

func shorten(text string) string {
	if len(text) > maxTraceText {
		return strings.ToValidUTF8(text[:maxTraceText], "") + "…"
	}
	return text
}

// directFirst puts what stands in the registry itself first, by place; templates follow as they are named.
func directFirst(list []Contribution) {
	slices.SortStableFunc(list, func(a, b Contribution) int {
		switch {
		case a.In == "" && b.In == "":
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		case a.In == "":
			return -1
		case b.In == "":
			return 1
		}
		return 0
	})
}
