package schema

import (
	"slices"
	"strconv"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// references calls found for every identifier in expression position, with the literal selectors and indexes that follow it
// (a.b["c"]), and the whole expression they form. Labels are not references; dynamic ones hold expressions.
func references(root ast.Node, found func(base *ast.Ident, selectors []string, whole ast.Node)) {
	var enter func(ast.Node) bool
	walk := func(n ast.Node) { ast.Walk(n, enter, nil) }
	enter = func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			switch label := x.Label.(type) {
			case *ast.Ident, *ast.BasicLit:
			case *ast.Alias:
				if _, plain := label.Expr.(*ast.Ident); !plain {
					walk(label.Expr)
				}
			default:
				walk(label)
			}
			if x.Value != nil {
				walk(x.Value)
			}
			return false
		case *ast.Alias:
			walk(x.Expr)
			return false
		case *ast.LetClause:
			walk(x.Expr)
			return false
		case *ast.ForClause:
			walk(x.Source)
			return false
		case *ast.ImportDecl, *ast.Package:
			return false
		case *ast.Ident:
			found(x, nil, x)
			return false
		case *ast.SelectorExpr, *ast.IndexExpr:
			base, selectors, rest := flatten(x.(ast.Expr))
			for _, e := range rest {
				walk(e)
			}
			if id, ok := base.(*ast.Ident); ok {
				found(id, selectors, x)
			} else {
				walk(base)
			}
			return false
		}
		return true
	}
	walk(root)
}

// flatten takes a.b["c"][i].d apart: its base a, the literal selectors that follow it up to the first dynamic one (b, c), and the
// dynamic index expressions (i).
func flatten(e ast.Expr) (base ast.Expr, selectors []string, dynamic []ast.Expr) {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			name, _, err := ast.LabelName(x.Sel)
			if err != nil {
				return e, nil, dynamic
			}
			selectors = append(selectors, name)
			e = x.X
			continue
		case *ast.IndexExpr:
			lit, ok := x.Index.(*ast.BasicLit)
			name, _, err := "", false, error(nil)
			if ok && lit.Kind == token.STRING {
				name, _, err = ast.LabelName(lit)
			}
			if ok && err == nil {
				selectors = append(selectors, name)
			} else {
				selectors = nil
				dynamic = append(dynamic, x.Index)
			}
			e = x.X
			continue
		}
		slices.Reverse(selectors)
		return e, selectors, dynamic
	}
}

// readsEntries reports whether a shared file could see, or constrain, all hosts or all services together. Then no leaf can be
// evaluated without the others, and the whole registry is one evaluation: slower, and the same result. When in doubt the answer is yes.
func readsEntries(file *ast.File) bool {
	reads := false
	references(file, func(base *ast.Ident, selectors []string, _ ast.Node) {
		switch base.Name {
		case rootLabel:
			reads = reads || !sharedPath(append([]string{rootLabel}, selectors...))
		case hostsLabel, servicesLabel, directoryLabel:
			reads = true
		}
	})
	if reads {
		return true
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.Field); ok && !plainContainer(f, []string{rootLabel}, true) {
			return true
		}
	}
	return false
}

// containers are the structs that hold entries of many leaves, by the label that leads to them.
var containers = map[string][]string{
	rootLabel:      {hostsLabel, directoryLabel},
	directoryLabel: {servicesLabel},
}

// plainContainer reports whether a field that may be a container is one in the plainest way: without an alias, and with a struct of
// fields (or the schema itself) as its value. An embedding or a validator such as struct.MaxFields(9) would judge all entries at once.
func plainContainer(f *ast.Field, labels []string, root bool) bool {
	name, _, err := ast.LabelName(f.Label)
	if err != nil {
		return root // a dynamic label at the top is not the registry; inside it may be anything
	}
	if !slices.Contains(labels, name) {
		return true
	}
	if _, aliased := f.Label.(*ast.Alias); aliased || f.Alias != nil {
		return false
	}
	switch x := f.Value.(type) {
	case *ast.StructLit:
		for _, d := range x.Elts {
			switch y := d.(type) {
			case *ast.Field:
				if _, pattern := y.Label.(*ast.ListLit); pattern && containers[name] == nil {
					continue
				}
				if !plainContainer(y, containers[name], containers[name] == nil) {
					return false
				}
			case *ast.LetClause, *ast.CommentGroup, *ast.Attribute:
			case *ast.Comprehension:
				if containers[name] != nil {
					return false
				}
			default:
				return false
			}
		}
		return true
	case *ast.SelectorExpr:
		pkg, ok := x.X.(*ast.Ident)
		if !ok {
			return false
		}
		spec, imported := pkg.Node.(*ast.ImportSpec)
		return imported && spec.Path.Value == strconv.Quote(ImportPath)
	}
	return false
}
