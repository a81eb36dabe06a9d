package schema

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"stado.internal/stado/fleet"
)

// PoliciesDir is the directory of a registry repository that holds the fleet's own policies, which are no part of the registry.
const PoliciesDir = policiesDir

// PolicyFiles picks, in the order of their paths, the files that a registry repository holds below [PoliciesDir] and that the cue command
// would not skip.
func PolicyFiles(files []File) []File {
	var out []File
	for _, f := range files {
		if strings.HasPrefix(f.Path, policiesDir+"/") && strings.HasSuffix(f.Path, ".cue") && !hidden(f.Path) &&
			!strings.HasSuffix(f.Path, "_tool.cue") && !strings.HasSuffix(f.Path, "_test.cue") {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// ParsePolicies parses the fleet's own policies behind the gates that registry files pass, for a caller that evaluates them. begin, if
// set, is called as work on a file begins. The trees are nil when the findings refuse; they may be used for one evaluation.
func ParsePolicies(files []File, begin func(file string)) ([]*ast.File, fleet.Findings) {
	var out []*ast.File
	var findings fleet.Findings
	for _, f := range files {
		if begin != nil {
			begin(f.Path)
		}
		file, refused := parseGated(f, policiesDir)
		out, findings = append(out, file), append(findings, refused...)
	}
	if findings.Refuses() {
		return nil, Limit(findings)
	}
	return out, nil
}

// parseGated passes one file through every gate of content.
func parseGated(f File, pkg string) (*ast.File, fleet.Findings) {
	file, findings := parseWhole(f)
	if len(findings) > 0 {
		return nil, findings
	}
	return file, gateSyntax(f.Path, file, pkg)
}
