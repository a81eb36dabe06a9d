package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/schema/edit"
)

// maxDeclaration bounds the file of `stado service declare`: it describes one service.
const maxDeclaration = 256 << 10

// declaration is what the file of `stado service declare` says.
type declaration struct {
	name      fleet.ServiceName
	host      fleet.HostName
	artifact  string
	sha256    string
	endpoints map[fleet.HostName]fleet.ServiceEndpoint
	port      int
	consumers map[fleet.ConsumerName]fleet.Consumer
	protocol  fleet.Protocol
	selector  string
	verify    edit.Value // a struct as it is written; zero when left out
	check     edit.Value
}

// declarationKeys are the keys of the file, in the order in which help and refusals list them.
func declarationKeys() []string {
	return []string{"name", "host", "source", "verify", "consumers", "endpoints", "port", "protocol", "check", "selector"}
}

// readInput reads a file, or stdin for "-", up to a size.
func readInput(file string, stdin io.Reader, limit int64) (name string, data []byte, err error) {
	in := stdin
	if name = file; file == "-" {
		name = "stdin"
	} else {
		f, err := os.Open(file)
		if err != nil {
			return name, nil, err
		}
		defer f.Close()
		in = f
	}
	data, err = io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return name, data, err
}

// declarationReader reads the file and refuses by name and line.
type declarationReader struct{ file string }

func (r declarationReader) refuse(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", r.file, line, fmt.Sprintf(format, args...))
}

func readDeclaration(file string, data []byte) (declaration, error) {
	var out declaration
	v, err := edit.ReadData(file, data)
	if err != nil {
		return out, err
	}
	r := declarationReader{file}
	if v.Members() == nil {
		return out, r.refuse(max(v.Line, 1), "the declaration is not a struct (write name, host, consumers, and endpoints or port)")
	}
	if err := r.retired(v); err != nil {
		return out, err
	}
	for _, m := range v.Members() {
		if err := r.key(&out, m); err != nil {
			return out, err
		}
	}
	return out, r.whole(out)
}

