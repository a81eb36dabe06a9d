package schema

import (
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
	"stado.internal/stado/fleet"
)

const (
	hostsLabel     = "hosts"
	directoryLabel = "service_directory"
	servicesLabel  = "services"
)

// leaf is what a file that declares exactly one host or service declares; the zero leaf is a shared file. Leaves are evaluated apart
// from each other, each with the shared files, which is the same registry in a fraction of the time (CUE is quadratic in the fields
// of one struct) and of the memory.
type leaf struct {
	kind, name string // hostsLabel or servicesLabel, and the host or the service
	literal    bool
	spine      []ast.Node // the values of registry, hosts, …: what an identifier that reads one of them resolves to
	values     []ast.Expr // what the file declares the host or the service to be, once for each declaration
}

// withoutTree is the leaf without what holds on to the syntax tree.
func (l leaf) withoutTree() leaf { return leaf{kind: l.kind, name: l.name, literal: l.literal} }

func (l leaf) ok() bool { return l.kind != "" }

// leafOf recognises a leaf: besides its package clause and imports a file has fields that all lead to the same host or service.
func leafOf(file *ast.File) leaf {
	out := leaf{literal: true}
	for _, d := range file.Decls {
		switch x := d.(type) {
		case *ast.Package:
		case *ast.ImportDecl:
			out.literal = false
		case *ast.Field:
			if !out.follow(x) {
				return leaf{}
			}
		default:
			return leaf{}
		}
	}
	return out
}

// follow goes down registry: hosts: NAME or registry: service_directory: services: NAME, one field in each struct.
func (l *leaf) follow(f *ast.Field) bool {
	body, ok := l.step(f, rootLabel)
	if !ok {
		return false
	}
	kind := hostsLabel
	if next, ok := l.step(body, directoryLabel); ok {
		body, kind = next, servicesLabel
	}
	if body, ok = l.step(body, kind); !ok || !plainField(body) {
		return false
	}
	name, _, err := ast.LabelName(body.Label)
	if err != nil || l.ok() && (l.kind != kind || l.name != name) {
		return false
	}
	l.kind, l.name = kind, name
	l.literal = l.literal && literalValue(body.Value)
	l.values = append(l.values, body.Value)
	return true
}

// step returns the only field inside f when f is the plain field label: { … }.
func (l *leaf) step(f *ast.Field, label string) (*ast.Field, bool) {
	name, _, err := ast.LabelName(f.Label)
	if err != nil || name != label || !plainField(f) {
		return nil, false
	}
	s, ok := f.Value.(*ast.StructLit)
	if !ok || len(s.Elts) != 1 {
		return nil, false
	}
	inner, ok := s.Elts[0].(*ast.Field)
	if ok {
		l.spine = append(l.spine, s)
	}
	return inner, ok
}

// plainField reports whether a field is label: value, with nothing else to it.
func plainField(f *ast.Field) bool {
	switch f.Label.(type) {
	case *ast.Ident, *ast.BasicLit:
	default:
		return false
	}
	name, isIdent, err := ast.LabelName(f.Label)
	return err == nil && !hiddenLabel(name, isIdent) && f.Alias == nil && f.Constraint == token.ILLEGAL && len(f.Attrs) == 0
}

// literalValue reports whether a value is data as JSON knows it: evaluating it reads nothing and takes time in proportion to its size.
func literalValue(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.UnaryExpr:
		_, ok := x.X.(*ast.BasicLit)
		return ok && (x.Op == token.SUB || x.Op == token.ADD)
	case *ast.ListLit:
		for _, elt := range x.Elts {
			if !literalValue(elt) {
				return false
			}
		}
		return true
	case *ast.StructLit:
		for _, d := range x.Elts {
			f, ok := d.(*ast.Field)
			if !ok || !plainField(f) || !literalValue(f.Value) {
				return false
			}
		}
		return true
	}
	return false
}

func literalFile(file *ast.File) bool {
	for _, d := range file.Decls {
		switch x := d.(type) {
		case *ast.Package:
		case *ast.Field:
			if !plainField(x) || !literalValue(x.Value) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// foreignReads finds what a leaf reads of the registry beyond itself and the shared files. Evaluated apart it would find nothing
// there, or something that depends on which leaves happen to share its evaluation.
func foreignReads(name string, file *ast.File, l leaf) []fleet.Finding {
	if l.literal {
		return nil
	}
	var out []fleet.Finding
	references(file, func(base *ast.Ident, selectors []string, whole ast.Node) {
		full, ok := l.absolute(base, selectors)
		if ok && !l.own(full) {
			at := position(whole.Pos())
			at.File = name
			out = append(out, hinted(refusal(RuleOtherLeaf, at, FieldPath(l.path()...), sayOtherLeaf(strings.Join(full, "."))), hintOtherLeaf))
		}
	})
	return out
}

func (l leaf) path() []string {
	if l.kind == hostsLabel {
		return []string{hostsLabel, l.name}
	}
	return []string{directoryLabel, servicesLabel, l.name}
}

// absolute turns a reference into labels from the root, when it reads the registry at all.
func (l leaf) absolute(base *ast.Ident, selectors []string) ([]string, bool) {
	if base.Node == nil && base.Name == rootLabel {
		return append([]string{rootLabel}, selectors...), true
	}
	labels := append([]string{rootLabel}, l.path()...)
	depth := len(labels) - 1 // structs of one declaration on the spine: registry, hosts (and service_directory)
	for i, n := range l.spine {
		if n == base.Node {
			return append(append([]string{}, labels[:i%depth+1]...), selectors...), true
		}
	}
	return nil, false
}

// own reports whether absolute labels stay inside the leaf or in what shared files define.
func (l leaf) own(full []string) bool {
	own := append([]string{rootLabel}, l.path()...)
	for i, label := range own {
		if i == len(full) {
			return false // reads a struct that holds all entries
		}
		if full[i] != label {
			return sharedPath(full)
		}
	}
	return true
}

// sharedPath reports whether absolute labels lead to a part of the registry that never stands in a leaf: all but hosts and services.
func sharedPath(full []string) bool {
	switch {
	case len(full) < 2:
		return false
	case full[1] == directoryLabel:
		return len(full) > 2 && full[2] != servicesLabel
	}
	return full[1] != hostsLabel
}
