package schema

import (
	"encoding/json"
	"fmt"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// entry is one host or service and the files that declare it: one as a rule, more when several files give parts of it.
type entry struct {
	kind, name string
	sources    []source
}

// unit is one piece of work for the evaluator: files that are evaluated as one instance, and the entries that are wanted of it. With
// no entries the whole registry value is wanted.
type unit struct {
	sources []source
	entries []entry
}

// fragments is what a unit evaluates to.
type fragments struct {
	err error // a CUE error; nothing else is set then, except names
	// registry is the canonical JSON of the whole value, for a unit without entries.
	registry []byte
	// names are the hosts and services that exist in the value of a unit without entries, even if it is in error.
	names map[entryKey]bool
	// entries holds the canonical JSON of each entry, in the order of the unit.
	entries [][]byte
}

type entryKey struct{ kind, name string }

// bindFile makes every instance a registry, whatever the registry's own files bind.
const (
	bindFile = "stado:registry"
	bindText = "package fleet\n\nimport \"" + ImportPath + "\"\n\nregistry: schema.#Registry\n"
)

// evaluateCUE evaluates one unit.
func evaluateCUE(u unit) fragments { return newSession().evaluate(u) }

// session evaluates a few units, with the schema compiled once. A context keeps everything it has ever evaluated, so a session is short.
type session struct {
	context *cue.Context
	build   *build.Context
	schema  *build.Instance
}

func newSession() *session {
	s := &session{context: cuecontext.New()}
	s.build = build.NewContext(build.Loader(func(_ token.Pos, importPath string) *build.Instance {
		if importPath != ImportPath {
			return nil
		}
		if s.schema == nil {
			s.schema = schemaInstance(s.build)
		}
		return s.schema
	}))
	return s
}

func (s *session) evaluate(u unit) (out fragments) {
	defer func() {
		// The evaluator is given text by strangers. It should never panic; if it does, that refuses the registry and nothing else.
		if what := recover(); what != nil {
			out = fragments{err: fmt.Errorf("%s", sayInternal(what))}
		}
	}()
	instance, err := newInstance(s.build, u.sources)
	if err != nil {
		return fragments{err: err}
	}
	value := s.context.BuildInstance(instance)
	registry := value.LookupPath(cue.ParsePath(rootLabel))
	if len(u.entries) == 0 {
		out.names = entryNames(registry)
	}
	// What cue vet -c asks for, so that both say the same.
	err = value.Validate(cue.Concrete(true), cue.Attributes(true), cue.Optional(true), cue.Definitions(true), cue.Hidden(true))
	if err != nil {
		out.err = err
		return out
	}
	if len(u.entries) == 0 {
		out.registry, out.err = renderValue(registry)
		return out
	}
	for _, e := range u.entries {
		labels := leaf{kind: e.kind, name: e.name}.path()
		selectors := make([]cue.Selector, len(labels))
		for i, label := range labels {
			selectors[i] = cue.Str(label)
		}
		raw, err := renderValue(registry.LookupPath(cue.MakePath(selectors...)))
		if err != nil {
			return fragments{err: err}
		}
		out.entries = append(out.entries, raw)
	}
	return out
}

// newInstance builds a package by hand, from files in memory. The only import besides the standard packages is the embedded schema.
func newInstance(ctx *build.Context, sources []source) (*build.Instance, error) {
	instance := ctx.NewInstance("", nil)
	bind, err := parser.ParseFile(bindFile, bindText)
	if err != nil {
		return nil, err
	}
	files := []*ast.File{bind}
	for _, s := range sources {
		file, err := parseCUE(s.path, s.data)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	for _, f := range files {
		if err := instance.AddSyntax(f); err != nil {
			return nil, err
		}
	}
	if err := instance.Complete(); err != nil {
		return nil, err
	}
	return instance, nil
}

func schemaInstance(ctx *build.Context) *build.Instance {
	instance := ctx.NewInstance(VendorDir(), nil)
	for _, f := range Files() {
		file, err := parser.ParseFile(schemaFile(f.Path), f.Data)
		if err == nil {
			err = instance.AddSyntax(file)
		}
		if err != nil {
			panic(err) // the embedded schema; every test would fail
		}
	}
	if err := instance.Complete(); err != nil {
		panic(err)
	}
	return instance
}

func entryNames(registry cue.Value) map[entryKey]bool {
	out := map[entryKey]bool{}
	for kind, p := range map[string]string{hostsLabel: hostsLabel, servicesLabel: directoryLabel + "." + servicesLabel} {
		fields, err := registry.LookupPath(cue.ParsePath(p)).Fields()
		if err != nil {
			continue
		}
		for fields.Next() {
			out[entryKey{kind, fields.Selector().Unquoted()}] = true
		}
	}
	return out
}

func renderValue(v cue.Value) ([]byte, error) {
	raw, err := v.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return Canonical(json.RawMessage(raw))
}
