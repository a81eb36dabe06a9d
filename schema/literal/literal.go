// Package literal judges pure data by the text of a closed CUE schema, without the evaluator.
//
// It may only accept: data that it accepts, the evaluator accepts with the same result. Of whatever it does not wholly understand, in the
// data or in the schema, it says nothing, and the evaluator has to be asked. So a schema that learns new words costs time, never truth.
package literal

import "cuelang.org/go/cue/ast"

// Schema is the compiled text of one package. It is immutable and safe for concurrent use.
type Schema struct {
	root node
}

// New compiles the definitions of a package and takes one of them, such as #Registry, as the root of documents. The trees are not
// changed.
func New(files []*ast.File, root string) *Schema {
	c := newCompiler(files)
	return &Schema{root: c.definition(root)}
}

// Accept judges the value of the field at a path of labels below the root: an entry of a map, or a field of a struct, on its own. When
// ok, raw is the value's JSON with the schema's defaults, keys sorted and without space; otherwise the evaluator has to be asked.
func (s *Schema) Accept(path []string, value ast.Expr) (raw []byte, ok bool) {
	data, ok := decode(value)
	if !ok {
		return nil, false
	}
	at := s.root
	for _, label := range path {
		if at, ok = step(at, label); !ok {
			return nil, false
		}
	}
	out, ok := at.accept(data, nil)
	if !ok {
		return nil, false
	}
	return appendJSON(nil, out), true
}

// Apart reports whether the schema judges every field of the map at a path by itself: no struct on the way has a condition.
func (s *Schema) Apart(path []string) bool {
	at, ok := s.root, true
	for _, label := range path {
		if at, ok = step(at, label); !ok {
			return false
		}
	}
	m, ok := at.(*structure)
	return ok && len(m.conditions) == 0 && len(m.distinct) == 0
}

// step is what the schema says of one field, when that depends on no other field.
func step(at node, label string) (node, bool) {
	s, ok := at.(*structure)
	if !ok || len(s.conditions) > 0 || len(s.distinct) > 0 {
		return nil, false
	}
	var found []node
	if f, declared := s.fields[label]; declared {
		found = append(found, f.value)
	}
	for _, p := range s.patterns {
		if p.label.matches(label) {
			found = append(found, p.value)
		}
	}
	if len(found) != 1 {
		return nil, false
	}
	return found[0], true
}
