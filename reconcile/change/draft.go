package change

import (
	"maps"
	"slices"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/schema"
	"stado.internal/stado/schema/edit"
)

// rootLabel is the field that holds the registry in every file.
const rootLabel = "registry"

// Draft is a registry that is being changed: what its base holds, and the files as they will be. It is not safe for concurrent use.
type Draft struct {
	Commit    string // the base
	Document  []byte // the base's compiled document
	Digest    string
	Registry  *fleet.Registry
	Positions map[string]schema.Position
	Subject   Subject // what the commit says; the edit sets it

	verdict       source.Verdict    // on the base
	base          map[string][]byte // the base's files, by path
	open          map[string]*edit.File
	removed       map[string]bool
	others        map[string]entry // files that are no part of the registry, by path inside the repository
	generationSet bool
	accept        func(*fleet.Registry, string) error
	said          []said
}

func newDraft(commit string, v source.Verdict, registry *fleet.Registry, files map[string][]byte) *Draft {
	return &Draft{
		Commit: commit, Document: v.Document, Digest: v.Digest, Registry: registry, Positions: v.Positions,
		verdict: v, base: files, open: map[string]*edit.File{}, removed: map[string]bool{}, others: map[string]entry{},
	}
}

// Accept sets what the result, a document with its digest, must say beyond being a good registry: the edit meant something, and a
// template or another file could have kept it from happening.
func (d *Draft) Accept(check func(next *fleet.Registry, digest string) error) { d.accept = check }

// KeepGeneration says that the edit decides about the generation itself.
func (d *Draft) KeepGeneration() { d.generationSet = true }

// Put makes the field at labels, which count from below `registry`, equal to a Go value with JSON tags, in the file that writes it or
// the struct around it.
func (d *Draft) Put(value any, labels ...string) error {
	v, err := edit.Marshal(value)
	if err != nil {
		return err
	}
	return d.PutValue(v, labels...)
}

// PutValue is [Draft.Put] for data.
func (d *Draft) PutValue(v edit.Value, labels ...string) error {
	f, err := d.fileOf(labels)
	if err != nil {
		return err
	}
	d.generationSet = d.generationSet || schema.FieldPath(labels...) == generationPath
	d.say(v, labels)
	return f.Put(v, append([]string{rootLabel}, labels...)...)
}

// Delete removes the field at labels from the file that writes it.
func (d *Draft) Delete(labels ...string) error {
	f, err := d.fileOf(labels)
	if err != nil {
		return err
	}
	d.unsay(labels)
	return f.Delete(append([]string{rootLabel}, labels...)...)
}

// fileOf is the file that gives a field, else the one that gives the nearest field around it.
func (d *Draft) fileOf(labels []string) (*edit.File, error) {
	p := schema.At(d.Positions, schema.FieldPath(labels...))
	if p.File == "" || d.removed[p.File] {
		return nil, &RefusedError{Message: sayNowhere(schema.FieldPath(labels...))}
	}
	return d.file(p.File)
}

func (d *Draft) file(name string) (*edit.File, error) {
	if f, ok := d.open[name]; ok {
		return f, nil
	}
	f, err := edit.Open(name, d.base[name])
	if err != nil {
		return nil, err
	}
	d.open[name] = f
	return f, nil
}

// Create makes a new file of the registry that says one field.
func (d *Draft) Create(name string, value any, labels ...string) error {
	v, err := edit.Marshal(value)
	if err != nil {
		return err
	}
	return d.CreateValue(name, v, labels...)
}

// CreateValue is [Draft.Create] for data.
func (d *Draft) CreateValue(name string, v edit.Value, labels ...string) error {
	_, tracked := d.base[name]
	_, made := d.open[name]
	if tracked || made {
		return &RefusedError{Message: sayExists(name)}
	}
	f, err := NewFile(name, v, labels...)
	if err != nil {
		return err
	}
	d.open[name] = f
	d.say(v, labels)
	return nil
}

// said is what an edit made a field say.
type said struct {
	labels []string
	value  edit.Value
}

func (d *Draft) say(v edit.Value, labels []string) {
	d.unsay(labels)
	d.said = append(d.said, said{slices.Clone(labels), v})
}

// unsay forgets what was said of a field, of what is inside it, and of what it is inside: it is said anew.
func (d *Draft) unsay(labels []string) {
	d.said = slices.DeleteFunc(d.said, func(s said) bool {
		n := min(len(s.labels), len(labels))
		return slices.Equal(s.labels[:n], labels[:n])
	})
}

// holds refuses a result that does not say what the edit wrote: a file that is not read says nothing.
func (d *Draft) holds(document []byte) error {
	next, err := edit.ReadJSON("", document)
	if err != nil {
		return err
	}
	for _, s := range d.said {
		held, ok := next.At(s.labels...)
		inner, _, missing := s.value.Missing(held)
		if !ok || missing {
			return &RefusedError{Message: sayNotHeld(schema.FieldPath(append(slices.Clone(s.labels), inner...)...))}
		}
	}
	return nil
}

// NewFile is a registry file that says one field below `registry`.
func NewFile(name string, v edit.Value, labels ...string) (*edit.File, error) {
	f, err := edit.Open(name, []byte("package fleet\n"))
	if err != nil {
		return nil, err
	}
	return f, f.Put(v, append([]string{rootLabel}, labels...)...)
}

// Remove takes a whole file out of the registry.
func (d *Draft) Remove(name string) {
	delete(d.open, name)
	d.removed[name] = true
}

// result is every file as the edit leaves it.
func (d *Draft) result(changed map[string][]byte) map[string][]byte {
	out := maps.Clone(d.base)
	for name, data := range changed {
		if data == nil {
			delete(out, name)
			continue
		}
		out[name] = data
	}
	return out
}
