package main_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The house rules: what CONTRIBUTING.md says in words, judged over the parsed tree. `.ci/layers.txt` holds the import table and every
// exemption. A finding reads `rule: where: what is wrong`.

const (
	maxFileLines   = 500
	maxFuncLines   = 80
	maxWiringLines = 600
)

func TestHouse(t *testing.T) {
	t.Parallel()
	for _, f := range inspectHouse(t, filepath.Join("..", "..")) {
		t.Error(f)
	}
}

type source struct {
	path  string // inside the tree, with slashes
	test  bool
	lines int
	ast   *ast.File
}

type layer struct{ ours, third []string }

type house struct {
	fset     *token.FileSet
	module   string
	packages map[string][]source // by directory
	layers   map[string]layer
	tests    map[string]layer  // what test files may import beyond; "" is for all packages
	exempt   map[string]string // "rule where" → reason
	used     map[string]bool   // exemptions, and "package import" of the table
	skips    int               // allowed calls of t.Skip
	found    []string
}

func inspectHouse(t *testing.T, root string) []string {
	t.Helper()
	h := &house{
		fset: token.NewFileSet(), packages: map[string][]source{}, layers: map[string]layer{}, tests: map[string]layer{},
		exempt: map[string]string{}, used: map[string]bool{},
	}
	h.readModules(t, root)
	h.readLayers(t, filepath.Join(root, ".ci", "layers.txt"))
	h.readTree(t, root)
	skips := 0
	for _, dir := range slices.Sorted(maps.Keys(h.packages)) {
		h.checkPackage(dir)
		h.checkState(dir)
		owner := h.hasOwner(dir)
		for _, s := range h.packages[dir] {
			h.checkImports(dir, s)
			h.checkFile(s)
			h.checkGo(s, owner)
			skips += countSkips(s)
		}
	}
	if skips != h.skips {
		h.report("skips", ".ci/layers.txt", "the tests call Skip %d times, the table says %d", skips, h.skips)
	}
	for dir, l := range h.layers {
		if h.packages[dir] == nil {
			h.report("layers", dir, "has a line in .ci/layers.txt and no Go file; remove the line")
			continue
		}
		for _, name := range slices.Concat(l.ours, l.third) {
			if !h.used[dir+" "+name] {
				h.report("layers", dir, "may import %s and does not; take it out of its line in .ci/layers.txt", name)
			}
		}
	}
	for key := range h.exempt {
		if !h.used[key] {
			h.report("exempt", key, "is no longer needed; remove the line from .ci/layers.txt")
		}
	}
	slices.Sort(h.found)
	return h.found
}

func (h *house) report(rule, where, format string, args ...any) {
	key := rule + " " + where
	if h.exempt[key] != "" {
		h.used[key] = true
		return
	}
	h.found = append(h.found, rule+": "+where+": "+fmt.Sprintf(format, args...))
}

var (
	cueVersion = regexp.MustCompile(`cuelang\.org/go (\S+)`)
	direct     = regexp.MustCompile(`(?m)^(?:require)?\s+(\S+\.\S+/\S+) v\S+$`)
)

