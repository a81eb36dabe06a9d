package schema

import (
	"path"

	"stado.internal/stado/fleet"
)

// Change is what the change of one file comes to in a registry that is [Compiled.Separate]: another host, or another generation.
type Change struct {
	Host       fleet.HostName   `json:"host,omitempty"`       // empty for a generation
	Value      []byte           `json:"value,omitempty"`      // of the host: canonical JSON
	Generation fleet.Generation `json:"generation,omitempty"` // 0 for a host
	// Positions are those that the file gives outside its host, as in [Compiled.Positions].
	Positions map[string]Position `json:"positions,omitempty"`
}

// maxChanged is how large a file may be whose change is looked at by itself.
const maxChanged = 64 << 10

// Changes judges changes of single files. It is immutable and safe for concurrent use.
type Changes struct{ schema wording }

// NewChanges reads what [Changes.Of] needs of the schema, and judges a change, so that the first one that counts meets compiled expressions
// and code that is in memory. It takes as long as several changes do; one that waits for something else meanwhile loses nothing.
func NewChanges() *Changes {
	k := &Changes{readText()}
	for _, f := range []File{{"hosts/h.cue", []byte(usualHost)}, {GenerationFile, []byte(usualGeneration)}} {
		_, _ = k.Of(f, f) // a test sees to it that it is accepted
	}
	return k
}

// What changes most often, with the fields that most hosts have.
const (
	usualHost = `package fleet

registry: hosts: h: {
	ssh: "stado@h.example.net"
	hostnames: ["h.example.net"]
	region: "r"
	labels: role: "r"
	service_resolver: {
		api_bind:          "127.0.0.1:7700"
		refresh_seconds:   5
		max_stale_seconds: 60
		adapters: [{service: "s", consumer: "c", bind: "127.0.0.1:7701"}]
	}
}
`
	usualGeneration = "package fleet\n\nregistry: service_directory: generation: 1\n"
)

// Of judges the change of one file, of which before was part of a registry that is Separate and has no finding at all. It may only
// accept: the registry with after in its place then has no finding of this package either, is Separate too, and differs in nothing but
// the change. When it does not, the registry has to be compiled.
func (k *Changes) Of(before, after File) (out Change, ok bool) {
	defer func() {
		if recover() != nil { // whatever it is, the evaluation finds it again and says so
			out, ok = Change{}, false
		}
	}()
	if len(after.Data) > maxChanged || before.Path != after.Path {
		return Change{}, false
	}
	old, fs := parseText(before)
	if len(fs) > 0 {
		return Change{}, false
	}
	c := k.schema.compiler(Options{Sparse: true})
	parsed := c.parse(c.gateFiles([]File{after}))
	if len(parsed) != 1 || c.findings.offered > 0 || len(c.owners.list()) > 0 {
		return Change{}, false
	}
	s := parsed[0]
	out.Positions = c.where.index
	was := leafOf(old)
	switch {
	case s.leaf.kind == hostsLabel && s.fragment != nil && was.kind == s.leaf.kind && was.name == s.leaf.name:
		delete(out.Positions, FieldPath(s.leaf.path()...))
		out.Host, out.Value = fleet.HostName(s.leaf.name), s.fragment
		return out, true
	case s.path == GenerationFile && s.literal && literalFile(old) && c.entriesApart():
		if _, err := Generation(before); err != nil {
			return Change{}, false
		}
		g, err := Generation(after)
		out.Generation = g
		return out, err == nil && g > 0 && g <= MaxGeneration
	}
	return Change{}, false
}

// separate reports whether every host and every service is what the text of one file says and no file reads another, so that the change of
// one of these files, or of the generation, changes that and nothing else.
func (c *compiler) separate(p plan, shared fragments) bool {
	if p.whole || shared.err != nil || !c.entriesApart() {
		return false
	}
	for _, s := range p.shared {
		bind := len(s.reads) == 1 && s.reads[0] == path.Base(ImportPath)
		if !s.apart || !s.literal && !bind {
			return false
		}
	}
	for _, e := range p.entries {
		if len(e.sources) != 1 || e.sources[0].fragment == nil {
			return false
		}
	}
	return true
}
