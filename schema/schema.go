// Package schema turns the text of a registry into its model: it embeds the closed CUE schema, compiles a set of files held in memory
// against it, and renders the compiled document in its canonical form.
//
// It reads no file system and no network. CUE has no budget and no cancellation, so [Compile] belongs in a process that has limits; its
// gates refuse what can be refused by looking, and Options.Progress says what it had begun when the limit came.
package schema

import (
	"embed"
	"io/fs"
	"path"
	"sync"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema/literal"
)

// ImportPath is the import path of the schema in a registry repository.
const ImportPath = "stado.internal/schema"

// VendorDir is the directory of a registry repository that holds the vendored schema, for plain `cue vet`.
func VendorDir() string { return "cue.mod/pkg/" + ImportPath }

//go:embed *.cue
var embedded embed.FS

// File is one file of a registry: its slash-separated path inside the repository, and its bytes.
type File struct {
	Path string
	Data []byte
}

// Position is a place in a file of the registry; Line and Column count from 1, 0 is unknown.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// Files is the embedded schema, in lexical order, with base names as paths; the bytes are the caller's own.
func Files() []File {
	names, err := fs.Glob(embedded, "*.cue")
	if err != nil {
		panic(err) // a constant pattern
	}
	files := make([]File, len(names))
	for i, name := range names {
		data, err := embedded.ReadFile(name)
		if err != nil {
			panic(err) // the name comes from the embedded directory
		}
		files[i] = File{Path: name, Data: data}
	}
	return files
}

// Options of [Compile]. The zero value is ready to use.
type Options struct {
	// Progress, if set, is called as work on a file begins, by one goroutine at a time: with phase "gate", "parse", "evaluate" or
	// "render" (which has no file). When an evaluation runs into a limit, the last call names the phase and the file.
	Progress func(phase, file string)
	// Cache, if set, remembers what files came to.
	Cache Cache
	// IDs names the bytes of files by path: files with one name, such as a git object's, have the same bytes. What depends on a file
	// without a name is not cached.
	IDs map[string]string
	// Read gives the bytes of the file at a path whose Data is nil, as far as they are needed. It is called by one goroutine at a time;
	// its errors are in Compiled.Err.
	Read func(path string) ([]byte, error)
	// Sparse leaves out of Compiled.Positions what is inside the hosts and services that have files of their own: half a million places in
	// a registry of ten thousand hosts. Compiled.At finds them anyway.
	Sparse bool
}

// The phases that Options.Progress names.
const (
	phaseGate     = "gate"
	phaseParse    = "parse"
	phaseEvaluate = "evaluate"
	phaseRender   = "render"
)

// Compiled is what [Compile] made of a set of files.
type Compiled struct {
	// Document is the canonical JSON, nil when Findings refuse.
	Document []byte
	// Digest is the hex SHA-256 of Document.
	Digest string
	// Registry is Document as a model, nil when Findings refuse.
	Registry *fleet.Registry
	// Findings are sorted, without repetition, and at most MaxFindings and one more that counts the rest.
	Findings fleet.Findings
	// Positions says where the files give a value, by field path (see [FieldPath] and Options.Sparse). A value that comes out of a template
	// has none.
	Positions map[string]Position
	// Unowned are the places where a file gives what another one owns. They refuse nothing here; the policies do.
	Unowned []Unowned
	// Counts says how much was evaluated.
	Counts Counts
	// Separate: the change of one host's file, or of the generation's, changes that host or the generation and nothing else; see [Changes.Of].
	Separate bool
	// Err says that Options.Read failed; there is no document then, and the findings are not all.
	Err error

	places *places
}

// At is the position of a field, or of the nearest enclosing field that has one. It may read files, and adds to Positions.
func (c Compiled) At(fieldPath string) Position {
	if c.places == nil {
		return At(c.Positions, fieldPath)
	}
	return c.places.at(fieldPath)
}

// Compile compiles the files of one registry. Files that are not CUE, and those that the cue command skips, are ignored; the order of
// files has no influence. Whatever is wrong with them is a finding, never a panic.
func Compile(files []File, o Options) Compiled {
	return newCompiler(o).compile(files)
}

