package schema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// Unowned is a place where a file gives, or narrows, what another file owns. CUE unifies all files of a package, so without owners any
// file could change any host or service.
type Unowned struct {
	// Path is the field, with * for a name that is not written out; the label of a template for one that stands outside the registry.
	Path string
	At   Position
	// Owner is the file that may give it; empty when that is any shared file.
	Owner string
	// Declared is where the file that owns it declares it, when that is how the owner is known: a template, or an entry of two files.
	Declared Position
	Kind     UnownedKind
}

// UnownedKind says what is wrong with a place.
type UnownedKind int

// The kinds.
const (
	UnownedField    UnownedKind = iota // a field that another file owns
	UnownedComputed                    // a value from which it cannot be seen what it gives: a pattern, a reference, an expression
	UnownedTemplate                    // a definition or hidden field that is declared elsewhere
	UnownedTwice                       // an entry that another file of the same name declares
)

// owners is what all files of a registry declare, for what one file alone cannot show.
type owners struct {
	unowned   []Unowned
	templates map[string][]declared
	entries   map[entryKey][]declared
}

type declared struct {
	by owner
	at Position
}

// note keeps the first place of each file.
func note[K comparable](m *map[K][]declared, k K, d declared) {
	if *m == nil {
		*m = map[K][]declared{}
	}
	if !slices.ContainsFunc((*m)[k], func(other declared) bool { return other.at.File == d.at.File }) {
		(*m)[k] = append((*m)[k], d)
	}
}

// list is everything unowned, with what only shows across files: a template that a shared file declares is that file's, and of two files
// that declare one entry the second is one too many. Files come in the order of their paths.
func (o *owners) list() []Unowned {
	out := o.unowned
	for label, all := range o.templates {
		first := max(0, slices.IndexFunc(all, func(d declared) bool { return d.by.shared() }))
		for i, d := range all {
			if i != first && !d.by.shared() {
				out = append(out, Unowned{Path: label, At: d.at, Declared: all[first].at, Owner: all[first].at.File, Kind: UnownedTemplate})
			}
		}
	}
	for k, all := range o.entries {
		for _, d := range all[1:] {
			p := FieldPath(leaf{kind: k.kind, name: k.name}.path()...)
			out = append(out, Unowned{Path: p, At: d.at, Declared: all[0].at, Owner: all[0].at.File, Kind: UnownedTwice})
		}
	}
	slices.SortFunc(out, func(a, b Unowned) int {
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column), cmp.Compare(a.Path, b.Path))
	})
	return out
}

// scope looks at what one file gives, as far as it is written out: the structs that hold hosts and services, down to the entries and no
// further, since nothing inside a field gives anything outside it. A value there that is no plain struct could give anything.
type scope struct {
	o     *owners
	file  string
	owner owner
	seen  map[string]bool // parts that are reported: one finding for each
}

func (o *owners) look(name string, file *ast.File) {
	s := scope{o: o, file: name, owner: ownerOf(name), seen: map[string]bool{}}
	s.elements(nil, file.Decls)
}

func (s scope) at(n ast.Node) Position {
	p := position(n.Pos())
	p.File = s.file
	return p
}

func (s scope) elements(level []string, elts []ast.Decl) {
	for _, d := range elts {
		switch x := d.(type) {
		case *ast.Field:
			s.field(level, x)
		case *ast.EmbedDecl:
			s.value(level, x.Expr)
		case *ast.Comprehension:
			s.value(level, x)
		case *ast.Ellipsis:
			if x.Type != nil {
				s.pattern(level, x)
			}
		}
	}
}

// value looks at a struct that holds others: that of the file, of the registry, its hosts, its directory, its services.
func (s scope) value(level []string, e ast.Expr) {
	switch x := e.(type) {
	case *ast.StructLit:
		s.elements(level, x.Elts)
	case *ast.Comprehension:
		s.value(level, x.Value)
		if x.Fallback != nil {
			s.value(level, x.Fallback.Body)
		}
	case *ast.BinaryExpr:
		if x.Op != token.AND {
			s.computed(level, x)
			return
		}
		s.value(level, x.X)
		s.value(level, x.Y)
	case *ast.ParenExpr:
		s.value(level, x.X)
	case *ast.Alias:
		s.value(level, x.Expr)
	default:
		if !s.harmless(e) {
			s.computed(level, e)
		}
	}
}

