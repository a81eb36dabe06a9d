package schema

import (
	"strings"

	"stado.internal/stado/fleet"
)

// FieldPath is [fleet.FieldPath].
func FieldPath(labels ...string) string { return fleet.FieldPath(labels...) }

// join is FieldPath(…, label) for a parent that is a field path already.
func join(parent, label string) string {
	if parent == "" {
		return FieldPath(label)
	}
	return parent + "." + FieldPath(label)
}

// parentPath cuts the last label off a field path; the parent of a top-level field is "".
func parentPath(p string) string {
	quoted := false
	for i := len(p) - 1; i >= 0; i-- {
		switch p[i] {
		case '"':
			if !quoted || !escaped(p, i) {
				quoted = !quoted
			}
		case '.':
			if !quoted {
				return p[:i]
			}
		}
	}
	return ""
}

// escaped reports whether an odd number of backslashes stands before p[i].
func escaped(p string, i int) bool {
	n := 0
	for i--; i >= 0 && p[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

// lastLabel is the last label of a field path, as written there.
func lastLabel(p string) string {
	return strings.TrimPrefix(p[len(parentPath(p)):], ".")
}

// At is the position of a field in a map of positions, or of the nearest enclosing field that has one.
func At(positions map[string]Position, fieldPath string) Position {
	for p := fieldPath; ; p = parentPath(p) {
		if at, ok := positions[p]; ok || p == "" {
			return at
		}
	}
}
