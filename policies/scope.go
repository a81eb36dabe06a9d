package policies

import (
	"fmt"
	"strings"

	"stado.internal/stado/schema"
)

// The rules about which file gives what.
const (
	RuleNotOwned = "STADO-SCOPE-001"
	RuleTwice    = "STADO-SCOPE-002"
)

func scopeRules() []Rule {
	return []Rule{
		{ID: RuleNotOwned, Title: "path not owned", Explanation: "A host is given by its own file below hosts/, a service by its own below services/, the generation by generation.cue, the authority by authority.cue, and everything else by the shared files. CUE unifies all files of a package, so otherwise the file of one team could narrow the service of another. A shared file may constrain all hosts or all services by a pattern, and offer templates that the owners refer to."},
		{ID: RuleTwice, Title: "entry in two files", Explanation: "One file declares a host or a service. A second one of the same name, in another directory, could narrow it under another reviewer's eyes."},
	}
}

// scope refuses what a file gives that is not its own.
func (k *checker) scope(unowned []schema.Unowned) {
	for _, u := range unowned {
		rule := RuleNotOwned
		if u.Kind == schema.UnownedTwice {
			rule = RuleTwice
		}
		fieldPath := u.Path
		if u.Kind == schema.UnownedTemplate {
			fieldPath = "" // no field of the document
		}
		k.findings = append(k.findings, refuse(rule, u.At, fieldPath, sayNotOwned(u), hintNotOwned(u)))
	}
}

func sayNotOwned(u schema.Unowned) string {
	where := fmt.Sprintf("%s:%d", u.At.File, u.At.Line)
	if u.Kind == schema.UnownedTwice {
		return fmt.Sprintf("%s is declared by two files: %s and %s:%d", u.Path, where, u.Declared.File, u.Declared.Line)
	}
	return fmt.Sprintf("path not owned: %s set by %s", u.Path, where)
}

func hintNotOwned(u schema.Unowned) string {
	switch {
	case u.Kind == schema.UnownedTwice:
		return "keep one of them"
	case u.Kind == schema.UnownedTemplate:
		return fmt.Sprintf("%s:%d declares it: change it there, or give this one a name of its own", u.Declared.File, u.Declared.Line)
	case u.Kind == schema.UnownedComputed:
		return "write out the host or the service in its own file; a constraint on all of them is a pattern in a shared file, outside hosts/ and services/"
	case u.Owner == "":
		return "write it in a shared file, outside hosts/ and services/"
	}
	if !strings.Contains(u.Owner, "/") { // generation.cue, authority.cue
		return "write it in " + u.Owner
	}
	return "write it in " + u.Owner + "; what several files share is a template, _name or #Name, to which each of them refers"
}
