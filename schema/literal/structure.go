package literal

import (
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// structure compiles a struct. One declaration in it that is not understood makes the whole struct unknown: it might speak of any field.
func (c *compiler) structure(x *ast.StructLit, outer *labels) node {
	in := &labels{fields: map[string]bool{}, outer: outer}
	for _, d := range x.Elts {
		if f, ok := d.(*ast.Field); ok {
			if name, _, err := ast.LabelName(f.Label); err == nil {
				in.fields[name] = true
			}
		}
	}
	out := &structure{fields: map[string]field{}}
	for _, d := range x.Elts {
		ok := false
		switch y := d.(type) {
		case *ast.Field:
			ok = c.field(out, y, in)
		case *ast.Comprehension:
			ok = out.condition(y)
		case *ast.EmbedDecl:
			ok = c.embedded(out, y, in)
		}
		if !ok {
			return unknown{}
		}
	}
	return out
}

func (c *compiler) field(out *structure, f *ast.Field, in *labels) bool {
	if f.Alias != nil || len(f.Attrs) > 0 {
		return false
	}
	if list, ok := f.Label.(*ast.ListLit); ok {
		if len(list.Elts) != 1 || f.Constraint != token.ILLEGAL {
			return false
		}
		label, ok := c.compile(list.Elts[0], in).(match)
		value := node(unknown{})
		if !c.refuses(f.Value, in) {
			value = c.compile(f.Value, in)
		}
		out.patterns = append(out.patterns, pattern{label: label, value: value})
		return ok
	}
	switch f.Label.(type) {
	case *ast.Ident, *ast.BasicLit:
	default:
		return false
	}
	name, isIdent, err := ast.LabelName(f.Label)
	if err != nil {
		return false
	}
	if isIdent && strings.HasPrefix(name, "_") {
		keys, ok := f.Value.(*ast.StructLit)
		if !ok || f.Constraint != token.ILLEGAL {
			return false
		}
		out.distinct = append(out.distinct, distinct{keys})
		return true
	}
	if isIdent && strings.HasPrefix(name, "#") {
		return false
	}
	if _, twice := out.fields[name]; twice {
		return false
	}
	is := regular
	switch f.Constraint {
	case token.NOT:
		is = required
	case token.OPTION:
		is = optional
	}
	out.fields[name] = field{presence: is, value: c.compile(f.Value, in)}
	return true
}

// embedded knows struct.MinFields(n) only.
func (c *compiler) embedded(out *structure, d *ast.EmbedDecl, in *labels) bool {
	call, ok := d.Expr.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	name, _, err := ast.LabelName(selector.Sel)
	n, isLit := call.Args[0].(*ast.BasicLit)
	if !ok || err != nil || !isLit || pkg.Name != "struct" || c.imported["struct"] == "" || in.declare("struct") || name != "MinFields" {
		return false
	}
	least, err := strconv.Atoi(n.Value)
	out.least = max(out.least, least)
	return err == nil
}

// condition is a comprehension `if … {…}`. What it brings in is not looked at: data for which it holds is left to the evaluator.
type condition []ast.Expr

func (n *structure) condition(x *ast.Comprehension) bool {
	if x.Fallback != nil {
		return false
	}
	var out condition
	for _, clause := range x.Clauses {
		guard, ok := clause.(*ast.IfClause)
		if !ok {
			return false
		}
		out = append(out, guard.Condition)
	}
	n.conditions = append(n.conditions, out)
	return true
}

func (c condition) holds(in scope) (holds, known bool) {
	for _, guard := range c {
		if holds, known := in.condition(guard); !holds || !known {
			return false, known
		}
	}
	return true, true
}

// distinct is a hidden struct whose fields are named by values: it is there to refuse two equal names.
type distinct struct{ keys *ast.StructLit }

func (d distinct) holds(in scope) bool { return in.collect(d.keys, map[string]bool{}) }