func newCompiler(o Options) *compiler {
	return readText().compiler(o)
}

// wording is the embedded schema as far as it is read without the evaluator.
type wording struct {
	shape   *shape
	literal *literal.Schema
}

func readText() wording {
	files := schemaText()
	return wording{schemaShape(files), literal.New(files, "#Registry")}
}

func (w wording) compiler(o Options) *compiler {
	c := &compiler{
		options: o, evaluate: evaluateCUE, session: func() func(unit) fragments { return newSession().evaluate },
		shape: w.shape, literal: w.literal, cache: o.Cache, largest: MaxDocument,
	}
	c.where = &places{shape: c.shape, index: index{}, pending: map[entryKey][]source{}, read: c.loaded}
	return c
}

// compiler is one run of [Compile].
type compiler struct {
	options Options
	begun   sync.Mutex // keeps calls of options.Progress apart
	// evaluate turns one unit of work into fragments; it is called from several goroutines.
	evaluate func(unit) fragments
	// session gives a way to evaluate a few units one after the other.
	session  func() func(unit) fragments
	literal  *literal.Schema // nil: nothing is admitted without the evaluator
	cache    Cache
	known    map[string]source // files that the cache knows, by path
	largest  int               // bytes of the document
	apart    bool              // see Compiled.Separate
	whole    bool              // evaluate everything as one instance, whatever the files allow
	shape    *shape
	files    map[string][]byte
	findings collector
	where    *places
	owners   owners
	counts   Counts
	err      error
}

func (c *compiler) begin(phase, file string) {
	if c.options.Progress != nil {
		c.begun.Lock()
		defer c.begun.Unlock()
		c.options.Progress(phase, file)
	}
}

func (c *compiler) compile(files []File) Compiled {
	document, registry := c.document(files)
	if !c.options.Sparse {
		c.where.all()
	}
	out := Compiled{
		Findings: c.findings.list(), Positions: c.where.index, Unowned: c.owners.list(), Counts: c.counts, Err: c.err, places: c.where,
	}
	if out.Findings.Refuses() || out.Err != nil {
		return out
	}
	out.Document, out.Digest, out.Registry, out.Separate = document, Digest(document), registry, c.apart
	return out
}

// document runs the stages; each refuses before the next one reads more of the input.
func (c *compiler) document(files []File) ([]byte, *fleet.Registry) {
	sources := c.gateFiles(files)
	if c.findings.refuses() || c.err != nil {
		return nil, nil
	}
	c.files = make(map[string][]byte, len(sources))
	for _, f := range sources {
		c.files[f.Path] = f.Data
	}
	parsed := c.parse(sources)
	if c.findings.refuses() && !c.findings.only(RuleUnknown, RuleRetired) {
		return nil, nil
	}
	result := c.run(c.plan(parsed))
	if c.findings.refuses() || c.err != nil {
		return nil, nil
	}
	c.begin(phaseRender, "")
	document, err := result.render()
	if err != nil {
		c.findings.add(refusal(RuleValue, Position{}, "", sayRender(err)))
		return nil, nil
	}
	if len(document) > c.largest {
		c.findings.add(hinted(refusal(RuleDocument, Position{}, "", sayDocument(len(document), c.largest)), hintDocument))
		return nil, nil
	}
	registry, err := fleet.Decode(document)
	if err != nil {
		c.findings.add(refusal(RuleValue, Position{}, "", err.Error()))
		return nil, nil
	}
	return document, registry
}

// loaded is a source with its bytes.
func (c *compiler) loaded(s source) (source, error) {
	if s.data != nil || !s.known || c.options.Read == nil {
		return s, nil
	}
	data, err := c.options.Read(s.path)
	if err != nil {
		return s, err
	}
	s.data = data
	c.files[s.path] = data
	return s, nil
}

// load reads the bytes of sources that the evaluator is going to need.
func (c *compiler) load(sources []source) {
	for i, s := range sources {
		var err error
		if sources[i], err = c.loaded(s); err != nil && c.err == nil {
			c.err = err
		}
	}
}

// schemaFile is the name under which the embedded schema appears in positions of CUE: never a path that is loaded from a registry.
func schemaFile(name string) string { return path.Join(VendorDir(), name) }
