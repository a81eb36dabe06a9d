package schema

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// definition is one named part of the schema, as its text gives it: a block (a struct with declared fields), a map (a struct with a
// pattern), or a word (any other value).
type definition struct {
	name, doc string
	value     ast.Expr
	fields    []docField
	entry     ast.Expr // of a map: what its entries are
	key       ast.Expr // of a map: what their names are
	keyNoun   string   // of a map: what a name is the name of
	refusals  []string // the sentences of a block's conditions
}

func (d definition) block() bool { return len(d.fields) > 0 }
func (d definition) isMap() bool { return d.entry != nil }

// docField is one field of a block.
type docField struct {
	name, doc string
	required  bool
	optional  bool
	value     ast.Expr
}

var keyNoun = regexp.MustCompile(`^an? (\w+)`)

// definitionsOf reads the embedded schema's text.
func definitionsOf(t *testing.T) map[string]*definition {
	t.Helper()
	out := map[string]*definition{}
	for _, f := range Files() {
		file, err := parser.ParseFile(f.Path, f.Data, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			field, ok := d.(*ast.Field)
			if !ok {
				continue
			}
			name, _, err := ast.LabelName(field.Label)
			if err != nil {
				t.Fatal(err)
			}
			def := &definition{name: name, doc: docOf(field), value: field.Value}
			if s, ok := field.Value.(*ast.StructLit); ok {
				def.read(s)
			}
			out[name] = def
		}
	}
	return out
}

func (d *definition) read(s *ast.StructLit) {
	for _, elt := range s.Elts {
		switch x := elt.(type) {
		case *ast.Comprehension:
			ast.Walk(x, func(n ast.Node) bool {
				if e, ok := n.(ast.Expr); ok {
					if sentence, ok := errorSentence(e); ok {
						d.refusals = append(d.refusals, sentence)
					}
				}
				return true
			}, nil)
		case *ast.Field:
			d.readField(x)
		}
	}
}

func (d *definition) readField(x *ast.Field) {
	if pattern, ok := x.Label.(*ast.ListLit); ok {
		if sentence, refused := errorSentence(x.Value); refused {
			d.keyNoun = keyNoun.FindStringSubmatch(sentence)[1]
		} else {
			d.entry, d.key = x.Value, pattern.Elts[0]
		}
		return
	}
	name, isIdent, err := ast.LabelName(x.Label)
	if err != nil || hiddenLabel(name, isIdent) {
		return
	}
	if sum, ok := x.Value.(*ast.BinaryExpr); ok {
		if _, retired := retiredSentence(sum); retired {
			return
		}
	}
	d.fields = append(d.fields, docField{
		name: name, doc: strings.TrimPrefix(docOf(x), name+" "), value: x.Value,
		required: x.Constraint == token.NOT, optional: x.Constraint == token.OPTION,
	})
}

// alternatives takes a disjunction apart: its default ("" for none), and the other alternatives without the sentence that refuses.
func alternatives(e ast.Expr) (def ast.Expr, others []ast.Expr) {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return alternatives(x.X)
	case *ast.BinaryExpr:
		if x.Op != token.OR {
			break
		}
		d1, left := alternatives(x.X)
		d2, right := alternatives(x.Y)
		if d1 == nil {
			d1 = d2
		}
		return d1, slices.Concat(left, right)
	case *ast.UnaryExpr:
		if x.Op == token.MUL {
			return x.X, []ast.Expr{x.X}
		}
	case *ast.CallExpr:
		if id, ok := x.Fun.(*ast.Ident); ok && id.Name == "error" {
			return nil, nil
		}
	}
	return nil, []ast.Expr{e}
}

// literalsOf lists the literals of an enumeration, following names; false when anything else is an alternative.
func literalsOf(e ast.Expr, defs map[string]*definition) ([]string, bool) {
	_, others := alternatives(e)
	var out []string
	for _, o := range others {
		switch x := o.(type) {
		case *ast.BasicLit:
			out = append(out, x.Value)
			continue
		case *ast.Ident:
			if d := defs[x.Name]; d != nil {
				if inner, ok := literalsOf(d.value, defs); ok {
					out = append(out, inner...)
					continue
				}
			}
		}
		return nil, false
	}
	var once []string // in the order of the text; a default stands beside the enumeration that it is of
	for _, word := range out {
		if !slices.Contains(once, word) {
			once = append(once, word)
		}
	}
	return once, len(once) > 0
}

// patternOf is the regular expression of a word, "" when it has none.
func patternOf(e ast.Expr, defs map[string]*definition) string {
	_, others := alternatives(e)
	if len(others) != 1 {
		return ""
	}
	u, ok := others[0].(*ast.UnaryExpr)
	if !ok || u.Op != token.MAT {
		return ""
	}
	value := u.X
	if id, ok := value.(*ast.Ident); ok {
		value = defs[id.Name].value
	}
	lit, ok := value.(*ast.BasicLit)
	if !ok {
		return ""
	}
	s, err := literal.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}
