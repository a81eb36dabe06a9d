package schema

import (
	"strings"

	"cuelang.org/go/cue/scanner"
	"cuelang.org/go/cue/token"
	"stado.internal/stado/fleet"
)

// maxTokenDepth is how deep brackets and labels may nest in the text. It only has to keep the parser's own cost in bounds: the parser
// takes time and stack by the square of the depth (a label chain of 256 KiB costs it ten seconds). The tree is judged by maxDepth.
const maxTokenDepth = 8 * maxDepth

// gateTokens refuses text that nests too deep for the parser, in one pass over its tokens. When a bracket closes nothing it returns a
// finding and the text up to and with that bracket: the parser words the error better, and must not see what follows.
func gateTokens(f File) (text []byte, unbalanced, refused *fleet.Finding) {
	file := token.NewFile(f.Path, -1, len(f.Data))
	var s scanner.Scanner
	s.Init(file, f.Data, func(token.Pos, string, []any) {}, 0)
	d := tokenDepth{open: []bracket{{}}}
	for {
		pos, tok, _ := s.Scan()
		if tok == token.EOF {
			return f.Data, nil, nil
		}
		if !d.step(tok, &s) {
			finding := refusal(RuleSyntax, position(pos), "", "the bracket closes nothing that is open")
			return f.Data[:pos.Offset()+1], &finding, nil
		}
		if d.depth > maxTokenDepth {
			finding := hinted(refusal(RuleDepth, position(pos), "", sayDepth()), hintFlatten)
			return nil, nil, &finding
		}
	}
}

// tokenDepth follows brackets, and the chains of labels (a: b: c) inside each.
type tokenDepth struct {
	open          []bracket // the first is the file itself
	depth         int
	interpolation bool // the next parenthesis is that of "\("
}

type bracket struct {
	close         token.Token
	labels        int
	interpolation bool // what follows its end is the rest of a string
}

// step takes one token; it is false for a bracket that closes nothing.
func (d *tokenDepth) step(tok token.Token, s *scanner.Scanner) bool {
	top := &d.open[len(d.open)-1]
	switch tok {
	case token.INTERPOLATION:
		d.interpolation = true
	case token.LPAREN:
		d.push(bracket{close: token.RPAREN, interpolation: d.interpolation})
		d.interpolation = false
	case token.LBRACK:
		d.push(bracket{close: token.RBRACK})
	case token.LBRACE:
		d.push(bracket{close: token.RBRACE})
	case token.RPAREN, token.RBRACK, token.RBRACE:
		if tok != top.close {
			return false
		}
		if top.interpolation {
			d.interpolation = strings.HasSuffix(s.ResumeInterpolation(), "(")
		}
		d.depth -= 1 + top.labels
		d.open = d.open[:len(d.open)-1]
	case token.COLON:
		top.labels++
		d.depth++
	case token.COMMA:
		d.depth -= top.labels
		top.labels = 0
	}
	return true
}

func (d *tokenDepth) push(b bracket) {
	d.open = append(d.open, b)
	d.depth++
}
