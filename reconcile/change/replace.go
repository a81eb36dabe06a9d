package change

import (
	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
	"stado.internal/stado/schema/edit"
)

// Replace makes the registry say a whole document: only what differs is edited, where it is written. It fails when the difference
// concerns what files compute, and the change is refused when its result does not say the document to the byte.
func (d *Draft) Replace(next Document) error {
	now, err := edit.ReadJSON("", d.Document)
	if err != nil {
		return err
	}
	d.KeepGeneration()
	d.Accept(func(_ *fleet.Registry, digest string) error {
		if digest != next.Digest {
			return &RefusedError{Message: sayNotTheDocument}
		}
		return nil
	})
	return d.difference(now, next.Compiled, nil)
}

// MissingKeys are the top-level keys that the base has and a document as it was written has not.
func (d *Draft) MissingKeys(next Document) ([]string, error) {
	now, err := edit.ReadJSON("", d.Document)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range now.Members() {
		if _, ok := next.Written.Field(m.Name); !ok {
			out = append(out, m.Name)
		}
	}
	return out, nil
}

func (d *Draft) difference(now, next edit.Value, labels []string) error {
	if now.Members() == nil || next.Members() == nil {
		if now.Equal(next) {
			return nil
		}
		return d.PutValue(next, labels...)
	}
	for _, m := range now.Members() {
		if _, kept := next.Field(m.Name); !kept {
			if err := d.drop(m.Value, under(labels, m.Name)); err != nil {
				return err
			}
		}
	}
	for _, m := range next.Members() {
		old, there := now.Field(m.Name)
		path := under(labels, m.Name)
		var err error
		switch {
		case there:
			err = d.difference(old.Value, m.Value, path)
		case hasOwnFile(path):
			err = d.add(m.Value, path)
		default:
			err = d.PutValue(m.Value, path...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func under(labels []string, name string) []string {
	return append(labels[:len(labels):len(labels)], name)
}

// container reports whether a path is a map of things that have files of their own.
func container(labels []string) bool {
	p := schema.FieldPath(labels...)
	return p == hosts || p == directory+"."+services
}

// hasOwnFile reports whether a path is a part of the registry that is given a file when it is new.
func hasOwnFile(labels []string) bool {
	return len(labels) == 1 || len(labels) == 2 && (labels[0] == hosts || labels[0] == directory) || len(labels) == 3 && container(labels[:2])
}

func (d *Draft) add(v edit.Value, labels []string) error {
	if container(labels) {
		for _, m := range v.Members() {
			if err := d.add(m.Value, under(labels, m.Name)); err != nil {
				return err
			}
		}
		return nil
	}
	name, ok := fileFor(labels)
	if !ok {
		return &RefusedError{Message: sayNowhere(schema.FieldPath(labels...))}
	}
	return d.CreateValue(name, v, labels...)
}

// drop takes a part out of the registry, and its file when nothing else is in it.
func (d *Draft) drop(v edit.Value, labels []string) error {
	if container(labels) {
		for _, m := range v.Members() {
			if err := d.drop(m.Value, under(labels, m.Name)); err != nil {
				return err
			}
		}
		return nil
	}
	f, err := d.fileOf(labels)
	if err != nil {
		return err
	}
	if err := f.Delete(append([]string{rootLabel}, labels...)...); err != nil {
		return err
	}
	if f.Empty() {
		d.Remove(f.Name())
	}
	return nil
}
