package literal

import (
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// scope is what names mean inside a struct of the schema, for the few expressions that are understood there.
type scope struct {
	fields    map[string]field // of the struct
	data      map[string]any   // what the data says of them
	variables map[string]any
}

// value evaluates an expression. exists is false for a field that is not given; known is false when only the evaluator can tell.
func (s scope) value(e ast.Expr) (v any, exists, known bool) {
	switch x := e.(type) {
	case *ast.BasicLit:
		v, known = decodeLit(x)
		return v, known, known
	case *ast.Ident:
		if v, ok := s.variables[x.Name]; ok {
			return v, true, true
		}
		if _, ok := s.fields[x.Name]; !ok {
			return nil, false, false
		}
		v, exists = s.data[x.Name]
		return v, exists, true
	case *ast.SelectorExpr:
		of, exists, known := s.value(x.X)
		fields, is := of.(map[string]any)
		label, _, err := ast.LabelName(x.Sel)
		if !exists || !known || !is || err != nil {
			return nil, false, false
		}
		v, exists = fields[label]
		return v, exists, true
	}
	return nil, false, false
}

// condition evaluates x != _|_, x == _|_, and comparisons of two strings.
func (s scope) condition(e ast.Expr) (holds, known bool) {
	x, ok := e.(*ast.BinaryExpr)
	if !ok || x.Op != token.EQL && x.Op != token.NEQ {
		return false, false
	}
	left, exists, known := s.value(x.X)
	if !known {
		return false, false
	}
	if _, bottom := x.Y.(*ast.BottomLit); bottom {
		return exists == (x.Op == token.NEQ), true
	}
	right, there, known := s.value(x.Y)
	a, ok1 := left.(string)
	b, ok2 := right.(string)
	if !known || !exists || !there || !ok1 || !ok2 {
		return false, false
	}
	return (a == b) == (x.Op == token.EQL), true
}

// collect gathers the names of fields `(x): "text"`, also of those that comprehensions make. It is false when two are equal, and when
// only the evaluator can tell.
func (s scope) collect(keys *ast.StructLit, seen map[string]bool) bool {
	for _, d := range keys.Elts {
		switch x := d.(type) {
		case *ast.Field:
			dynamic, ok := x.Label.(*ast.ParenExpr)
			if !ok || x.Alias != nil || x.Constraint != token.ILLEGAL || len(x.Attrs) > 0 || !s.text(x.Value) {
				return false
			}
			v, exists, known := s.value(dynamic.X)
			name, is := v.(string)
			if !exists || !known || !is || !plain(name) || seen[name] {
				return false
			}
			seen[name] = true
		case *ast.Comprehension:
			body, ok := x.Value.(*ast.StructLit)
			if !ok || x.Fallback != nil || !s.each(x.Clauses, func(in scope) bool { return in.collect(body, seen) }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// each runs the body of a comprehension for everything that its clauses yield.
func (s scope) each(clauses []ast.Clause, body func(scope) bool) bool {
	if len(clauses) == 0 {
		return body(s)
	}
	switch x := clauses[0].(type) {
	case *ast.IfClause:
		holds, known := s.condition(x.Condition)
		return known && (!holds || s.each(clauses[1:], body))
	case *ast.ForClause:
		v, exists, known := s.value(x.Source)
		elements, is := v.([]any)
		if !exists || !known || !is || x.Value == nil {
			return false
		}
		for i, e := range elements {
			in := s
			in.variables = map[string]any{x.Value.Name: e}
			for name, outer := range s.variables {
				if _, shadowed := in.variables[name]; !shadowed {
					in.variables[name] = outer
				}
			}
			if x.Key != nil {
				in.variables[x.Key.Name] = int64(i)
			}
			if !in.each(clauses[1:], body) {
				return false
			}
		}
		return true
	}
	return false
}

// text reports whether an expression is a string, whichever.
func (s scope) text(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING
	case *ast.Interpolation:
		for i, part := range x.Elts {
			if i%2 == 0 {
				continue // what stands between the expressions
			}
			v, exists, known := s.value(part)
			if !exists || !known || !printableInText(v) {
				return false
			}
		}
		return true
	}
	return false
}

func printableInText(v any) bool {
	switch v.(type) {
	case string, int64:
		return true
	}
	return false
}
