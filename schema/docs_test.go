package schema

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/token"
	"github.com/google/go-cmp/cmp"
)

const referencePage = "../docs/registry-reference.md"

// TestRegistryReference compares docs/registry-reference.md with what the schema's own text says. STADO_UPDATE=1 writes it.
func TestRegistryReference(t *testing.T) {
	p := page{t: t, defs: definitionsOf(t), paths: map[string][]string{}}
	p.place("#Registry", "", 0)
	got := p.write()
	if os.Getenv("STADO_UPDATE") != "" {
		if err := os.WriteFile(referencePage, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/registry-reference.md is not what the schema says; write it with `STADO_UPDATE=1 go test ./schema -run RegistryReference`: -page +schema\n%s", diff)
	}
	for _, name := range slices.Sorted(maps.Keys(p.defs)) {
		if d := p.defs[name]; strings.HasPrefix(name, "#") && !d.isMap() && !p.linked[name] && name != "#Registry" {
			t.Errorf("%s is in the schema and no field is of it", name)
		}
	}
}

// page is the reference while it is written.
type page struct {
	t      *testing.T
	defs   map[string]*definition
	order  []string            // blocks, as they are met from the root
	paths  map[string][]string // where each block stands
	tree   bytes.Buffer        // the table of contents
	linked map[string]bool
	out    bytes.Buffer
}

// place walks the blocks from the root and notes where each stands.
func (p *page) place(name, path string, depth int) {
	d := p.defs[name]
	if len(p.paths[name]) == 0 {
		p.order = append(p.order, name)
	}
	p.paths[name] = append(p.paths[name], path)
	if path == "" {
		path = rootLabel
		fmt.Fprintf(&p.tree, "- [`%s`](#%s)\n", rootLabel, anchor(name))
	}
	for _, f := range d.fields {
		at := f.name
		if path != rootLabel {
			at = path + "." + f.name
		}
		if inner, below := p.blockIn(f.value, at); inner != "" {
			fmt.Fprintf(&p.tree, "%s- [`%s`](#%s)\n", strings.Repeat("  ", depth+1), strings.TrimPrefix(below, path+"."), anchor(inner))
			p.place(inner, below, depth+1)
		}
	}
}

// blockIn is the block that a field's value leads to, through lists and maps, and the path of one of it.
func (p *page) blockIn(e ast.Expr, path string) (name, below string) {
	switch x := e.(type) {
	case *ast.Ident:
		d := p.defs[x.Name]
		switch {
		case d == nil:
		case d.isMap():
			return p.blockIn(d.entry, path+".<"+d.keyNoun+">")
		case d.block():
			return x.Name, path
		}
	case *ast.ListLit:
		if rest, ok := x.Elts[len(x.Elts)-1].(*ast.Ellipsis); ok {
			return p.blockIn(rest.Type, path+".<n>")
		}
	}
	return "", ""
}

const preface = `# Registry reference

<!-- Written by the test TestRegistryReference from the text of schema/*.cue: change it there, then STADO_UPDATE=1 go test ./schema -run RegistryReference -->

Every field that a registry may hold. A registry repository binds the schema once, in one of its files
(` + "`registry: schema.#Registry`" + `), and declares the rest wherever it likes below ` + "`registry`" + `; as a rule one host or one service is one file.
What is not listed here is refused by name, with its file and line. [examples/everything](../examples/everything) uses every block.

In the tables, **required** means that a declared block must give the field; a value is what holds when the field is left out; – means that
nothing does. A block that is left out is not part of the compiled document, unless its line says *its defaults*. Paths are those that
findings and ` + "`stado plan`" + ` name; ` + "`<host>`" + ` stands for any name, ` + "`<n>`" + ` for an index.

Beyond single fields, ` + "`stado vet`" + ` judges what they say of each other (every host, service and consumer that is named is declared, no two
listeners share a bind, times are in order); each refusal has a rule id, the place, and what to do.

`

func (p *page) write() []byte {
	p.linked = map[string]bool{}
	p.out.WriteString(preface)
	p.out.Write(p.tree.Bytes())
	p.out.WriteString("\nThe forms that names, addresses and times take are under [Words](#words), what was a field once under [Retired fields](#retired-fields).\n")
	for _, name := range p.order {
		p.block(name)
	}
	p.words()
	p.retired()
	return p.out.Bytes()
}

func (p *page) block(name string) {
	d := p.defs[name]
	fmt.Fprintf(&p.out, "\n## %s\n\n", title(name))
	if at := p.paths[name]; at[0] != "" {
		fmt.Fprintf(&p.out, "`%s`\n\n", strings.Join(at, "`, `"))
	}
	fmt.Fprintf(&p.out, "%s\n\n| field | value | when left out | |\n|---|---|---|---|\n", p.sentence(name))
	for _, f := range d.fields {
		fmt.Fprintf(&p.out, "| `%s` | %s | %s | %s |\n", f.name, p.value(f.value), p.leftOut(f), p.meaning(f))
	}
	if len(d.refusals) > 0 {
		p.out.WriteString("\nRefused as a whole, with the sentence:\n\n")
		for _, r := range d.refusals {
			fmt.Fprintf(&p.out, "- %s\n", r)
		}
	}
}

// meaning is the comment on a field, and what the comment on its map says beyond naming it.
func (p *page) meaning(f docField) string {
	out := strings.TrimPrefix(strings.TrimPrefix(f.doc, "is "), "are ")
	if id, ok := f.value.(*ast.Ident); ok && p.defs[id.Name] != nil && p.defs[id.Name].isMap() {
		if _, more, ok := strings.Cut(p.defs[id.Name].doc, ". "); ok {
			out += ". " + more
		}
	}
	return out
}

// sentence is the comment on a definition without the mark of its name.
func (p *page) sentence(name string) string {
	doc := p.defs[name].doc
	rest, ok := strings.CutPrefix(doc, name+" ")
	if !ok {
		p.t.Errorf("%s: comment %q is not about it", name, doc)
	}
	return title(name) + " " + rest + "."
}

func (p *page) leftOut(f docField) string {
	def, _ := alternatives(f.value)
	switch {
	case f.required:
		return "**required**"
	case def != nil:
		return "`" + text(def) + "`"
	case f.optional:
		return "–"
	}
	return "*its defaults*"
}

// value says in words what a field may hold.
func (p *page) value(e ast.Expr) string {
	if words, ok := literalsOf(e, p.defs); ok {
		p.use(e)
		return "`" + strings.Join(words, "`, `") + "`"
	}
	def, others := alternatives(e)
	var out []string
	for _, o := range others {
		if o != def || len(others) == 1 {
			out = append(out, p.one(o))
		}
	}
	return strings.Join(out, ", or ")
}

// use notes that a word is explained where it is used.
func (p *page) use(e ast.Expr) {
	ast.Walk(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			p.linked[id.Name] = true
		}
		return true
	}, nil)
}

