package schema

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
)

// Key names a result: it is made of everything that the result depends on, but for this program and its schema (see [Version]).
type Key = [sha256.Size]byte

// Cache keeps results between evaluations. It is called from one goroutine. What it gives for a key is what was put for that key by a
// program of the same [Version], or nothing; a cache that forgets costs time only.
type Cache interface {
	Get(Key) (value []byte, ok bool)
	Put(key Key, value []byte)
}

// Counts says how much of a registry was evaluated. A unit is a host or a service with all files that declare it; the shared files
// together; and, when files read each other so that nothing can be evaluated apart, the whole registry. Units = Cached + Literal + Evaluated.
type Counts struct {
	Units     int `json:"units"`
	Cached    int `json:"cached"`    // known from an earlier evaluation
	Literal   int `json:"literal"`   // pure data, admitted by the schema's text
	Evaluated int `json:"evaluated"` // evaluated as CUE
}

// Version names everything but the files of a registry that the result of an evaluation depends on, as far as this package knows: the
// schema, and the language. The program that uses a [Cache] adds what names the program itself.
func Version() string {
	h := sha256.New()
	for _, f := range Files() {
		h.Write([]byte(f.Path + "\x00" + string(f.Data) + "\x00"))
	}
	return languageVersion + " " + string(h.Sum(nil))
}

func keyOf(kind string, parts ...string) Key {
	return sha256.Sum256([]byte(kind + "\x00" + strings.Join(parts, "\x00")))
}

// facts is what is kept of a leaf: all that its bytes alone decide. The fragment follows as it is.
type facts struct {
	size    int
	kind    string
	name    string
	literal bool
	reads   []string
	places  [][2]int // line and column: of the entry's label, of its position, then of the fields around it, inner ones first
}

// encode writes facts as numbers and counted strings: ten thousand of them are read for every change.
func (f facts) encode() []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(f.size))
	texts := append([]string{f.kind, f.name}, f.reads...)
	literal := uint64(0)
	if f.literal {
		literal = 1
	}
	out = binary.AppendUvarint(binary.AppendUvarint(out, literal), uint64(len(texts)))
	for _, text := range texts {
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	out = binary.AppendUvarint(out, uint64(len(f.places)))
	for _, at := range f.places {
		out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(at[0])), uint64(at[1]))
	}
	return out
}

// decodeFacts is the reverse of encode; what is behind the facts is the rest.
func decodeFacts(raw []byte) (f facts, rest []byte, ok bool) {
	number := func() int {
		n, size := binary.Uvarint(raw)
		ok = ok && size > 0 && n <= maxTotalBytes
		if !ok {
			return 0
		}
		raw = raw[size:]
		return int(n)
	}
	if ok = len(raw) >= sizeBytes; !ok {
		return facts{}, nil, false
	}
	f.size, raw = int(binary.BigEndian.Uint32(raw)), raw[sizeBytes:]
	f.literal = number() == 1
	var texts []string
	for n := number(); n > 0 && ok; n-- {
		size := number()
		if ok = ok && size <= len(raw); ok {
			texts, raw = append(texts, string(raw[:size])), raw[size:]
		}
	}
	for n := number(); n > 0 && ok; n-- {
		f.places = append(f.places, [2]int{number(), number()})
	}
	if !ok || len(texts) < 2 || len(f.places) == 0 {
		return facts{}, nil, false
	}
	f.kind, f.name, f.reads = texts[0], texts[1], texts[2:]
	return f, raw, true
}

func factsKey(id string) Key { return keyOf("leaf", id) }

// declares notes what a known leaf declares: the entry that it owns.
func (o *owners) declares(s source) {
	note(&o.entries, entryKey{s.leaf.kind, s.leaf.name}, declared{ownerOf(s.path), s.at})
}

// entry is where a leaf declares its entry, if it owns it.
func (o *owners) entry(s source) (Position, bool) {
	if !s.leaf.ok() || !ownerOf(s.path).owns(s.leaf.path()) {
		return Position{}, false
	}
	all := o.entries[entryKey{s.leaf.kind, s.leaf.name}]
	i := slices.IndexFunc(all, func(d declared) bool { return d.at.File == s.path })
	if i < 0 {
		return Position{}, false
	}
	return all[i].at, true
}

// Known gives the size of the registry file at a path when a cache knows it by the name of its bytes: [Compile] may never need them then.
func Known(c Cache, path, id string) (size int, ok bool) {
	if skipped(path) {
		return 0, false
	}
	raw, ok := c.Get(factsKey(id))
	if !ok || len(raw) < sizeBytes {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(raw)), true
}

// sizeBytes is the length of a file's size in front of its facts.
const sizeBytes = 4

func factsOf(c Cache, id string) (f facts, fragment []byte, ok bool) {
	raw, ok := c.Get(factsKey(id))
	if !ok {
		return facts{}, nil, false
	}
	f, fragment, ok = decodeFacts(raw)
	if len(fragment) == 0 {
		fragment = nil
	}
	return f, fragment, ok
}

