package schema

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// shape is what the schema says about one field, read from the schema's own text: which fields it may hold, what it means, and whether
// it is retired. The evaluator judges values; the shape names fields, also those that the evaluator leaves out of its report because
// another value of the same struct is wrong.
type shape struct {
	fields  map[string]*shape // nil unless a struct with declared fields
	pattern *shape            // of every entry of a map
	badName string            // of a map: the sentence about a name that no entry may have
	element *shape            // of every entry of a list
	doc     string            // the schema's comment on the field
	retired string            // the sentence, when the field is retired
}

// closed reports whether the shape names all fields there may be.
func (s *shape) closed() bool { return s != nil && s.fields != nil && s.pattern == nil }

// child is the shape of a field, nil when the schema says nothing about it.
func (s *shape) child(label string) *shape {
	if s == nil {
		return nil
	}
	if f, ok := s.fields[label]; ok {
		return f
	}
	return s.pattern
}

// known lists the fields that may be written, in lexical order.
func (s *shape) known() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.fields)), func(name string) bool { return s.fields[name].retired != "" })
}

// at walks field labels and list indexes from s.
func (s *shape) at(labels []string) *shape {
	for _, label := range labels {
		if s == nil {
			return nil
		}
		if s.element != nil {
			s = s.element
			continue
		}
		s = s.child(label)
	}
	return s
}

// schemaText parses the embedded schema.
func schemaText() []*ast.File {
	var files []*ast.File
	for _, f := range Files() {
		file, err := parser.ParseFile(schemaFile(f.Path), f.Data, parser.ParseComments)
		if err != nil {
			panic(err) // every test would fail
		}
		files = append(files, file)
	}
	return files
}

// schemaShape reads the shape of #Registry from the text of the schema.
func schemaShape(text []*ast.File) *shape {
	definitions := map[string]ast.Expr{}
	for _, file := range text {
		for _, d := range file.Decls {
			if field, ok := d.(*ast.Field); ok {
				if name, _, err := ast.LabelName(field.Label); err == nil {
					definitions[name] = field.Value
				}
			}
		}
	}
	return shapeOf(&ast.Ident{Name: "#Registry"}, definitions)
}

func shapeOf(e ast.Expr, definitions map[string]ast.Expr) *shape {
	switch x := e.(type) {
	case *ast.Ident:
		if d, ok := definitions[x.Name]; ok {
			return shapeOf(d, definitions)
		}
	case *ast.BinaryExpr:
		if sentence, ok := retiredSentence(x); ok {
			return &shape{retired: sentence}
		}
		return shapeOf(x.X, definitions)
	case *ast.ListLit:
		for _, elt := range x.Elts {
			if rest, ok := elt.(*ast.Ellipsis); ok && rest.Type != nil {
				return &shape{element: shapeOf(rest.Type, definitions)}
			}
		}
	case *ast.StructLit:
		return structShape(x, definitions)
	}
	return &shape{}
}

func structShape(x *ast.StructLit, definitions map[string]ast.Expr) *shape {
	out := &shape{fields: map[string]*shape{}}
	for _, d := range x.Elts {
		field, ok := d.(*ast.Field)
		if !ok {
			continue
		}
		if _, isPattern := field.Label.(*ast.ListLit); isPattern {
			if sentence, ok := errorSentence(field.Value); ok {
				out.badName = sentence
			} else {
				out.pattern = shapeOf(field.Value, definitions)
			}
			continue
		}
		name, isIdent, err := ast.LabelName(field.Label)
		if err != nil || hiddenLabel(name, isIdent) {
			continue
		}
		child := shapeOf(field.Value, definitions)
		child.doc = docOf(field)
		out.fields[name] = child
	}
	return out
}

// retiredSentence recognises (null & int) | error("…"), the form that refuses every value with a sentence.
func retiredSentence(x *ast.BinaryExpr) (string, bool) {
	never, ok := x.X.(*ast.ParenExpr)
	if !ok || x.Op != token.OR {
		return "", false
	}
	and, ok := never.X.(*ast.BinaryExpr)
	if !ok || and.Op != token.AND {
		return "", false
	}
	if null, ok := and.X.(*ast.BasicLit); !ok || null.Kind != token.NULL {
		return "", false
	}
	return errorSentence(x.Y)
}

// errorSentence recognises error("…").
func errorSentence(e ast.Expr) (string, bool) {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", false
	}
	id, ok := call.Fun.(*ast.Ident)
	lit, literally := call.Args[0].(*ast.BasicLit)
	if !ok || id.Name != "error" || !literally {
		return "", false
	}
	sentence, err := literal.Unquote(lit.Value)
	return sentence, err == nil
}

func docOf(f *ast.Field) string {
	for _, group := range ast.Comments(f) {
		if group.Doc {
			return strings.TrimSuffix(strings.Join(strings.Fields(group.Text()), " "), ".")
		}
	}
	return ""
}

// Retired lists the fields that the schema refuses as retired: field path with * for any name or index, and the sentence.
func Retired() map[string]string {
	out := map[string]string{}
	schemaShape(schemaText()).retiredInto("", out)
	return out
}

func (s *shape) retiredInto(fieldPath string, out map[string]string) {
	if s == nil {
		return
	}
	if s.retired != "" {
		out[fieldPath] = s.retired
	}
	for name, child := range s.fields {
		child.retiredInto(join(fieldPath, name), out)
	}
	s.pattern.retiredInto(join(fieldPath, "*"), out)
	s.element.retiredInto(join(fieldPath, "*"), out)
}
