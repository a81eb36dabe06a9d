package schema

import (
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
	"stado.internal/stado/fleet"
)

const (
	packageName = "fleet"
	rootLabel   = "registry"
	// languageVersion is the version of CUE that a registry is written in: the first with error(). It is pinned so that a file means
	// the same to every release of this program.
	languageVersion = "v0.14.0"
)

// source is one registry file that passed the gates. Its syntax tree is not kept: a tree is many times the size of the text, and a
// tree may not be shared between two evaluations.
type source struct {
	path    string
	data    []byte
	leaf    leaf
	literal bool // literals only, no expression: evaluating it takes time in proportion to its size
	// needsWhole is set for a shared file that reads hosts or services, so that leaves cannot be evaluated without each other.
	needsWhole bool
	// apart is set for a shared file that says nothing of hosts and services which it does not name.
	apart bool
	// id names the bytes; "" when nobody gave a name, then nothing about the file is kept.
	id string
	// fragment is the canonical JSON of a leaf that the schema's own text admits, nil when the evaluator has to be asked.
	fragment []byte
	reads    []string // names that expressions of the file begin with
	labels   []string // of a literal shared file: names of its fields
	known    bool     // what is said here comes from the cache; the file was not read
	at       Position // of a known leaf: the label of its entry
}

// parse reads every file, refuses what is too large to evaluate or reaches outside, and indexes what is declared where.
func (c *compiler) parse(files []File) []source {
	out := make([]source, 0, len(files))
	for _, f := range files {
		if s, ok := c.known[f.Path]; ok {
			c.owners.declares(s)
			out = append(out, s)
			continue
		}
		c.begin(phaseParse, f.Path)
		file, fs := parseText(f)
		if len(fs) == 0 {
			fs = gateSyntax(f.Path, file, packageName)
		}
		if len(fs) > 0 {
			c.findings.add(fs...)
			continue
		}
		out = append(out, c.source(f, file))
	}
	return out
}

// source says what one file is.
func (c *compiler) source(f File, file *ast.File) source {
	s := source{path: f.Path, data: f.Data, id: c.options.IDs[f.Path], leaf: leafOf(file)}
	before := c.findings.offered + len(c.owners.unowned)
	c.owners.look(f.Path, file)
	own := index{}
	if s.leaf.ok() {
		s.literal = s.leaf.literal
		s.fragment = c.literalFragment(s.leaf)
		c.findings.add(foreignReads(f.Path, file, s.leaf)...)
	} else {
		s.literal = literalFile(file)
		s.needsWhole = readsEntries(file)
		s.apart = givesNoRule(file)
	}
	if !s.literal {
		s.reads = namesRead(file)
	} else if !s.leaf.ok() {
		s.labels = labelsOf(file)
	}
	w := walker{findings: &c.findings, index: own, file: f.Path, shape: c.shape, shallow: s.fragment != nil}
	if s.leaf.ok() {
		w.entry = FieldPath(s.leaf.path()...)
	} else {
		w.index = c.where.index
	}
	w.walk(file)
	for p, at := range own {
		c.where.index.add(p, at)
	}
	s.leaf = s.leaf.withoutTree()
	if before == c.findings.offered+len(c.owners.unowned) {
		c.keepFacts(s, own)
	}
	return s
}

func parseCUE(name string, data []byte, options ...parser.Option) (*ast.File, error) {
	return parser.ParseFile(name, data, append(options, parser.Version(languageVersion))...)
}

func syntaxFindings(err error) []fleet.Finding {
	var out []fleet.Finding
	for _, e := range errors.Errors(err) {
		format, args := e.Msg()
		out = append(out, refusal(RuleSyntax, position(e.Position()), "", sprintf(format, args)))
	}
	return out
}

func position(p token.Pos) Position {
	if !p.IsValid() {
		return Position{}
	}
	return Position{p.Filename(), p.Line(), p.Column()}
}

