package fleet

import (
	"bytes"
	"maps"
)

// DecodeAfter is [Decode] for a document that follows on another one: what of its hosts and services stands in before byte for byte, the
// document that previous was decoded from, is taken from previous and not read again. Nothing depends on before but the time it takes.
func DecodeAfter(previous *Registry, before, document []byte) (*Registry, error) {
	if previous == nil {
		return Decode(document)
	}
	next, ok := cut(document)
	if !ok {
		return Decode(document)
	}
	held := next
	if !bytes.Equal(before, document) {
		if held, ok = cut(before); !ok {
			return Decode(document)
		}
	}
	// What is new is decoded with the frame around it, in which the rest is missing.
	frame := append([]byte(nil), next.frame[0]...)
	hosts, frame := unchanged[HostName](frame, held.hosts, next.hosts)
	frame = append(frame, next.frame[1]...)
	services, frame := unchanged[ServiceName](frame, held.services, next.services)
	frame = append(frame, next.frame[2]...)
	r, err := Decode(frame)
	if err != nil {
		return Decode(document)
	}
	if !graft(&r.Hosts, previous.Hosts, hosts) || !graft(&r.Directory.Services, previous.Directory.Services, services) {
		return Decode(document)
	}
	return r, nil
}

// unchanged lists the names of the members of next that held has too, and appends the others to frame.
func unchanged[Name ~string](frame []byte, held, next []member) (names []Name, _ []byte) {
	first := true
	for _, m := range next {
		for len(held) > 0 && bytes.Compare(held[0].name, m.name) < 0 {
			held = held[1:]
		}
		if len(held) > 0 && bytes.Equal(held[0].text, m.text) {
			names = append(names, Name(m.name))
			continue
		}
		if !first {
			frame = append(frame, ',')
		}
		first = false
		frame = append(frame, m.text...)
	}
	return names, frame
}

// graft adds the entries of from that are named; false when one is not there.
func graft[Name ~string, Entry any](to *map[Name]Entry, from map[Name]Entry, names []Name) bool {
	if len(names) == 0 {
		return true
	}
	all := make(map[Name]Entry, len(names)+len(*to))
	maps.Copy(all, *to)
	for _, name := range names {
		entry, ok := from[name]
		if !ok {
			return false
		}
		all[name] = entry
	}
	*to = all
	return true
}

// member is one member of a JSON object: its name, and its text with the name up to the end of the value.
type member struct{ name, text []byte }

// pieces is a canonical document taken apart: its hosts, its services, and the text before, between and after them.
type pieces struct {
	frame           [3][]byte
	hosts, services []member
	generation      [2]int // where its digits begin and end in frame[1]
	rest            int    // where frame[1] ends in the document
}

// cut takes a canonical document apart. It gives up on what is not canonical, such as names out of order or with escapes; only of valid
// JSON does it say something right.
func cut(document []byte) (p pieces, ok bool) {
	s := skimmer{text: document}
	done := 0 // what frame and members hold of the document
	s.object(func(name []byte) {
		switch s.plain(name); {
		case string(name) == "hosts":
			p.hosts, p.frame[0] = s.members(&done)
		case string(name) == "service_directory" && p.frame[0] != nil:
			s.object(func(name []byte) {
				if s.plain(name); string(name) == "services" {
					p.rest = s.at + 1
					p.services, p.frame[1] = s.members(&done)
					return
				}
				from := s.at
				if s.value(); string(name) == "generation" {
					p.generation = [2]int{from - done, s.at - done}
				}
			})
		default:
			s.value()
		}
	})
	p.frame[2] = document[done:]
	return p, !s.lost && s.at == len(document) && p.frame[1] != nil
}

// skimmer goes over JSON without reading it. Once it is lost, nothing it says counts.
type skimmer struct {
	text []byte
	at   int
	lost bool
}

// members goes over an object that stands at the skimmer's place. It gives the members, and the text from done up to them.
func (s *skimmer) members(done *int) (list []member, before []byte) {
	start := s.at
	end := start + 1
	s.object(func(name []byte) {
		from := s.at - len(`"":`) - len(name)
		s.value()
		end = s.at
		list = append(list, member{name: name, text: s.text[from:min(end, len(s.text))]})
	})
	if s.lost {
		return nil, nil
	}
	before = s.text[*done : start+1]
	*done = end
	return list, before
}

// plain loses the way at a name that could stand for the field of another name: the decoder takes no notice of case.
func (s *skimmer) plain(name []byte) {
	s.lost = s.lost || bytes.ContainsFunc(name, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
}

// object goes over an object, whose names must rise; each is called behind the colon of every member and goes over the value.
func (s *skimmer) object(each func(name []byte)) {
	if s.next() != '{' {
		s.lost = true
		return
	}
	if s.peek() == '}' {
		s.at++
		return
	}
	var last []byte
	for first := true; !s.lost; first = false {
		name := s.quoted()
		s.lost = s.lost || s.next() != ':' || bytes.IndexByte(name, '\\') >= 0 || !first && bytes.Compare(last, name) >= 0
		if s.lost {
			return
		}
		last = name
		each(name)
		switch s.next() {
		case ',':
		case '}':
			return
		default:
			s.lost = true
		}
	}
}

// value goes over a value: to the comma or the bracket that follows it.
func (s *skimmer) value() {
	for from, depth := s.at, 0; s.at < len(s.text) && !s.lost; s.at++ {
		switch s.text[s.at] {
		case '"':
			s.quoted()
			s.at--
		case '{', '[':
			depth++
		case ',':
			if depth == 0 {
				s.lost = s.at == from
				return
			}
		case '}', ']':
			if depth == 0 {
				s.lost = s.at == from
				return
			}
			depth--
		}
	}
	s.lost = true
}

// quoted goes over a string, and gives what is between its quotes.
func (s *skimmer) quoted() []byte {
	if s.next() != '"' {
		s.lost = true
		return nil
	}
	for from := s.at; s.at < len(s.text); {
		i := bytes.IndexByte(s.text[s.at:], '"')
		if i < 0 {
			break
		}
		end := s.at + i
		back := end
		for back > from && s.text[back-1] == '\\' {
			back--
		}
		s.at = end + 1
		if (end-back)%2 == 0 {
			return s.text[from:end]
		}
	}
	s.lost = true
	return nil
}

// peek is the byte at the skimmer's place, 0 at the end of the text.
func (s *skimmer) peek() byte {
	if s.at >= len(s.text) {
		return 0
	}
	return s.text[s.at]
}

func (s *skimmer) next() byte {
	b := s.peek()
	s.at++
	return b
}
