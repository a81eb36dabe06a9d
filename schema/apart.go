package schema

import (
	"slices"

	"cuelang.org/go/cue/ast"

	"stado.internal/stado/fleet"
)

// literalFragment is the canonical JSON of a leaf of pure data, nil when the evaluator has to be asked.
func (c *compiler) literalFragment(l leaf) []byte {
	if c.literal == nil || !l.literal || len(l.values) != 1 {
		return nil
	}
	raw, ok := c.literal.Accept(l.path(), l.values[0])
	if !ok {
		return nil
	}
	return raw
}

// entriesApart reports whether the schema judges every host and every service by itself: no field of the registry has a say in another.
func (c *compiler) entriesApart() bool {
	return c.literal != nil && c.literal.Apart([]string{hostsLabel}) && c.literal.Apart([]string{directoryLabel, servicesLabel})
}

// givesNoRule reports whether a shared file says nothing of hosts and services but of those that it names itself. When in doubt the answer
// is no.
func givesNoRule(file *ast.File) bool {
	for _, d := range file.Decls {
		switch x := d.(type) {
		case *ast.Package, *ast.ImportDecl, *ast.LetClause, *ast.CommentGroup:
		case *ast.Field:
			label, ok := writtenLabel(x)
			if !ok || label == rootLabel && !namedContainer(x, rootLabel) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// namedContainer reports whether a container (see containers) is the schema itself, or holds fields with written names only.
func namedContainer(f *ast.Field, name string) bool {
	if !plainField(f) {
		return false
	}
	if name == rootLabel && bindsSchema(f.Value) {
		return true
	}
	s, ok := f.Value.(*ast.StructLit)
	if !ok {
		return false
	}
	for _, d := range s.Elts {
		inner, ok := d.(*ast.Field)
		if !ok {
			return false
		}
		label, ok := writtenLabel(inner)
		if !ok || slices.Contains(containers[name], label) && !namedContainer(inner, label) {
			return false
		}
	}
	return true
}

// bindsSchema reports whether an expression is schema.#Registry.
func bindsSchema(e ast.Expr) bool {
	x, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := x.X.(*ast.Ident)
	if !ok {
		return false
	}
	spec, imported := pkg.Node.(*ast.ImportSpec)
	name, _, err := ast.LabelName(x.Sel)
	return imported && err == nil && name == "#Registry" && spec.Path.Value == `"`+ImportPath+`"`
}

// writtenLabel is the name of a field that is written out, without an alias.
func writtenLabel(f *ast.Field) (string, bool) {
	switch f.Label.(type) {
	case *ast.Ident, *ast.BasicLit:
	default:
		return "", false
	}
	name, _, err := ast.LabelName(f.Label)
	return name, err == nil && f.Alias == nil
}

// anyName among the names that a file reads stands for all names.
const anyName = "*"

// namesRead lists the names that the expressions of a file begin with. What a file reads of another one, it reads by one of them.
func namesRead(file *ast.File) []string {
	seen := map[string]bool{}
	references(file, func(base *ast.Ident, _ []string, _ ast.Node) { seen[base.Name] = true })
	ast.Walk(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Alias:
			seen[anyName] = true
		case *ast.Field:
			if x.Alias != nil {
				seen[anyName] = true
			}
		}
		return true
	}, nil)
	out := make([]string, 0, len(seen))
	for name := range seen {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// labelsOf lists the names of all fields of a literal file.
func labelsOf(file *ast.File) []string {
	seen := map[string]bool{}
	ast.Walk(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok {
			if label, ok := writtenLabel(f); ok {
				seen[label] = true
			}
		}
		return true
	}, nil)
	out := make([]string, 0, len(seen))
	for name := range seen {
		out = append(out, name)
	}
	return out
}

// canRead reports whether something that reads names could read one of a file's fields.
func canRead(reads, labels []string) bool {
	return slices.ContainsFunc(reads, func(name string) bool { return name == anyName || slices.Contains(labels, name) })
}

// entryOf is the host or the service that a field path leads into, or to.
func entryOf(fieldPath string) (entryKey, bool) {
	labels, err := fleet.SplitFieldPath(fieldPath)
	switch {
	case err != nil:
	case len(labels) > 1 && labels[0] == hostsLabel:
		return entryKey{hostsLabel, labels[1]}, true
	case len(labels) > 2 && labels[0] == directoryLabel && labels[1] == servicesLabel:
		return entryKey{servicesLabel, labels[2]}, true
	}
	return entryKey{}, false
}
