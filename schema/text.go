package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"

	"stado.internal/stado/fleet"
)

// Format is the canonical form of a CUE file, the one of `cue fmt`. Text that is not CUE is refused by findings. Nothing is evaluated.
func Format(f File) (out []byte, findings fleet.Findings) {
	defer func() {
		if what := recover(); what != nil { // as in the evaluator: it should never panic on any text
			out, findings = nil, fleet.Findings{refusal(RuleSyntax, Position{File: f.Path}, "", sayInternal(what))}
		}
	}()
	file, findings := parseWhole(f, parser.ParseComments)
	if findings != nil {
		return nil, findings
	}
	out, err := format.Node(file)
	if err != nil {
		return nil, syntaxFindings(err)
	}
	// The formatter writes some numbers that the parser admits (00.M) as text that it does not: no file may become worse than it was.
	if _, worse := parseWhole(File{f.Path, out}); worse != nil {
		return nil, fleet.Findings{hinted(refusal(RuleSyntax, Position{File: f.Path}, "", sayUnformattable(worse[0])), hintUnformattable)}
	}
	return out, nil
}

// parseWhole parses one file through the gates of text, which bound what parsing can cost.
func parseWhole(f File, options ...parser.Option) (*ast.File, fleet.Findings) {
	if len(f.Data) > maxFileBytes {
		return nil, fleet.Findings{hinted(refusal(RuleFileSize, Position{File: f.Path}, "", sayFileSize(len(f.Data))), hintSplit)}
	}
	if finding, bad := gateText(f); bad {
		return nil, fleet.Findings{finding}
	}
	return parseText(f, options...)
}

// parseText parses text whose bytes passed their gate.
func parseText(f File, options ...parser.Option) (*ast.File, fleet.Findings) {
	text, unbalanced, refused := gateTokens(f)
	if refused != nil {
		return nil, fleet.Findings{*refused}
	}
	file, err := parseCUE(f.Path, text, options...)
	switch {
	case err != nil:
		return nil, syntaxFindings(err)
	case unbalanced != nil:
		return nil, fleet.Findings{*unbalanced}
	}
	return file, nil
}

// GenerationFile is the file of a registry that holds its generation and nothing else.
const GenerationFile = "generation.cue"

// MaxGeneration is the highest generation that the schema admits.
const MaxGeneration fleet.Generation = 1<<63 - 1

var plainNumber = regexp.MustCompile(`^[1-9][0-9]*(_[0-9]+)*$`)

// Generation reads the generation that a file gives as a plain number.
func Generation(f File) (fleet.Generation, error) {
	_, g, err := generation(f)
	return g, err
}

// SetGeneration gives the text of the file with another generation. Every other byte stays as it is. before is what the file said.
func SetGeneration(f File, g fleet.Generation) (text []byte, before fleet.Generation, err error) {
	lit, before, err := generation(f)
	if err != nil {
		return nil, 0, err
	}
	start := lit.Pos().Offset()
	out := append([]byte{}, f.Data[:start]...)
	out = strconv.AppendUint(out, uint64(g), 10)
	return append(out, f.Data[start+len(lit.Value):]...), before, nil
}

func generation(f File) (*ast.BasicLit, fleet.Generation, error) {
	file, findings := parseWhole(f, parser.ParseComments)
	if findings != nil {
		return nil, 0, fmt.Errorf("cannot read the generation: %s", findings[0])
	}
	given := fieldValues(file.Decls, rootLabel, directoryLabel, "generation")
	switch len(given) {
	case 0:
		return nil, 0, fmt.Errorf("%s gives no generation (write registry: service_directory: generation: 1)", f.Path)
	case 1:
	default:
		return nil, 0, fmt.Errorf("%s gives the generation %d times (keep one)", place(given[1]), len(given))
	}
	lit, ok := given[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.INT || !plainNumber.MatchString(lit.Value) {
		return nil, 0, fmt.Errorf("%s does not give the generation as a plain number (write registry: service_directory: generation: 1)", place(given[0]))
	}
	n, err := strconv.ParseUint(strings.ReplaceAll(lit.Value, "_", ""), 10, 63)
	if err != nil {
		return nil, 0, fmt.Errorf("%s gives a generation above %d", place(lit), MaxGeneration)
	}
	return lit, fleet.Generation(n), nil
}

// fieldValues are the values that declarations give literally to the field at a path.
func fieldValues(decls []ast.Decl, path ...string) []ast.Expr {
	var out []ast.Expr
	for _, d := range decls {
		f, ok := d.(*ast.Field)
		if !ok {
			continue
		}
		label, isIdent, err := ast.LabelName(f.Label)
		if err != nil || hiddenLabel(label, isIdent) || label != path[0] {
			continue
		}
		if len(path) == 1 {
			out = append(out, f.Value)
		} else if inner, ok := f.Value.(*ast.StructLit); ok {
			out = append(out, fieldValues(inner.Elts, path[1:]...)...)
		}
	}
	return out
}

func place(n ast.Node) string {
	p := position(n.Pos())
	return fleet.Finding{File: p.File, Line: p.Line, Column: p.Column}.Position()
}
