package main_test

import (
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// checkState refuses package variables that are, or hold, something that changes. What is left are sentinels, embedded files and
// tables that nobody reassigns. It asks the type checker which identifiers mean a package variable, and gives it no imports: types of
// other packages stay unknown, which is enough.
func (h *house) checkState(dir string) {
	var files []*ast.File
	for _, s := range h.packages[dir] {
		if !s.test {
			files = append(files, s.ast)
		}
	}
	info := &types.Info{
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	lenient := types.Config{Importer: noImports{}, Error: func(error) {}}
	_, _ = lenient.Check(dir, h.fset, files, info) // what does not compile is the compiler's to report
	vars := map[types.Object]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				h.checkVars(dir, g, func(name *ast.Ident) { vars[info.Defs[name]] = true })
			}
		}
	}
	change := func(e ast.Expr) {
		name := root(e)
		if name != nil && vars[info.Uses[name]] {
			h.report("state", dir+"."+name.Name, "is changed at %s", h.fset.Position(name.Pos()))
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool { changes(n, info, change); return true })
	}
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not asked for") }

func (h *house) checkVars(dir string, g *ast.GenDecl, each func(*ast.Ident)) {
	for _, spec := range g.Specs {
		v := spec.(*ast.ValueSpec)
		for _, name := range v.Names {
			switch {
			case name.Name == "_":
				continue
			case embedded(g.Doc) || embedded(v.Doc):
			case len(v.Values) == 0:
				h.report("state", dir+"."+name.Name, "has no initial value, so it is there to be changed")
			case holdsState(v):
				h.report("state", dir+"."+name.Name, "holds something that can change; give it an owner in the wiring")
			}
			each(name)
		}
	}
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// holdsState looks for pointers, channels, made containers and locks in a variable's declaration.
func holdsState(v *ast.ValueSpec) bool {
	found := false
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.UnaryExpr:
			found = found || n.Op == token.AND
		case *ast.ChanType:
			found = true
		case *ast.CallExpr:
			f, _ := n.Fun.(*ast.Ident)
			found = found || f != nil && (f.Name == "make" || f.Name == "new")
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			// sync.OnceValue is an initial value that waits until it is asked for.
			found = found || x != nil && (x.Name == "sync" && !strings.HasPrefix(n.Sel.Name, "OnceValue") || x.Name == "atomic")
		}
		return true
	}
	if v.Type != nil {
		ast.Inspect(v.Type, look)
	}
	for _, value := range v.Values {
		ast.Inspect(value, look)
	}
	return found
}

// changes calls change with every operand that a node writes to, or lends to somebody who may.
func changes(n ast.Node, info *types.Info, change func(ast.Expr)) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, left := range n.Lhs {
				change(left)
			}
		}
	case *ast.IncDecStmt:
		change(n.X)
	case *ast.SendStmt:
		change(n.Chan)
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			change(n.Key)
			change(n.Value)
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			change(n.X)
		}
	case *ast.SelectorExpr:
		if s := info.Selections[n]; s != nil && s.Kind() == types.MethodVal && takesAddress(s) {
			change(n.X)
		}
	case *ast.CallExpr:
		of, name := called(n)
		if f, ok := n.Fun.(*ast.Ident); ok {
			name = f.Name
		}
		writes := of == "" && (name == "delete" || name == "clear" || name == "copy") ||
			of == "slices" && (strings.HasPrefix(name, "Sort") || name == "Reverse" || name == "Delete") ||
			of == "sort" || of == "maps" && (name == "Copy" || name == "DeleteFunc" || name == "Insert")
		if writes && len(n.Args) > 0 {
			change(n.Args[0])
		}
	}
}

// takesAddress reports a method with a pointer receiver that is called on a value.
func takesAddress(s *types.Selection) bool {
	_, isPointer := s.Recv().Underlying().(*types.Pointer)
	_, wantsPointer := s.Obj().(*types.Func).Signature().Recv().Type().(*types.Pointer)
	return wantsPointer && !isPointer
}

// root is the variable that an operand such as `x.f[i]` belongs to.
func root(e ast.Expr) *ast.Ident {
	for {
		switch v := e.(type) {
		case *ast.Ident:
			return v
		case *ast.ParenExpr:
			e = v.X
		case *ast.IndexExpr:
			e = v.X
		case *ast.SelectorExpr:
			e = v.X
		case *ast.StarExpr:
			e = v.X
		case *ast.SliceExpr:
			e = v.X
		default:
			return nil
		}
	}
}
