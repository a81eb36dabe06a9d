// Package edit changes CUE files the way a careful person does: it sets, adds and removes fields by their path and leaves every other
// byte, comments included, where it is. A file that was formatted stays formatted. It is pure: text in, text out.
//
// It changes literal values only. What a file computes is refused with file and line, since the text that says it may say it for
// others too.
package edit

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/token"
	"stado.internal/stado/schema"
)

// File is one CUE file that is being edited. It is not safe for concurrent use. After an error the file is as it was before the call.
type File struct {
	name      string
	data      []byte
	tree      *ast.File
	formatted bool
}

// maxSteps bounds the places that one Put changes: the file is parsed again after each.
const maxSteps = 10_000

// Error says why a field cannot be edited by program.
type Error struct {
	Path    string // the field's path from the top of the file
	Message string // a sentence with file and line
}

// Error is the sentence.
func (e *Error) Error() string { return e.Message }

// Open parses a file; name is its path in errors.
func Open(name string, data []byte) (*File, error) {
	f := &File{name: name}
	if err := f.load(data); err != nil {
		return nil, err
	}
	canonical, err := format.Source(data)
	f.formatted = err == nil && bytes.Equal(canonical, data)
	return f, nil
}

// Name is the path that the file was opened with.
func (f *File) Name() string { return f.name }

func (f *File) load(data []byte) error {
	tree, err := schema.Syntax(schema.File{Path: f.name, Data: data})
	if err != nil {
		return err
	}
	f.data, f.tree = data, tree
	return nil
}

// Bytes is the text of the file.
func (f *File) Bytes() []byte {
	if f.formatted {
		if canonical, err := format.Source(f.data); err == nil {
			return canonical
		}
	}
	return bytes.Clone(f.data)
}

// Has reports whether the file writes the field.
func (f *File) Has(labels ...string) bool { return len(f.sites(labels)) > 0 }

// Empty reports whether the file says nothing: it has at most a package clause, imports and comments.
func (f *File) Empty() bool {
	for _, d := range f.tree.Decls {
		switch d.(type) {
		case *ast.Package, *ast.ImportDecl, *ast.CommentGroup:
		default:
			return false
		}
	}
	return true
}

// Put makes the field at labels equal to a value. A field that is there is changed in place: of structs and lists only the parts that
// differ, so that comments stay beside what they are about. One that is not there is added to the innermost struct that the file
// writes on the way to it.
func (f *File) Put(v Value, labels ...string) error {
	return f.atomically(func() error {
		for range maxSteps {
			changed, err := f.putStep(v, labels)
			if err != nil || !changed {
				return err
			}
		}
		return &Error{schema.FieldPath(labels...), saySteps(f.name, schema.FieldPath(labels...))}
	})
}

// Delete removes the field, with the comments that belong to it, from every place where the file writes it.
func (f *File) Delete(labels ...string) error {
	if !f.Has(labels...) {
		return &Error{schema.FieldPath(labels...), sayAbsent(f.name, schema.FieldPath(labels...))}
	}
	return f.atomically(func() error {
		for {
			sites := f.sites(labels)
			if len(sites) == 0 {
				return nil
			}
			if err := f.remove(sites[0]); err != nil {
				return err
			}
		}
	})
}

func (f *File) atomically(work func() error) error {
	data, tree := f.data, f.tree
	err := work()
	if err != nil {
		f.data, f.tree = data, tree
	}
	return err
}

// site is one place where the file writes a field or an element of a list.
type site struct {
	node   ast.Node       // the field, or the element itself
	value  ast.Expr       // what it is set to
	within *site          // the enclosing field; nil at the top of the file
	holder *ast.StructLit // the struct that the field stands in; nil at the top of the file and in a list
	list   *ast.ListLit   // the list that the element stands in
}

// sites finds every place where the file writes the field at labels. Labels that are numbers lead into lists.
func (f *File) sites(labels []string) []site {
	if len(labels) == 0 {
		return nil
	}
	found := fieldsNamed(f.tree.Decls, labels[0], nil, nil)
	for _, label := range labels[1:] {
		var next []site
		for i := range found {
			within := &found[i]
			for _, e := range parts(within.value) {
				switch x := e.(type) {
				case *ast.StructLit:
					next = append(next, fieldsNamed(x.Elts, label, within, x)...)
				case *ast.ListLit:
					if n, err := strconv.Atoi(label); err == nil && n >= 0 && n < len(x.Elts) {
						next = append(next, site{node: x.Elts[n], value: x.Elts[n], within: within, list: x})
					}
				}
			}
		}
		found = next
	}
	return found
}