// keepFacts keeps what a leaf is, and where it declares its entry. Only a leaf that nothing is wrong with is kept, so that no finding is
// ever lost, and only one that owns what it declares.
func (c *compiler) keepFacts(s source, own index) {
	at, owned := c.owners.entry(s)
	if c.cache == nil || s.id == "" || !owned {
		return
	}
	f := facts{size: len(s.data), kind: s.leaf.kind, name: s.leaf.name, literal: s.literal, reads: s.reads, places: [][2]int{{at.Line, at.Column}}}
	for p := FieldPath(s.leaf.path()...); p != ""; p = parentPath(p) {
		f.places = append(f.places, [2]int{own[p].Line, own[p].Column})
	}
	c.cache.Put(factsKey(s.id), append(f.encode(), s.fragment...))
}

// recall is a file as it was when its bytes were last read, if they are known.
func (c *compiler) recall(f File) (s source, size int, ok bool) {
	id := c.options.IDs[f.Path]
	if c.cache == nil || id == "" || skipped(f.Path) {
		return source{}, 0, false
	}
	got, fragment, ok := factsOf(c.cache, id)
	if !ok {
		return source{}, 0, false
	}
	s = source{
		path: f.Path, data: f.Data, id: id, leaf: leaf{kind: got.kind, name: got.name, literal: got.literal},
		literal: got.literal, fragment: fragment, reads: got.reads, known: true,
	}
	if !ownerOf(f.Path).owns(s.leaf.path()) {
		return source{}, 0, false // content is known, and is in the wrong place
	}
	s.at = Position{File: f.Path, Line: got.places[0][0], Column: got.places[0][1]}
	p := FieldPath(s.leaf.path()...)
	for _, at := range got.places[1:] {
		c.where.index.add(p, Position{File: f.Path, Line: at[0], Column: at[1]})
		p = parentPath(p)
	}
	return s, got.size, true
}

// memo computes the keys of units. Its zero value knows none.
type memo struct {
	cache  Cache
	shared []source
	passed []source // shared files of plain data that nothing shared can read: they cannot have a say in hosts and services
	active string   // names the other shared files
	full   string   // names all shared files
}

func newMemo(cache Cache, entriesApart bool, shared []source) memo {
	m := memo{cache: cache, shared: shared}
	var active []source
	for i, s := range shared {
		passed := entriesApart && s.literal && s.apart && !slices.ContainsFunc(slices.Delete(slices.Clone(shared), i, i+1), func(o source) bool {
			return canRead(o.reads, s.labels)
		})
		if passed {
			m.passed = append(m.passed, s)
		} else {
			active = append(active, s)
		}
	}
	var ok1, ok2 bool
	m.active, ok1 = contents(active)
	m.full, ok2 = contents(shared)
	if !ok1 || !ok2 {
		m.cache = nil
	}
	return m
}

// contents names the bytes of files; false when one has no name.
func contents(sources []source) (string, bool) {
	ids := make([]string, len(sources))
	for i, s := range sources {
		if ids[i] = s.id; s.id == "" {
			return "", false
		}
	}
	slices.SortFunc(ids, cmp.Compare)
	return strings.Join(ids, " "), true
}

// ofEntry is the key of a host or a service: its own files, and the shared files that can have a say in it.
func (m memo) ofEntry(e entry) (Key, bool) {
	own, ok := contents(e.sources)
	if m.cache == nil || !ok {
		return Key{}, false
	}
	shared := m.active
	for _, p := range m.passed {
		if slices.ContainsFunc(e.sources, func(s source) bool { return canRead(s.reads, p.labels) }) {
			shared = m.full
		}
	}
	return keyOf("entry", e.kind, e.name, own, shared), true
}

func (m memo) ofShared() (Key, bool) { return keyOf("shared", m.full), m.cache != nil }

func (m memo) ofWhole(all []source) (Key, bool) {
	every, ok := contents(all)
	return keyOf("whole", every), m.cache != nil && ok
}

// get is what is known for a key.
func (m memo) get(k Key, known bool) ([]byte, bool) {
	if !known {
		return nil, false
	}
	return m.cache.Get(k)
}

func (m memo) put(k Key, known bool, value []byte) {
	if known {
		m.cache.Put(k, value)
	}
}

// sharedValue is what is kept of the shared files.
type sharedValue struct {
	Registry json.RawMessage     `json:"registry"`
	Names    map[string][]string `json:"names"`
}

func (m memo) getShared() (fragments, bool) {
	raw, ok := m.get(m.ofShared())
	var v sharedValue
	if !ok || json.Unmarshal(raw, &v) != nil || v.Registry == nil {
		return fragments{}, false
	}
	out := fragments{registry: v.Registry, names: map[entryKey]bool{}}
	for kind, names := range v.Names {
		for _, name := range names {
			out.names[entryKey{kind, name}] = true
		}
	}
	return out, true
}

func (m memo) putShared(got fragments) {
	v := sharedValue{Registry: got.registry, Names: map[string][]string{}}
	for k := range got.names {
		v.Names[k.kind] = append(v.Names[k.kind], k.name)
	}
	if raw, err := encode(v); err == nil {
		k, known := m.ofShared()
		m.put(k, known, raw)
	}
}