// retired refuses what was part of a service once, with the sentence of the table.
func (r declarationReader) retired(v edit.Value) error {
	table, err := policies.Retired()
	if err != nil {
		return err
	}
	for _, m := range v.Members() {
		if i := slices.IndexFunc(table, func(f policies.RetiredField) bool { return f.Field == m.Name }); i >= 0 {
			return r.refuse(m.Line, "%s", table[i].Sentence)
		}
		if err := r.retired(m.Value); err != nil {
			return err
		}
	}
	if list, ok := v.Data.([]edit.Value); ok {
		for _, item := range list {
			if err := r.retired(item); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r declarationReader) key(out *declaration, m edit.Member) (err error) {
	switch m.Name {
	case "name":
		out.name, err = words[fleet.ServiceName](r, m)
	case "host":
		out.host, err = words[fleet.HostName](r, m)
	case "source":
		err = r.source(out, m)
	case "protocol":
		out.protocol, err = words[fleet.Protocol](r, m)
	case "selector":
		out.selector, err = words[string](r, m)
	case "verify":
		out.verify, err = r.kind(m, "http", "tcp")
	case "check":
		out.check, err = r.kind(m, "none", "tcp", "http", "exec")
	case "consumers":
		out.consumers, err = r.consumers(m)
	case "endpoints":
		out.endpoints, err = r.endpoints(m)
	case "port":
		out.port, err = r.port(m)
	case "run", "declaration":
		err = r.refuse(m.Line, "'%s' is not kept: a registry says where a service answers, not how it is run; remove the key", m.Name)
	default:
		err = r.unknown(m, declarationKeys())
	}
	return err
}

func (r declarationReader) unknown(m edit.Member, known []string) error {
	return r.refuse(m.Line, "unknown field `%s` (the fields here are %s)", m.Name, strings.Join(known, ", "))
}

// words is a member that holds a string.
func words[T ~string](r declarationReader, m edit.Member) (T, error) {
	s, ok := m.Value.Data.(string)
	if !ok {
		return "", r.refuse(m.Line, "%s is not a string", m.Name)
	}
	return T(s), nil
}

func (r declarationReader) source(out *declaration, m edit.Member) (err error) {
	if m.Value.Members() == nil {
		return r.refuse(m.Line, "source is not a struct (write artifact and sha256)")
	}
	for _, part := range m.Value.Members() {
		switch part.Name {
		case "artifact":
			out.artifact, err = words[string](r, part)
			if err == nil && (out.artifact == "" || strings.ContainsFunc(out.artifact, func(c rune) bool { return c < ' ' || c == 0x7f })) {
				err = r.refuse(part.Line, "artifact %q is not a name on one line", out.artifact)
			}
		case "sha256":
			out.sha256, err = words[string](r, part)
			if raw, bad := hex.DecodeString(out.sha256); err == nil && (bad != nil || len(raw) != 32 || strings.ToLower(out.sha256) != out.sha256) {
				err = r.refuse(part.Line, "sha256 %q is not 64 lower-case hexadecimal digits", out.sha256)
			}
		default:
			err = r.unknown(part, []string{"artifact", "sha256"})
		}
		if err != nil {
			return err
		}
	}
	if out.artifact == "" || out.sha256 == "" {
		return r.refuse(m.Line, "source names no %s (write artifact and sha256)", map[bool]string{true: "artifact", false: "sha256"}[out.artifact == ""])
	}
	return nil
}

// kind is a struct with a kind that is known; the schema judges the rest of it.
func (r declarationReader) kind(m edit.Member, known ...string) (edit.Value, error) {
	kind, ok := m.Value.Field("kind")
	if !ok {
		return edit.Value{}, r.refuse(m.Line, "%s has no kind (the kinds are %s)", m.Name, strings.Join(known, ", "))
	}
	if word, ok := kind.Value.Data.(string); !ok || !slices.Contains(known, word) {
		return edit.Value{}, r.refuse(kind.Line, "unknown %s kind %s (the kinds are %s)", m.Name, kind.Value.CUE(""), strings.Join(known, ", "))
	}
	return m.Value, nil
}

// consumers are names in a list, or a struct of names with what each may do.
func (r declarationReader) consumers(m edit.Member) (map[fleet.ConsumerName]fleet.Consumer, error) {
	out := map[fleet.ConsumerName]fleet.Consumer{}
	if list, ok := m.Value.Data.([]edit.Value); ok {
		for _, item := range list {
			name, ok := item.Data.(string)
			if !ok {
				return nil, r.refuse(item.Line, "a consumer is not a string")
			}
			if _, twice := out[fleet.ConsumerName(name)]; twice {
				return nil, r.refuse(item.Line, "consumer %q is there twice", name)
			}
			out[fleet.ConsumerName(name)] = fleet.Consumer{}
		}
	} else if err := r.decode(m, &out); err != nil {
		return nil, err
	}
	for name := range out {
		if err := checkName("consumer", string(name)); err != nil {
			return nil, r.refuse(m.Line, "%v", err)
		}
	}
	return out, nil
}

// endpoints maps hosts to an address, which is written as it is or as {url}.
func (r declarationReader) endpoints(m edit.Member) (map[fleet.HostName]fleet.ServiceEndpoint, error) {
	if m.Value.Members() == nil {
		return nil, r.refuse(m.Line, "endpoints is not a struct of hosts (write endpoints: HOST: url: …)")
	}
	out := map[fleet.HostName]fleet.ServiceEndpoint{}
	for _, host := range m.Value.Members() {
		var e fleet.ServiceEndpoint
		if url, ok := host.Value.Data.(string); ok {
			e.URL = url
		} else if err := r.decode(host, &e); err != nil {
			return nil, err
		}
		if _, err := fleet.ParseEndpoint(e.URL); err != nil {
			return nil, r.refuse(host.Line, "%v", err)
		}
		out[fleet.HostName(host.Name)] = e
	}
	return out, nil
}

// decode reads a member strictly: a field that the model does not have is refused by name.
func (r declarationReader) decode(m edit.Member, into any) error {
	raw, err := m.Value.JSON()
	if err != nil {
		return r.refuse(m.Line, "%s: %v", m.Name, err)
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return r.refuse(m.Line, "%s is not what the registry has there: %s", m.Name, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func (r declarationReader) port(m edit.Member) (int, error) {
	n, ok := m.Value.Data.(json.Number)
	port, err := strconv.Atoi(n.String())
	if !ok || err != nil || port < 1 || port > 65535 {
		return 0, r.refuse(m.Line, "port %s is out of range (write 1 to 65535)", m.Value.CUE(""))
	}
	return port, nil
}

// whole judges what the keys say together.
func (r declarationReader) whole(d declaration) error {
	if err := checkName("service", string(d.name)); err != nil {
		return fmt.Errorf("%s: %w", r.file, err)
	}
	var problem string
	switch _, served := d.endpoints[d.host]; {
	case d.host == "":
		problem = "the declaration names no host (write host)"
	case len(d.consumers) == 0:
		problem = "the declaration has no consumers, so the service would serve nobody (write consumers)"
	case d.endpoints != nil && d.port != 0:
		problem = "the declaration has endpoints and port (keep one: port stands for a loopback endpoint on the host)"
	case !served && d.port == 0:
		problem = fmt.Sprintf("the declaration has no endpoint for host %s (write endpoints: %s: url: …, or port)", d.host, d.host)
	default:
		return nil
	}
	return errors.New(r.file + ": " + problem)
}