// readModules finds the module path, looks for the reason of every direct dependency, and compares the CUE that judges registries with
// the command that formats and vets them.
func (h *house) readModules(t *testing.T, root string) {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	tools, err := os.ReadFile(filepath.Join(root, ".ci", "tools.mod"))
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range direct.FindAllSubmatch(mod, -1) {
		if !bytes.Contains(reasons, append([]byte("`"), m[1]...)) {
			h.report("dependency", string(m[1]), "has no reason in docs/dependencies.md")
		}
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	h.module = strings.TrimPrefix(first, "module ")
	library, command := cueVersion.FindSubmatch(mod), cueVersion.FindSubmatch(tools)
	if library == nil || command == nil || !bytes.Equal(library[1], command[1]) {
		h.report("tools", ".ci/tools.mod", "must name the same version of cuelang.org/go as go.mod")
	}
}

// readLayers reads the table; its form is explained at its head.
func (h *house) readLayers(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(string(data), "\n") {
		line, _, _ = strings.Cut(line, "#")
		head, rest, _ := strings.Cut(line, " : ")
		words := strings.Fields(head)
		if len(words) == 0 {
			continue
		}
		ours, third, _ := strings.Cut(rest, "|")
		l := layer{strings.Fields(ours), strings.Fields(third)}
		switch {
		case words[0] == "exempt" && len(words) == 3 && strings.TrimSpace(rest) != "":
			h.exempt[words[1]+" "+words[2]] = strings.TrimSpace(rest)
		case words[0] == "skips" && len(words) == 2:
			if h.skips, err = strconv.Atoi(words[1]); err != nil {
				t.Fatalf("%s:%d: %v", file, n+1, err)
			}
		case words[0] == "tests" && len(words) <= 2:
			h.tests[strings.Join(words[1:], "")] = l
		case len(words) == 1:
			h.layers[words[0]] = l
		default:
			t.Fatalf("%s:%d: cannot read %q (an exemption needs a reason)", file, n+1, line)
		}
	}
}

func (h *house) readTree(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && (rel == ".git" || rel == ".stado" || rel == "bin"):
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		h.checkText(root, rel, data)
		if path.Ext(rel) != ".go" || strings.HasPrefix(rel, ".") || strings.Contains(rel, "testdata/") {
			return nil
		}
		parsed, err := parser.ParseFile(h.fset, rel, data, parser.ParseComments|parser.SkipObjectResolution)
		dir := path.Dir(rel)
		h.packages[dir] = append(h.packages[dir], source{rel, strings.HasSuffix(rel, "_test.go"), bytes.Count(data, []byte("\n")), parsed})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	// Written in two halves, so that this file does not hold what it refuses.
	ofOneMachine = regexp.MustCompile(`/wo` + `rk/|/ro` + `ot/|(?i:proxy=` + `http)`)
	link         = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	fence        = regexp.MustCompile("(?ms)^```.*?^```$") // text in it is not Markdown
)

func (h *house) checkText(root, rel string, data []byte) {
	if bytes.IndexByte(data, 0) >= 0 {
		return
	}
	for n, line := range bytes.Split(data, []byte("\n")) {
		if word := ofOneMachine.Find(line); word != nil {
			h.report("machine", rel, "line %d holds %q, which is true on one machine only", n+1, word)
		}
	}
	if path.Ext(rel) != ".md" {
		return
	}
	for _, m := range link.FindAllSubmatch(fence.ReplaceAll(data, nil), -1) {
		target := path.Join(path.Dir(rel), string(m[1]))
		if _, err := os.Stat(filepath.Join(root, target)); err != nil {
			h.report("link", rel, "points to %s, which does not exist", target)
		}
	}
}

func (h *house) checkPackage(dir string) {
	lines, code, comment := 0, false, false
	for _, s := range h.packages[dir] {
		if !s.test {
			lines, code, comment = lines+s.lines, true, comment || s.ast.Doc != nil
		}
	}
	if code && !comment {
		h.report("package-comment", dir, "has no package comment; say its one responsibility in a sentence")
	}
	if slices.Contains([]string{"agent", "agent/config", "agent/upgrade"}, dir) && lines > maxWiringLines {
		h.report("wiring", dir, "has %d lines, wiring has at most %d; move the rule to the package it belongs to", lines, maxWiringLines)
	}
	if slices.Contains([]string{"util", "utils", "common", "core", "types", "manager", "cap"}, path.Base(dir)) {
		h.report("package-name", dir, "is named for no subject; name what it holds")
	}
	if _, ok := h.layers[dir]; !ok {
		h.report("layers", dir, "has no line in .ci/layers.txt; say what it may import")
	}
}

// wing is the system of the agent that a directory belongs to. status and bus belong to all.
func wing(dir string) string {
	parts := strings.Split(dir, "/")
	if len(parts) < 2 || parts[0] != "agent" || parts[1] == "status" || parts[1] == "bus" {
		return ""
	}
	return parts[1]
}

func under(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

func (h *house) checkImports(dir string, s source) {
	allowed := h.layers[dir]
	if s.test {
		allowed = h.testLayer(dir)
	}
	for _, spec := range s.ast.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		if spec.Name != nil && spec.Name.Name == "_" && name != "embed" && !s.test {
			h.report("blank-import", s.path, "imports %s for its side effect", name)
		}
		first, _, _ := strings.Cut(name, "/")
		ours, isOurs := strings.CutPrefix(name, h.module+"/")
		switch {
		case isOurs:
			h.checkLayer(dir, s, ours, allowed.ours)
			h.used[dir+" "+ours] = h.used[dir+" "+ours] || !s.test
		case strings.Contains(first, "."):
			i := slices.IndexFunc(allowed.third, func(m string) bool { return under(name, m) })
			if i < 0 {
				h.report("third-party", s.path, "imports %s, which its line in .ci/layers.txt does not name", name)
			} else if !s.test {
				h.used[dir+" "+allowed.third[i]] = true
			}
		}
	}
}

func (h *house) checkLayer(dir string, s source, ours string, allowed []string) {
	helper := strings.HasSuffix(path.Base(ours), "test")
	switch {
	case ours == "agent" && !under(dir, "cmd"):
		h.report("agent", s.path, "imports agent; only commands do")
	case under(dir, "reconcile") && under(ours, "agent"):
		h.report("reconcile", s.path, "imports %s; the loop below knows nothing of the agent above", ours)
	case under(dir, "agent") && dir != "agent" && wing(ours) != "" && wing(ours) != wing(dir):
		h.report("wings", s.path, "imports %s, of another wing; pass a function in the wiring", ours)
	case helper && !s.test && !strings.HasSuffix(path.Base(dir), "test"):
		h.report("test-helper", s.path, "imports %s outside a test", ours)
	case ours != dir && !(helper && s.test) && !slices.Contains(allowed, ours):
		h.report("layers", s.path, "imports %s, which its line in .ci/layers.txt does not name", ours)
	}
}

// testLayer is what tests of a package may import: whatever the package stands on, the libraries of all tests, and its `tests` line.
func (h *house) testLayer(dir string) layer {
	out := layer{third: slices.Clone(h.tests[""].third)}
	queue := slices.Concat([]string{dir}, h.tests[dir].ours)
	for ; len(queue) > 0; queue = queue[1:] {
		if next := queue[0]; !slices.Contains(out.ours, next) {
			out.ours = append(out.ours, next)
			out.third = append(out.third, h.layers[next].third...)
			queue = append(queue, h.layers[next].ours...)
		}
	}
	out.third = append(out.third, h.tests[dir].third...)
	return out
}

func (h *house) checkFile(s source) {
	if s.lines > maxFileLines {
		h.report("file-length", s.path, "has %d lines, at most %d are allowed; split it by what changes together", s.lines, maxFileLines)
	}
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := h.fset.Position(f.End()).Line - h.fset.Position(f.Pos()).Line + 1
		if lines > maxFuncLines && !s.test { // a test may hold a long table of cases
			h.report("func-length", s.path+":"+f.Name.Name, "has %d lines, at most %d are allowed", lines, maxFuncLines)
		}
		if f.Name.Name == "init" && f.Recv == nil {
			h.report("init", s.path, "declares func init; construct in the wiring")
		}
	}
}