// harmless reports whether an expression gives nothing: the schema itself, _, or, in a shared file, a validator of package struct.
func (s scope) harmless(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name == "_"
	case *ast.SelectorExpr:
		return importOf(x) == ImportPath
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.SelectorExpr)
		return ok && s.owner.shared() && importOf(f) == "struct"
	}
	return false
}

// importOf is the import path of the package that a selector selects from; empty when it selects from something else.
func importOf(x *ast.SelectorExpr) string {
	id, ok := x.X.(*ast.Ident)
	if !ok {
		return ""
	}
	spec, ok := id.Node.(*ast.ImportSpec)
	if !ok {
		return ""
	}
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ""
	}
	return p
}

func (s scope) field(level []string, f *ast.Field) {
	if _, pattern := f.Label.(*ast.ListLit); pattern {
		s.pattern(level, f)
		return
	}
	if alias, ok := f.Label.(*ast.Alias); ok {
		if _, pattern := alias.Expr.(*ast.ListLit); pattern {
			s.pattern(level, f)
			return
		}
	}
	label, isIdent, err := ast.LabelName(f.Label)
	if err != nil {
		s.computed(append(slices.Clip(level), "*"), f.Label)
		return
	}
	full := append(slices.Clip(level), label)
	switch {
	case hiddenLabel(label, isIdent), len(level) == 0 && label != rootLabel:
		note(&s.o.templates, strings.Join(full, "."), declared{s.owner, s.at(f.Label)})
	case holds(full):
		s.value(full, f.Value)
	default:
		s.part(full[1:], f)
	}
}

// holds reports whether labels lead to a struct that holds what different files own.
func holds(full []string) bool {
	switch len(full) {
	case 1:
		return full[0] == rootLabel
	case 2:
		return full[1] == hostsLabel || full[1] == directoryLabel
	case 3:
		return full[1] == directoryLabel && full[2] == servicesLabel
	}
	return false
}

// part judges a field that one file owns as a whole.
func (s scope) part(labels []string, f *ast.Field) {
	if s.owner.owns(labels) {
		if !s.owner.shared() && s.owner.name != "" {
			note(&s.o.entries, entryKey{s.owner.kind, s.owner.name}, declared{s.owner, s.at(f.Label)})
		}
		return
	}
	if key := FieldPath(labels...); !s.seen[key] {
		s.seen[key] = true
		full, at := s.first(labels, f)
		s.o.unowned = append(s.o.unowned, Unowned{Path: FieldPath(full...), At: at, Owner: ownerPath(labels)})
	}
}

// first is the first value inside a field, by its labels and its place.
func (s scope) first(labels []string, f *ast.Field) ([]string, Position) {
	st, ok := f.Value.(*ast.StructLit)
	if !ok {
		return labels, s.at(f.Label)
	}
	for _, d := range st.Elts {
		inner, ok := d.(*ast.Field)
		if !ok {
			continue
		}
		if label, isIdent, err := ast.LabelName(inner.Label); err == nil && !hiddenLabel(label, isIdent) {
			return s.first(append(slices.Clip(labels), label), inner)
		}
	}
	return labels, s.at(f.Label)
}

// pattern is a constraint on all entries of a struct. On all hosts, or all services, it is a shared file's to give.
func (s scope) pattern(level []string, n ast.Node) {
	entries := slices.Equal(level, []string{rootLabel, hostsLabel}) || slices.Equal(level, []string{rootLabel, directoryLabel, servicesLabel})
	if !entries || !s.owner.shared() {
		s.computed(append(slices.Clip(level), "*"), n)
	}
}

func (s scope) computed(full []string, n ast.Node) {
	if len(full) > 1 && full[0] == rootLabel {
		full = full[1:]
	}
	p := FieldPath(full...)
	if p == "" {
		p = "*"
	}
	if !s.seen[p] {
		s.seen[p] = true
		s.o.unowned = append(s.o.unowned, Unowned{Path: p, At: s.at(n), Kind: UnownedComputed})
	}
}
