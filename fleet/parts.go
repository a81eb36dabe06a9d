package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
)

// Parts is a canonical document that is taken apart, with its registry, so that one which follows on it costs what has changed. It is
// immutable, shares the memory of both, and is safe for concurrent use.
type Parts struct {
	document []byte
	registry *Registry
	pieces   pieces // without the services
	digest   func() string
}

func newParts(document []byte, registry *Registry, p pieces) *Parts {
	return &Parts{document, registry, p, sync.OnceValue(func() string {
		sum := sha256.Sum256(document)
		return hex.EncodeToString(sum[:])
	})}
}

// TakeApart takes the document apart that registry was decoded from. ok is false when it is not canonical, or has no hosts or no services.
func TakeApart(document []byte, registry *Registry) (p *Parts, ok bool) {
	c, ok := cut(document)
	c.services = nil
	return newParts(document, registry, c), ok && c.generation[0] != c.generation[1]
}

// Document is the document.
func (p *Parts) Document() []byte { return p.document }

// Digest is the document's SHA-256, in hex. It is computed once.
func (p *Parts) Digest() string { return p.digest() }

// Are reports whether the parts are those of this document and this registry, the same in memory; no parts are of nothing.
func (p *Parts) Are(document []byte, registry *Registry) bool {
	return p != nil && p.registry == registry && len(p.document) == len(document) && &p.document[0] == &document[0]
}

// Registry is the document decoded.
func (p *Parts) Registry() *Registry { return p.registry }

// Replace puts other values in the place of hosts, in canonical JSON, and another generation unless it is 0. The next document
// is made in room, which nobody may use any more, if that is large enough. ok is false when a host is not there, or a value does not decode.
func (p *Parts) Replace(hosts map[HostName][]byte, generation Generation, room []byte) (next *Parts, ok bool) {
	old := p.pieces
	size := len(p.document) + 20
	for _, value := range hosts {
		if !json.Valid(value) { // it could reach beyond its place
			return nil, false
		}
		size += len(value)
	}
	if cap(room) < size {
		room = make([]byte, 0, size)
	}
	out := append(room[:0], old.frame[0]...)
	frame := slices.Clone(out) // as in [DecodeAfter]
	members, found := make([]member, len(old.hosts)), 0
	for i, m := range old.hosts {
		if i > 0 {
			out = append(out, ',')
		}
		from := len(out)
		if value, is := hosts[HostName(m.name)]; !is {
			out = append(out, m.text...)
		} else {
			out = append(append(out, m.text[:len(m.name)+len(`"":`)]...), value...)
			if found++; found > 1 {
				frame = append(frame, ',')
			}
			frame = append(frame, out[from:]...)
		}
		members[i] = member{name: out[from+1 : from+1+len(m.name)], text: out[from:]}
	}
	between := len(out)
	out = append(out, old.frame[1][:old.generation[0]]...)
	if generation > 0 {
		out = strconv.AppendUint(out, uint64(generation), 10)
	} else {
		out = append(out, old.frame[1][old.generation[0]:old.generation[1]]...)
	}
	digits := [2]int{old.generation[0], len(out) - between}
	out = append(out, old.frame[1][old.generation[1]:]...)
	behind := len(out)
	frame = append(append(frame, out[between:]...), old.frame[2]...)
	out = append(out, p.document[old.rest:]...)
	r, err := Decode(frame)
	if err != nil || found != len(hosts) || len(r.Hosts) != found {
		return nil, false
	}
	r.Directory.Services = p.registry.Directory.Services
	if all := p.registry.Hosts; found == 0 {
		r.Hosts = all
	} else {
		all = maps.Clone(all)
		maps.Copy(all, r.Hosts)
		r.Hosts = all
	}
	return newParts(out, r, pieces{
		frame: [3][]byte{out[:len(old.frame[0])], out[between:behind], out[len(out)-len(old.frame[2]):]},
		hosts: members, generation: digits, rest: behind,
	}), true
}
