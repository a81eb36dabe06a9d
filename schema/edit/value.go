package edit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
	"stado.internal/stado/schema"
)

// maxNesting bounds how deep data may nest: a registry nests less than a tenth of it.
const maxNesting = 64

// Value is literal data: what JSON can say, with the order of fields and the line of each value. The zero Value is null.
type Value struct {
	Line int // counts from 1; 0 is unknown
	// Data is nil, a bool, a string, a json.Number, a []Value or a []Member.
	Data any
}

// Member is one field of a struct.
type Member struct {
	Name  string
	Line  int
	Value Value
}

// Marshal is the data of a Go value with JSON tags; the fields of structs keep their order.
func Marshal(v any) (Value, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return Value{}, fmt.Errorf("cannot write the value as data: %w", err)
	}
	return ReadJSON("", raw)
}

// ReadData reads a file that holds one value: JSON, or CUE that computes nothing. A package clause is allowed.
func ReadData(name string, data []byte) (Value, error) {
	if json.Valid(data) {
		return ReadJSON(name, data)
	}
	file, err := schema.Syntax(schema.File{Path: name, Data: data})
	if err != nil {
		return Value{}, err
	}
	s := &ast.StructLit{}
	for _, d := range file.Decls {
		if _, clause := d.(*ast.Package); !clause {
			s.Elts = append(s.Elts, d)
		}
	}
	r := reader{name: name}
	return r.expr(s)
}

// reader turns syntax into data and says where it is more than data.
type reader struct{ name string }

func (r reader) computed(n ast.Node) error {
	return fmt.Errorf("%s: %s", r.at(n), sayNotData)
}

func (r reader) at(n ast.Node) string { return fmt.Sprintf("%s:%d", r.name, n.Pos().Line()) }

func (r reader) expr(e ast.Expr) (Value, error) {
	v := Value{Line: e.Pos().Line()}
	switch x := e.(type) {
	case *ast.BasicLit:
		data, ok := scalarOf(x, "")
		if !ok {
			return v, r.computed(e)
		}
		v.Data = data
	case *ast.UnaryExpr:
		lit, ok := x.X.(*ast.BasicLit)
		if !ok || x.Op != token.SUB && x.Op != token.ADD {
			return v, r.computed(e)
		}
		if v.Data, ok = scalarOf(lit, strings.TrimPrefix(x.Op.String(), "+")); !ok {
			return v, r.computed(e)
		}
	case *ast.ListLit:
		list := make([]Value, 0, len(x.Elts))
		for _, elt := range x.Elts {
			item, err := r.expr(elt)
			if err != nil {
				return v, err
			}
			list = append(list, item)
		}
		v.Data = list
	case *ast.StructLit:
		members, err := r.members(x.Elts)
		if err != nil {
			return v, err
		}
		v.Data = members
	default:
		return v, r.computed(e)
	}
	return v, nil
}

func (r reader) members(decls []ast.Decl) ([]Member, error) {
	out := []Member{}
	seen := map[string]int{}
	for _, d := range decls {
		if _, comment := d.(*ast.CommentGroup); comment {
			continue
		}
		f, ok := d.(*ast.Field)
		if !ok || !plain(f) {
			return nil, r.computed(d)
		}
		name, _, _ := ast.LabelName(f.Label)
		if first, twice := seen[name]; twice {
			return nil, fmt.Errorf("%s: %s", r.at(f), sayTwice(name, first))
		}
		seen[name] = f.Pos().Line()
		v, err := r.expr(f.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, Member{Name: name, Line: f.Pos().Line(), Value: v})
	}
	return out, nil
}

// scalarOf reads one literal; sign is "-" or empty.
func scalarOf(x *ast.BasicLit, sign string) (any, bool) {
	switch x.Kind {
	case token.STRING:
		s, err := literal.Unquote(x.Value)
		return s, err == nil && sign == "" && !strings.HasPrefix(strings.TrimLeft(x.Value, "#"), "'")
	case token.INT, token.FLOAT:
		var n literal.NumInfo
		if err := literal.ParseNum(x.Value, &n); err != nil {
			return nil, false
		}
		return json.Number(sign + n.String()), true
	case token.TRUE, token.FALSE:
		return x.Kind == token.TRUE, sign == ""
	case token.NULL:
		return nil, sign == ""
	}
	return nil, false
}

// plain reports whether a field is label: value, with nothing else to it.
func plain(f *ast.Field) bool {
	switch f.Label.(type) {
	case *ast.Ident, *ast.BasicLit:
	default:
		return false
	}
	name, isIdent, err := ast.LabelName(f.Label)
	hidden := isIdent && (strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#"))
	return err == nil && !hidden && f.Alias == nil && f.Constraint == token.ILLEGAL && len(f.Attrs) == 0
}

// ReadJSON reads one JSON value. A field that is written twice is refused: two readers would take different ones of them.
func ReadJSON(name string, data []byte) (Value, error) {
	d := jsonReader{name: name, data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	d.dec.UseNumber()
	v, err := d.value(0)
	if err != nil {
		return Value{}, err
	}
	if _, err := d.dec.Token(); err != io.EOF {
		return Value{}, d.errorf("%s", sayMoreThanOne)
	}
	return v, nil
}

// jsonReader reads tokens and counts the lines up to them.
type jsonReader struct {
	name    string
	data    []byte
	dec     *json.Decoder
	counted int64 // bytes whose newlines are in line
	line    int
}

func (d *jsonReader) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", d.name, d.here(), fmt.Sprintf(format, args...))
}

// here is the line of what was read last.
func (d *jsonReader) here() int {
	if end := d.dec.InputOffset(); end > d.counted {
		d.line += bytes.Count(d.data[d.counted:end], []byte("\n"))
		d.counted = end
	}
	return d.line
}

func (d *jsonReader) value(depth int) (Value, error) {
	if depth > maxNesting {
		return Value{}, d.errorf("%s", sayNesting())
	}
	t, err := d.dec.Token()
	if err != nil {
		return Value{}, d.errorf("%s", sayNotJSON(err))
	}
	v := Value{Line: d.here()}
	switch t {
	case json.Delim('['):
		v.Data, err = d.list(depth)
	case json.Delim('{'):
		v.Data, err = d.object(depth)
	default:
		v.Data = t // the decoder knows no other kinds than Value.Data names
	}
	return v, err
}

func (d *jsonReader) list(depth int) ([]Value, error) {
	out := []Value{}
	for d.dec.More() {
		item, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, d.end()
}

func (d *jsonReader) object(depth int) ([]Member, error) {
	out := []Member{}
	seen := map[string]int{}
	for d.dec.More() {
		t, err := d.dec.Token()
		if err != nil {
			return nil, d.errorf("%s", sayNotJSON(err))
		}
		name, line := t.(string), d.here() // inside an object the decoder gives names as strings
		if first, twice := seen[name]; twice {
			return nil, d.errorf("%s", sayTwice(name, first))
		}
		seen[name] = line
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, Member{Name: name, Line: line, Value: v})
	}
	return out, d.end()
}

// end reads the closing bracket.
func (d *jsonReader) end() error {
	if _, err := d.dec.Token(); err != nil {
		return d.errorf("%s", sayNotJSON(err))
	}
	return nil
}
