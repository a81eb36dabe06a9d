package literal

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"sync"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// compiler turns the text of a schema into nodes. What it does not know becomes unknown, at the smallest part that it belongs to.
type compiler struct {
	text     map[string]ast.Expr // top-level fields by name; nil for one that is declared twice
	imported map[string]string   // import paths by the name that stands for them
	done     map[string]node
	depth    int
	// expressions are those that the text holds.
	expressions map[string]func() *regexp.Regexp
}

func newCompiler(files []*ast.File) *compiler {
	c := &compiler{text: map[string]ast.Expr{}, imported: map[string]string{}, done: map[string]node{}, expressions: map[string]func() *regexp.Regexp{}}
	for _, file := range files {
		for _, d := range file.Decls {
			switch x := d.(type) {
			case *ast.Field:
				name, _, err := ast.LabelName(x.Label)
				if err != nil {
					continue
				}
				if _, twice := c.text[name]; twice {
					c.text[name] = nil
				} else {
					c.text[name] = x.Value
				}
			case *ast.ImportDecl:
				for _, s := range x.Specs {
					if p, err := strconv.Unquote(s.Path.Value); err == nil && s.Name == nil {
						c.imported[p] = p
					}
				}
			}
		}
	}
	return c
}

// labels are the fields of the structs around an expression: names that stand for them there.
type labels struct {
	fields map[string]bool
	outer  *labels
}

func (l *labels) declare(name string) bool {
	for ; l != nil; l = l.outer {
		if l.fields[name] {
			return true
		}
	}
	return false
}

// definition compiles a top-level field, once.
func (c *compiler) definition(name string) node {
	if n, ok := c.done[name]; ok {
		return n
	}
	c.done[name] = unknown{} // a definition that is made of itself
	if e := c.text[name]; e != nil {
		c.done[name] = c.compile(e, nil)
	}
	return c.done[name]
}

func (c *compiler) compile(e ast.Expr, in *labels) node {
	if c.depth++; c.depth > maxDepth {
		return unknown{}
	}
	defer func() { c.depth-- }()
	switch x := e.(type) {
	case *ast.ParenExpr:
		return c.compile(x.X, in)
	case *ast.BasicLit:
		if v, ok := decodeLit(x); ok {
			return constant{v}
		}
	case *ast.Ident:
		return c.ident(x, in)
	case *ast.UnaryExpr:
		return c.unary(x, in)
	case *ast.BinaryExpr:
		switch x.Op {
		case token.AND:
			return c.and(x, in)
		case token.OR:
			return c.or(x, in)
		}
	case *ast.ListLit:
		return c.list(x, in)
	case *ast.StructLit:
		return c.structure(x, in)
	}
	return unknown{}
}

func (c *compiler) ident(x *ast.Ident, in *labels) node {
	if in.declare(x.Name) {
		return unknown{}
	}
	if _, ok := c.text[x.Name]; ok {
		return c.definition(x.Name)
	}
	switch x.Name {
	case "string":
		return test(func(data any, _ map[string]any) bool { _, ok := data.(string); return ok })
	case "int", "number":
		return test(func(data any, _ map[string]any) bool { _, ok := data.(int64); return ok })
	case "bool":
		return test(func(data any, _ map[string]any) bool { _, ok := data.(bool); return ok })
	}
	return unknown{}
}

func (c *compiler) unary(x *ast.UnaryExpr, in *labels) node {
	switch x.Op {
	case token.MAT, token.NMAT:
		text, ok := c.constantText(x.X, in)
		if !ok {
			return unknown{}
		}
		if _, err := syntax.Parse(text, syntax.Perl); err != nil {
			return unknown{}
		}
		if c.expressions[text] == nil {
			c.expressions[text] = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
		}
		return match{expression: c.expressions[text], negated: x.Op == token.NMAT}
	case token.GEQ, token.GTR, token.LEQ, token.LSS:
		return c.bound(x, in)
	}
	return unknown{}
}

// bound is a limit on an integer: a number, or another field of the same struct.
func (c *compiler) bound(x *ast.UnaryExpr, in *labels) node {
	within := func(n, limit int64) bool {
		switch x.Op {
		case token.GEQ:
			return n >= limit
		case token.GTR:
			return n > limit
		case token.LEQ:
			return n <= limit
		}
		return n < limit
	}
	switch y := x.X.(type) {
	case *ast.BasicLit:
		limit, err := strconv.ParseInt(y.Value, 10, 64)
		if y.Kind != token.INT || err != nil {
			return unknown{}
		}
		return test(func(data any, _ map[string]any) bool {
			n, ok := data.(int64)
			return ok && within(n, limit)
		})
	case *ast.Ident:
		if in == nil || !in.fields[y.Name] {
			return unknown{}
		}
		return test(func(data any, siblings map[string]any) bool {
			n, ok := data.(int64)
			limit, given := siblings[y.Name].(int64)
			return ok && given && within(n, limit)
		})
	}
	return unknown{}
}

// constantText is a string that stands in the schema itself.
func (c *compiler) constantText(e ast.Expr, in *labels) (string, bool) {
	if id, ok := e.(*ast.Ident); ok {
		if in.declare(id.Name) || c.text[id.Name] == nil {
			return "", false
		}
		e = c.text[id.Name]
	}
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING || lit.Value[0] != '"' {
		return "", false
	}
	s, err := literal.Unquote(lit.Value)
	return s, err == nil
}

func (c *compiler) and(x *ast.BinaryExpr, in *labels) node {
	left, right := c.compile(x.X, in), c.compile(x.Y, in)
	if !left.scalar() || !right.scalar() {
		return unknown{}
	}
	return all{left, right}
}

func (c *compiler) or(x *ast.BinaryExpr, in *labels) node {
	out := any1{}
	marks := 0
	var collect func(e ast.Expr) bool
	collect = func(e ast.Expr) bool {
		if binary, ok := e.(*ast.BinaryExpr); ok && binary.Op == token.OR {
			return collect(binary.X) && collect(binary.Y)
		}
		if c.refuses(e, in) {
			return true
		}
		mark, marked := e.(*ast.UnaryExpr)
		marked = marked && mark.Op == token.MUL
		if marked {
			e = mark.X
		}
		n := c.compile(e, in)
		if marked {
			standard, ok := n.(constant)
			if !ok {
				return false
			}
			marks++
			out.standard, out.marked = standard.value, true
		}
		out.alternatives = append(out.alternatives, n)
		return n.scalar()
	}
	if !collect(x) || marks > 1 {
		return unknown{}
	}
	return out
}

// refuses reports whether an alternative is error(…): it is there for its sentence and admits nothing.
func (c *compiler) refuses(e ast.Expr, in *labels) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	id, ok := call.Fun.(*ast.Ident)
	_, declared := c.text["error"]
	return ok && id.Name == "error" && !declared && !in.declare("error")
}

func (c *compiler) list(x *ast.ListLit, in *labels) node {
	out := list{}
	for i, elt := range x.Elts {
		rest, ok := elt.(*ast.Ellipsis)
		if !ok {
			out.fixed = append(out.fixed, c.compile(elt, in))
			continue
		}
		if rest.Type == nil || i != len(x.Elts)-1 {
			return unknown{}
		}
		out.rest = c.compile(rest.Type, in)
	}
	return out
}
