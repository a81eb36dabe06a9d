package schema

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// BindingFile is where a registry binds itself to the schema, for plain `cue vet`. Any other file in the top directory may do so.
const BindingFile = "registry.cue"

// VendorDrift lists the files of a registry's vendored schema that differ from the embedded one, sorted by path: changed, missing, or
// not ours; [BindingFile] when nothing binds the registry to the schema, and [ModuleFile] when it is missing. files are those of the whole
// registry. Agents need none of them; drift only means that plain `cue vet` judges otherwise than they do, or not at all.
func VendorDrift(files []File) []string {
	vendored := map[string][]byte{}
	for _, f := range files {
		if strings.HasPrefix(f.Path, VendorDir()+"/") {
			vendored[f.Path] = f.Data
		}
	}
	var drift []string
	for _, want := range Files() {
		p := VendorDir() + "/" + want.Path
		if got, ok := vendored[p]; !ok || !bytes.Equal(got, want.Data) {
			drift = append(drift, p)
		}
		delete(vendored, p)
	}
	for stray := range vendored {
		drift = append(drift, stray)
	}
	if !slices.ContainsFunc(files, binding) {
		drift = append(drift, BindingFile)
	}
	if !slices.ContainsFunc(files, func(f File) bool { return f.Path == ModuleFile }) {
		drift = append(drift, ModuleFile)
	}
	slices.Sort(drift)
	return drift
}

// binding reports whether a file says registry: schema.#Registry, alone or with more, and so closes the registry for plain `cue vet`: it
// looks at a directory's package together with the files of the directories above.
func binding(f File) bool {
	if strings.Contains(f.Path, "/") || skipped(f.Path) || !strings.HasSuffix(f.Path, ".cue") || !bytes.Contains(f.Data, []byte(ImportPath)) {
		return false
	}
	parsed, err := parseCUE(f.Path, f.Data)
	if err != nil {
		return false // refused by what it is
	}
	name := ""
	for spec := range parsed.ImportSpecs() {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil && p == ImportPath {
			if name = "schema"; spec.Name != nil {
				name = spec.Name.Name
			}
		}
	}
	return slices.ContainsFunc(fieldValues(parsed.Decls, rootLabel), func(x ast.Expr) bool { return conjoins(x, name) })
}

// conjoins reports whether an expression is name.#Registry, or holds whatever else to be that too.
func conjoins(x ast.Expr, name string) bool {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return conjoins(x.X, name)
	case *ast.BinaryExpr:
		return x.Op == token.AND && (conjoins(x.X, name) || conjoins(x.Y, name))
	case *ast.StructLit:
		return slices.ContainsFunc(x.Elts, func(d ast.Decl) bool {
			embed, ok := d.(*ast.EmbedDecl)
			return ok && conjoins(embed.Expr, name)
		})
	case *ast.SelectorExpr:
		from, ok := x.X.(*ast.Ident)
		label, isName := x.Sel.(*ast.Ident)
		return ok && isName && from.Name == name && label.Name == "#Registry"
	}
	return false
}
