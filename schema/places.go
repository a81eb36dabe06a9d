package schema

// index says where a field is given, by field path.
type index map[string]Position

// add keeps the place in the first file, in the order of paths, that gives a field, and the first place in it.
func (i index) add(fieldPath string, at Position) {
	if known, ok := i[fieldPath]; !ok || at.File < known.File {
		i[fieldPath] = at
	}
}

// places finds positions. Those inside hosts and services are looked up when somebody asks: a registry of ten thousand hosts has half a
// million of them, and as a rule nobody does.
type places struct {
	shape   *shape
	index   index
	pending map[entryKey][]source // the leaves that were not looked into
	read    func(source) (source, error)
}

// at is the position of a field, or of the nearest enclosing field that has one.
func (p *places) at(fieldPath string) Position {
	p.locate(fieldPath)
	return At(p.index, fieldPath)
}

// locate completes the index for the host or the service that a field belongs to.
func (p *places) locate(fieldPath string) {
	k, ok := entryOf(fieldPath)
	if !ok {
		return
	}
	sources := p.pending[k]
	delete(p.pending, k)
	for _, s := range sources {
		s, err := p.read(s)
		if err != nil {
			continue // the position of the entry is the best there is
		}
		if file, err := parseCUE(s.path, s.data); err == nil {
			walker{index: p.index, file: s.path, shape: p.shape}.walk(file)
		}
	}
}

// all completes the index for everything.
func (p *places) all() {
	for k := range p.pending {
		p.locate(FieldPath(leaf{kind: k.kind, name: k.name}.path()...))
	}
}
