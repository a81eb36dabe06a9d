package schema

import (
	"errors"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/parser"
	"stado.internal/stado/fleet"
)

// Syntax parses one CUE file with its comments, for programs that edit text. It has the gates on size and nesting that [Compile] has,
// so that no text can exhaust the parser; an error is one or more [fleet.Finding] as lines.
func Syntax(f File) (*ast.File, error) {
	if finding, bad := gateText(f); bad {
		return nil, findingsError(finding)
	}
	if len(f.Data) > maxFileBytes {
		return nil, findingsError(hinted(refusal(RuleFileSize, Position{File: f.Path}, "", sayFileSize(len(f.Data))), hintSplit))
	}
	text, unbalanced, refused := gateTokens(f)
	if refused != nil {
		return nil, findingsError(*refused)
	}
	file, err := parser.ParseFile(f.Path, text, parser.Version(languageVersion), parser.ParseComments)
	if err != nil {
		return nil, findingsError(syntaxFindings(err)...)
	}
	if unbalanced != nil {
		return nil, findingsError(*unbalanced)
	}
	return file, nil
}

func findingsError(fs ...fleet.Finding) error {
	lines := make([]error, len(fs))
	for i, f := range fs {
		lines[i] = errors.New(f.String())
	}
	return errors.Join(lines...)
}
