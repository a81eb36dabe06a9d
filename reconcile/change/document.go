package change

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/schema"
	"stado.internal/stado/schema/edit"
)

// Document is a whole registry as JSON, judged.
type Document struct {
	Written  edit.Value // as it was given
	Compiled edit.Value // in canonical form, with the schema's defaults
	Bytes    []byte     // Compiled, as canonical JSON: what Digest is the digest of
	Registry *fleet.Registry
	Digest   string
	Files    map[string][]byte // the same as a registry repository has it, without its module and its binding to the schema
}

const (
	directory = "service_directory"
	hosts     = "hosts"
	services  = "services"
	bindText  = "package fleet\n\nimport \"" + schema.ImportPath + "\"\n\nregistry: schema.#Registry\n"
)

// identifier is the form of names, which have at most maxName characters.
var identifier = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)

const maxName = 63

// ReadDocument judges a document as every agent would judge the registry that says it. What it refuses is named with its line in the
// document, file being its name; a field that was retired is as unknown to a document as one that never was.
func ReadDocument(ctx context.Context, e source.Evaluator, file string, data []byte) (Document, error) {
	var out Document
	var err error
	if out.Written, err = edit.ReadJSON(file, data); err != nil {
		return out, &RefusedError{Message: err.Error()}
	}
	if out.Files, err = layOutDocument(file, out.Written); err != nil {
		return out, err
	}
	scratch, err := os.MkdirTemp("", "stado-document-")
	if err != nil {
		return out, fmt.Errorf("cannot make a directory to judge the document in: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	tree := filepath.Join(scratch, "tree")
	all := map[string][]byte{"registry.cue": []byte(bindText)}
	maps.Copy(all, out.Files)
	if err := layOut(tree, all); err != nil {
		return out, fmt.Errorf("cannot lay out the document to judge it: %w", err)
	}
	v, err := e.WorkTree(ctx, tree)
	if err != nil {
		return out, err
	}
	if v.Findings.Refuses() {
		return out, &RefusedError{Message: sayDocumentRefused(file), Findings: inDocument(file, out.Written, v.Findings)}
	}
	if out.Registry, err = fleet.Decode(v.Document); err != nil {
		return out, err
	}
	out.Digest, out.Bytes = v.Digest, v.Document
	if out.Compiled, err = edit.ReadJSON(file, v.Document); err != nil {
		return out, err
	}
	if labels, line, missing := out.Written.Missing(out.Compiled); missing {
		return out, &RefusedError{Message: sayNotCompiled(file, line, schema.FieldPath(labels...))}
	}
	return out, nil
}

// layOutDocument spreads a document over the files in which people expect its parts.
func layOutDocument(file string, v edit.Value) (map[string][]byte, error) {
	out := map[string][]byte{}
	if v.Members() == nil {
		return nil, &RefusedError{Message: sayNotDocument(file)}
	}
	for _, m := range v.Members() {
		switch {
		case m.Name == hosts && m.Value.Members() != nil:
			for _, host := range m.Value.Members() {
				if err := addFile(out, file, host, hosts, host.Name); err != nil {
					return nil, err
				}
			}
		case m.Name == directory && m.Value.Members() != nil:
			for _, part := range m.Value.Members() {
				if part.Name != services || part.Value.Members() == nil {
					if err := addFile(out, file, part, directory, part.Name); err != nil {
						return nil, err
					}
					continue
				}
				for _, s := range part.Value.Members() {
					if err := addFile(out, file, s, directory, services, s.Name); err != nil {
						return nil, err
					}
				}
			}
		default:
			if err := addFile(out, file, m, m.Name); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func addFile(out map[string][]byte, file string, m edit.Member, labels ...string) error {
	name, ok := fileFor(labels)
	switch {
	case !ok && hasOwnName(labels):
		return &RefusedError{Message: sayBadName(file, m.Line, schema.FieldPath(labels...))}
	case !ok:
		name = fmt.Sprintf("part-%d.cue", len(out)) // what refuses it needs it to stand somewhere
	}
	f, err := NewFile(name, m.Value, labels...)
	if err != nil {
		return err
	}
	out[name] = f.Bytes()
	return nil
}

// hasOwnName reports whether a path is that of a host or a service.
func hasOwnName(labels []string) bool {
	return len(labels) == 2 && labels[0] == hosts || len(labels) == 3
}

// fileFor is the file in which a part of the registry is expected; false when there is none.
func fileFor(labels []string) (string, bool) {
	name := labels[len(labels)-1]
	if len(name) > maxName || !identifier.MatchString(name) {
		return "", false
	}
	switch {
	case len(labels) == 2 && labels[0] == hosts:
		return hosts + "/" + schema.EntryFile(name), true
	case len(labels) == 3:
		return services + "/" + schema.EntryFile(name), true
	case len(labels) == 2:
		return name + ".cue", name == "generation" || name == "authority"
	}
	return schema.EntryFile(name), !slices.Contains([]string{rootLabel, "generation", "authority"}, name)
}

// inDocument gives findings about files that we laid out the lines of the document.
func inDocument(file string, v edit.Value, findings fleet.Findings) fleet.Findings {
	table, err := policies.Retired()
	out := slices.Clone(findings)
	for i, f := range out {
		labels := splitPath(f.Path)
		out[i].File, out[i].Line, out[i].Column = file, lineOf(v, labels), 0
		if f.Rule != schema.RuleRetired || err != nil || len(labels) == 0 {
			continue
		}
		for _, retired := range table {
			if retired.Field == labels[len(labels)-1] {
				out[i].Message = retired.Unknown()
			}
		}
	}
	out.Sort()
	return out
}

// splitPath is the inverse of [schema.FieldPath].
func splitPath(p string) []string {
	var out []string
	for p != "" {
		if quoted, err := strconv.QuotedPrefix(p); err == nil && strings.HasPrefix(p, `"`) {
			label, _ := strconv.Unquote(quoted) // QuotedPrefix says that it is quoted well
			out, p = append(out, label), strings.TrimPrefix(p[len(quoted):], ".")
			continue
		}
		label, rest, _ := strings.Cut(p, ".")
		out, p = append(out, label), rest
	}
	return out
}

// lineOf is the line of a field, or of the nearest enclosing one that is written.
func lineOf(v edit.Value, labels []string) int {
	line := v.Line
	for _, label := range labels {
		if m, ok := v.Field(label); ok {
			line, v = m.Line, m.Value
			continue
		}
		items, _ := v.Data.([]edit.Value)
		n, err := strconv.Atoi(label)
		if err != nil || n < 0 || n >= len(items) {
			break
		}
		line, v = items[n].Line, items[n]
	}
	return line
}