func (p *page) one(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return p.value(x.X)
	case *ast.Ident:
		return p.named(x.Name)
	case *ast.BasicLit:
		return "`" + x.Value + "`"
	case *ast.ListLit:
		rest, open := x.Elts[len(x.Elts)-1].(*ast.Ellipsis)
		switch {
		case !open:
			return fmt.Sprintf("list of %d: %s", len(x.Elts), p.value(x.Elts[0]))
		case len(x.Elts) > 1:
			return "list, not empty: " + p.value(rest.Type)
		}
		return "list: " + p.value(rest.Type)
	case *ast.BinaryExpr:
		return p.bounds(x)
	}
	p.t.Errorf("no words for %s", text(e))
	return text(e)
}

func (p *page) named(name string) string {
	p.linked[name] = true
	d := p.defs[name]
	switch {
	case name == "bool":
		return "`true`, `false`"
	case d == nil:
		p.t.Errorf("no words for %s", name)
	case d.isMap():
		return p.value(d.key) + " → " + p.value(d.entry)
	case strings.HasPrefix(d.name, "#"):
		return fmt.Sprintf("[%s](#%s)", lower(title(name)), anchor(name))
	}
	return name
}

// bounds words a number with its bounds.
func (p *page) bounds(e ast.Expr) string {
	kind, from, to := "", "", ""
	var walk func(ast.Expr)
	walk = func(e ast.Expr) {
		switch x := e.(type) {
		case *ast.BinaryExpr:
			walk(x.X)
			walk(x.Y)
		case *ast.Ident:
			kind = map[string]string{"int": "whole number", "number": "number"}[x.Name]
		case *ast.UnaryExpr:
			bound := text(x.X)
			if _, field := x.X.(*ast.Ident); field {
				bound = "`" + bound + "`"
			}
			switch x.Op {
			case token.GEQ:
				from = bound
			case token.LEQ:
				to = " to " + bound
			case token.LSS:
				to = " to below " + bound
			}
		}
	}
	walk(e)
	if kind == "" || from == "" {
		p.t.Errorf("no words for %s", text(e))
	}
	if to == " to "+strconv.FormatInt(math.MaxInt64, 10) {
		return kind + ", at least " + from
	}
	return kind + ", " + from + to
}

func (p *page) words() {
	p.out.WriteString("\n## Words\n\nThe forms that values take.\n")
	for _, name := range slices.Sorted(maps.Keys(p.linked)) {
		d := p.defs[name]
		if d == nil || d.block() || d.isMap() {
			continue
		}
		if _, enumeration := literalsOf(d.value, p.defs); enumeration {
			continue
		}
		fmt.Fprintf(&p.out, "\n### %s\n\n%s\n", title(name), p.sentence(name))
		if pattern := patternOf(d.value, p.defs); pattern != "" {
			fmt.Fprintf(&p.out, "\n```\n%s\n```\n", pattern)
		} else if _, builtin := d.value.(*ast.BinaryExpr); builtin && !strings.Contains(text(d.value), "net.") {
			fmt.Fprintf(&p.out, "\n%s\n", p.value(d.value))
		}
	}
}

func (p *page) retired() {
	p.out.WriteString("\n## Retired fields\n\nThese were fields once. They are refused by name, with the sentence.\n\n")
	retired := Retired()
	for _, at := range slices.Sorted(maps.Keys(retired)) {
		fmt.Fprintf(&p.out, "- `%s`: %s\n", at, retired[at])
	}
}

func text(e ast.Expr) string {
	out, err := format.Node(e)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// title is a definition's name in words: #SSHFallback is SSH fallback.
func title(name string) string {
	var words []string
	rest := []rune(strings.TrimPrefix(name, "#"))
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && unicode.IsUpper(rest[n]) && (n+1 == len(rest) || !unicode.IsLower(rest[n+1])) {
			n++
		}
		acronym := n > 1
		for n < len(rest) && !unicode.IsUpper(rest[n]) && !(acronym && unicode.IsLower(rest[n])) {
			n++
		}
		word := string(rest[:n])
		if !acronym && len(words) > 0 {
			word = strings.ToLower(word)
		}
		words, rest = append(words, word), rest[n:]
	}
	return strings.Join(words, " ")
}

// lower is a title inside a sentence.
func lower(title string) string {
	if len(title) > 1 && unicode.IsUpper(rune(title[1])) {
		return title
	}
	return strings.ToLower(title[:1]) + title[1:]
}

func anchor(name string) string {
	return strings.ReplaceAll(strings.ToLower(title(name)), " ", "-")
}