var (
	refusedAttributes = []string{"embed", "extern", "if", "ignore", "tag", "experiment"}
	allowedImports    = []string{ImportPath, "strings", "net", "list", "struct", "regexp", "strconv"}
)

// gateSyntax refuses a tree that is too large or reaches outside, at the first node that does.
func gateSyntax(name string, file *ast.File, pkg string) []fleet.Finding {
	g := syntaxGate{name: name}
	if p := file.PackageName(); p != pkg {
		at := Position{name, 1, 1}
		for _, d := range file.Decls {
			if clause, ok := d.(*ast.Package); ok {
				at = position(clause.Name.Pos())
			}
		}
		g.refuse(RulePackage, at, sayPackage(p, pkg), hintPackage(pkg))
	}
	g.entries(file, len(file.Decls))
	if !g.stopped {
		g.repeated(file.Decls)
	}
	ast.Walk(file, g.enter, g.leave)
	return g.findings
}

// syntaxGate walks one tree. It stops descending once it has refused, so that a hostile tree costs no more than its gate.
type syntaxGate struct {
	name         string
	nodes, depth int
	stopped      bool
	findings     []fleet.Finding
}

func (g *syntaxGate) refuse(rule string, at Position, message, hint string) {
	g.findings = append(g.findings, hinted(refusal(rule, at, "", message), hint))
}

func (g *syntaxGate) stop(rule string, n ast.Node, message, hint string) {
	g.stopped = true
	at := position(n.Pos())
	at.File = g.name
	g.refuse(rule, at, message, hint)
}

func (g *syntaxGate) enter(n ast.Node) bool {
	if g.stopped {
		return false
	}
	if g.nodes++; g.nodes > maxNodes {
		g.stop(RuleNodes, n, sayNodes(), hintSplit)
		return false
	}
	if nests(n) {
		if g.depth++; g.depth > maxDepth {
			g.stop(RuleDepth, n, sayDepth(), hintFlatten)
			return false
		}
	}
	switch x := n.(type) {
	case *ast.StructLit:
		if g.entries(x, len(x.Elts)); !g.stopped {
			g.repeated(x.Elts)
		}
	case *ast.ListLit:
		g.entries(x, len(x.Elts))
	case *ast.Attribute:
		if key, _ := x.Split(); slices.Contains(refusedAttributes, key) {
			g.refuse(RuleAttribute, position(x.Pos()), sayAttribute(key), hintAttribute)
		}
	case *ast.ImportSpec:
		if p, err := strconv.Unquote(x.Path.Value); err != nil || !slices.Contains(allowedImports, p) {
			g.refuse(RuleImport, position(x.Path.Pos()), sayImport(p), hintImport)
		}
		return false
	}
	return !g.stopped
}

// leave is called for the nodes that enter let through; a refused one leaves the depth as it is, which no longer matters.
func (g *syntaxGate) leave(n ast.Node) {
	if nests(n) {
		g.depth--
	}
}

func (g *syntaxGate) entries(n ast.Node, count int) {
	if count > maxFields {
		g.stop(RuleFields, n, sayFields(), hintSplit)
	}
}

// nests reports whether a node makes what it holds one level deeper. The braces of a field's value add nothing to the field, so that
// a: b: c and a: {b: {c}} are equally deep.
func nests(n ast.Node) bool {
	switch n.(type) {
	case *ast.Field, *ast.ListLit, *ast.EmbedDecl, *ast.ParenExpr, *ast.UnaryExpr, *ast.BinaryExpr, *ast.CallExpr, *ast.IndexExpr,
		*ast.SelectorExpr, *ast.Interpolation, *ast.Comprehension, *ast.LetClause, *ast.PostfixExpr:
		return true
	}
	return false
}

// hiddenLabel reports whether a label is a definition or a hidden field, which are never part of the document.
func hiddenLabel(name string, isIdent bool) bool {
	return isIdent && (strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#"))
}
