package schema

import (
	"math/big"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
	"stado.internal/stado/fleet"
)

// repeated finds the fields that one struct literal, or one file, gives twice as data. CUE takes two equal values for one; here they are
// what a merge leaves behind that kept both sides, and the next change of one of them is a conflict. Structs may be given in parts, but not
// the same part twice. Values that are plainly different are left to the evaluator, which names the conflict.
func (g *syntaxGate) repeated(elts []ast.Decl) {
	var few [8]given
	all := few[:0]
	var index map[string]int // of more than a few
	for _, d := range elts {
		f, ok := d.(*ast.Field)
		if !ok || f.Constraint != token.ILLEGAL {
			continue
		}
		label, ok := regularLabel(f.Label)
		if !ok {
			continue
		}
		i, found := find(all, index, label)
		if !found {
			if all = append(all, given{label: label, first: f}); len(all) > len(few) {
				index = indexed(all, index)
			}
			continue
		}
		g.again(&all[i], f)
	}
	for _, x := range all {
		if len(x.parts) > 1 {
			var inner []ast.Decl
			for _, p := range x.parts {
				inner = append(inner, p.Elts...)
			}
			g.repeated(inner)
		}
	}
}

// given is what a struct literal gives under one label.
type given struct {
	label string
	first *ast.Field
	parts []*ast.StructLit // when it is given more than once: those that are structs
}

// again takes a further field of the same label.
func (g *syntaxGate) again(x *given, f *ast.Field) {
	st, isStruct := f.Value.(*ast.StructLit)
	if first, ok := x.first.Value.(*ast.StructLit); ok && isStruct {
		if x.parts == nil {
			x.parts = append(x.parts, first)
		}
		x.parts = append(x.parts, st)
		return
	}
	if isStruct || !isData(x.first.Value) || !isData(f.Value) || different(x.first.Value, f.Value) {
		return
	}
	at, before := position(f.Label.Pos()), position(x.first.Label.Pos())
	where := fleet.Finding{File: g.name, Line: before.Line, Column: before.Column}.Position()
	g.refuse(RuleRepeated, Position{g.name, at.Line, at.Column}, sayRepeated(x.label, where), hintRepeated)
}

func find(all []given, index map[string]int, label string) (int, bool) {
	if index != nil {
		i, ok := index[label]
		return i, ok
	}
	for i := range all {
		if all[i].label == label {
			return i, true
		}
	}
	return 0, false
}

func indexed(all []given, index map[string]int) map[string]int {
	if index == nil {
		index = make(map[string]int, 4*len(all))
		for i := range all {
			index[all[i].label] = i
		}
	}
	index[all[len(all)-1].label] = len(all) - 1
	return index
}

// regularLabel is the name of a field that is part of the document.
func regularLabel(l ast.Label) (string, bool) {
	switch l.(type) {
	case *ast.Ident, *ast.BasicLit:
	default:
		return "", false
	}
	name, isIdent, err := ast.LabelName(l)
	return name, err == nil && !hiddenLabel(name, isIdent)
}

// isData reports whether a value is a scalar, or a list of data.
func isData(e ast.Expr) bool {
	_, isStruct := e.(*ast.StructLit)
	return !isStruct && literalValue(e)
}

// different reports whether two values of data are plainly not the same.
func different(a, b ast.Expr) bool {
	x, ok1 := a.(*ast.ListLit)
	y, ok2 := b.(*ast.ListLit)
	if ok1 != ok2 {
		return true
	}
	if ok1 {
		if len(x.Elts) != len(y.Elts) {
			return true
		}
		for i := range x.Elts {
			if different(x.Elts[i], y.Elts[i]) {
				return true
			}
		}
		return false
	}
	p, ok1 := a.(*ast.BasicLit)
	q, ok2 := b.(*ast.BasicLit)
	if !ok1 || !ok2 {
		return false // with a sign, or structs of a list
	}
	if p.Kind != q.Kind {
		return true
	}
	switch p.Kind {
	case token.STRING:
		s, err1 := literal.Unquote(p.Value)
		t, err2 := literal.Unquote(q.Value)
		return err1 == nil && err2 == nil && s != t
	case token.INT:
		m, ok1 := new(big.Int).SetString(p.Value, 0)
		n, ok2 := new(big.Int).SetString(q.Value, 0)
		return ok1 && ok2 && m.Cmp(n) != 0
	}
	return false
}