// joins are the functions behind which a goroutine has an owner that waits for it.
var joins = []string{"Run", "Serve", "Close", "Wait", "Shutdown"}

func (h *house) hasOwner(dir string) bool {
	return slices.ContainsFunc(h.packages[dir], func(s source) bool {
		return !s.test && slices.ContainsFunc(s.ast.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && slices.Contains(joins, f.Name.Name)
		})
	})
}

// checkGo refuses goroutines that nobody waits for, and waiting by the clock in tests.
func (h *house) checkGo(s source, owner bool) {
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		starts, waits, where := false, false, s.path+":"+f.Name.Name
		var bubbles []ast.Node
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				starts = true
			case *ast.UnaryExpr:
				waits = waits || n.Op == token.ARROW
			case *ast.CallExpr:
				of, name := called(n)
				waits = waits || name == "Wait"
				if of == "synctest" && name == "Test" {
					bubbles = append(bubbles, n)
				}
				inBubble := slices.ContainsFunc(bubbles, func(b ast.Node) bool { return b.Pos() <= n.Pos() && n.End() <= b.End() })
				if s.test && of == "time" && name == "Sleep" && !inBubble {
					h.report("sleep", where, "sleeps; wait for a condition with a deadline, or use testing/synctest")
				}
			}
			return true
		})
		if starts && !waits && !owner && !s.test {
			h.report("go", where, "starts a goroutine that neither it nor a Run, Serve, Close, Wait or Shutdown of its package joins")
		}
	}
}

// called names a call `of.name(…)`.
func called(c *ast.CallExpr) (of, name string) {
	if f, ok := c.Fun.(*ast.SelectorExpr); ok {
		if x, ok := f.X.(*ast.Ident); ok {
			of = x.Name
		}
		return of, f.Sel.Name
	}
	return "", ""
}

// countSkips counts calls that leave a test out. Under rapid, and in a fuzz target, Skip only throws away one drawn case.
func countSkips(s source) int {
	if !s.test {
		return 0
	}
	n := 0
	ast.Inspect(s.ast, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			return !takesRapid(node.Type)
		case *ast.FuncDecl:
			return !takesRapid(node.Type)
		case *ast.CallExpr:
			switch _, name := called(node); name {
			case "Skip", "Skipf", "SkipNow":
				n++
			case "Fuzz":
				return false
			}
		}
		return true
	})
	return n
}

func takesRapid(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		star, _ := p.Type.(*ast.StarExpr)
		if star == nil {
			return false
		}
		sel, _ := star.X.(*ast.SelectorExpr)
		return sel != nil && fmt.Sprint(sel.X) == "rapid"
	})
}