func fieldsNamed(decls []ast.Decl, label string, within *site, holder *ast.StructLit) []site {
	var out []site
	for _, d := range decls {
		f, ok := d.(*ast.Field)
		if !ok || !plain(f) {
			continue
		}
		if name, _, err := ast.LabelName(f.Label); err == nil && name == label {
			out = append(out, site{node: f, value: f.Value, within: within, holder: holder})
		}
	}
	return out
}

// parts are the literals that a value is unified of: of _template & {…} the struct in braces.
func parts(e ast.Expr) []ast.Expr {
	switch x := e.(type) {
	case *ast.StructLit, *ast.ListLit:
		return []ast.Expr{x}
	case *ast.ParenExpr:
		return parts(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.AND {
			return append(parts(x.X), parts(x.Y)...)
		}
	}
	return nil
}

// putStep changes at most one place on the way to the value; false means that the file says the value.
func (f *File) putStep(v Value, labels []string) (bool, error) {
	sites := f.sites(labels)
	if len(sites) == 0 {
		return true, f.insert(labels, v)
	}
	if members := v.Members(); members != nil && allStructs(sites) {
		return f.structStep(members, labels, sites)
	}
	if len(sites) > 1 {
		return false, f.several(labels, sites)
	}
	old, err := reader{name: f.name}.expr(sites[0].value)
	if err == nil && old.Equal(v) {
		return false, nil
	}
	if items, ok := v.Data.([]Value); ok {
		if l, ok := sites[0].value.(*ast.ListLit); ok && closedList(l) {
			return f.listStep(items, labels, l)
		}
	}
	if err != nil {
		return false, f.computed(labels, sites[0].value)
	}
	return true, f.replace(sites[0].value, v.CUE(f.indentAt(offset(sites[0].value))))
}

// structStep brings the fields of a struct that is written in one or more places to those of a value.
func (f *File) structStep(members []Member, labels []string, sites []site) (bool, error) {
	for _, m := range members {
		changed, err := f.putStep(m.Value, append(labels[:len(labels):len(labels)], m.Name))
		if changed || err != nil {
			return changed, err
		}
	}
	for _, s := range sites {
		for _, e := range parts(s.value) {
			st, ok := e.(*ast.StructLit)
			if !ok {
				continue
			}
			for _, d := range st.Elts {
				field, ok := d.(*ast.Field)
				if !ok || !plain(field) {
					continue
				}
				name, _, _ := ast.LabelName(field.Label)
				if _, kept := (Value{Data: members}).Field(name); !kept {
					return true, f.remove(site{node: field, value: field.Value, within: &s, holder: st})
				}
			}
		}
	}
	return false, nil
}

// listStep brings a list to the items of a value, from the first to the last.
func (f *File) listStep(items []Value, labels []string, l *ast.ListLit) (bool, error) {
	for i, item := range items {
		if i == len(l.Elts) {
			return true, f.appendTo(l, item)
		}
		changed, err := f.putStep(item, append(labels[:len(labels):len(labels)], strconv.Itoa(i)))
		if changed || err != nil {
			return changed, err
		}
	}
	if len(l.Elts) > len(items) {
		last := l.Elts[len(l.Elts)-1]
		return true, f.remove(site{node: last, value: last, list: l})
	}
	return false, nil
}

func allStructs(sites []site) bool {
	for _, s := range sites {
		found := false
		for _, e := range parts(s.value) {
			_, ok := e.(*ast.StructLit)
			found = found || ok
		}
		if !found {
			return false
		}
	}
	return true
}

// closedList reports whether every element of a list has an index that the text alone tells.
func closedList(l *ast.ListLit) bool {
	for _, elt := range l.Elts {
		switch elt.(type) {
		case *ast.Ellipsis, *ast.Comprehension:
			return false
		}
	}
	return true
}

func (f *File) where(n ast.Node) string { return fmt.Sprintf("%s:%d", f.name, n.Pos().Line()) }

func (f *File) computed(labels []string, n ast.Node) error {
	p := schema.FieldPath(labels...)
	return &Error{p, sayComputed(f.where(n), p)}
}

func (f *File) several(labels []string, sites []site) error {
	where := make([]string, len(sites))
	for i, s := range sites {
		where[i] = f.where(s.node)
	}
	p := schema.FieldPath(labels...)
	return &Error{p, saySeveral(p, where)}
}

func join(words []string) string { return strings.Join(words, ", ") }
