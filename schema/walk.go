package schema

import (
	"strconv"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
	"stado.internal/stado/fleet"
)

// walker goes over what a file declares literally below registry: it records positions, and refuses unknown and retired fields by name.
// It looks at no expression but &, and at no condition: those are the evaluator's. Of what is inside a leaf's host or service it records
// nothing: [places] does, when somebody asks.
type walker struct {
	findings *collector // nil: nobody wants them
	index    index
	file     string
	shape    *shape
	entry    string // the host or the service inside which no position is recorded; "" for none
	shallow  bool   // the entry is not looked into: the schema's text has admitted it
	inside   bool
}

func (w walker) walk(file *ast.File) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.Field)
		if !ok {
			continue
		}
		label, isIdent, err := ast.LabelName(f.Label)
		if err != nil || hiddenLabel(label, isIdent) || f.Constraint != token.ILLEGAL {
			continue
		}
		if label != rootLabel {
			at := w.position(f.Label)
			warning := hinted(refusal(RuleOutside, at, label, sayOutside(label)), hintOutside)
			warning.Severity = fleet.SeverityWarning
			w.refuse(warning)
			continue
		}
		w.value("", f.Value, w.shape)
	}
}

func (w walker) refuse(f fleet.Finding) {
	if w.findings != nil {
		w.findings.add(f)
	}
}

func (w walker) position(n ast.Node) Position {
	p := position(n.Pos())
	p.File = w.file
	return p
}

func (w walker) value(fieldPath string, e ast.Expr, s *shape) {
	switch x := e.(type) {
	case *ast.StructLit:
		for _, d := range x.Elts {
			switch y := d.(type) {
			case *ast.Field:
				w.field(fieldPath, y, s)
			case *ast.EmbedDecl:
				w.value(fieldPath, y.Expr, s)
			}
		}
	case *ast.ListLit:
		for i, elt := range x.Elts {
			if _, open := elt.(*ast.Ellipsis); open {
				return
			}
			if _, generated := elt.(*ast.Comprehension); generated {
				return // what follows has no index that can be known here
			}
			p := join(fieldPath, strconv.Itoa(i))
			w.record(p, elt)
			var element *shape
			if s != nil {
				element = s.element
			}
			w.value(p, elt, element)
		}
	case *ast.BinaryExpr:
		if x.Op == token.AND {
			w.value(fieldPath, x.X, s)
			w.value(fieldPath, x.Y, s)
		}
	case *ast.ParenExpr:
		w.value(fieldPath, x.X, s)
	case *ast.Alias:
		w.value(fieldPath, x.Expr, s)
	}
}

func (w walker) field(parent string, f *ast.Field, s *shape) {
	label, isIdent, err := ast.LabelName(f.Label)
	if err != nil || hiddenLabel(label, isIdent) || f.Constraint != token.ILLEGAL {
		return
	}
	p := join(parent, label)
	child := s.child(label)
	switch {
	case child != nil && child.retired != "":
		w.refuse(refusal(RuleRetired, w.position(f.Label), p, child.retired))
		return
	case child == nil && s.closed():
		w.refuse(unknownField(w.position(f.Label), p, label, s))
		return
	}
	if scalar(f.Value) {
		w.record(p, f.Value)
	} else {
		w.record(p, f.Label)
	}
	if w.entry != "" && p == w.entry {
		if w.shallow {
			return
		}
		w.inside = true
	}
	w.value(p, f.Value, child)
}

func (w walker) record(fieldPath string, n ast.Node) {
	if !w.inside {
		w.index.add(fieldPath, w.position(n))
	}
}

func scalar(e ast.Expr) bool {
	switch e.(type) {
	case *ast.StructLit, *ast.ListLit, *ast.BinaryExpr, *ast.ParenExpr, *ast.Alias:
		return false
	}
	return true
}

func unknownField(at Position, fieldPath, label string, s *shape) fleet.Finding {
	var known []string
	if s != nil {
		known = s.known()
	}
	return hinted(refusal(RuleUnknown, at, fieldPath, sayUnknown(label)), hintUnknown(nearest(label, known), known))
}

// nearest is the known word that a misspelt one most likely means, "" when none is close.
func nearest(word string, known []string) string {
	best, found := 1+len(word)/3, ""
	for _, k := range known {
		if d := distance(word, k); d < best || d == best && found == "" {
			best, found = d, k
		}
	}
	return found
}

// distance is the number of single-character edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
