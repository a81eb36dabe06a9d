package literal

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// maxDepth bounds how deep data and schemas are followed.
const maxDepth = 64

// plainInt is a number of which nobody has to ask what it is: no exponent, no multiplier, no other base.
var plainInt = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})$`)

// decode reads data as map[string]any, []any, string, int64, bool and nil. It is false for anything but literals, and for literals that
// could mean something else than they look like: two declarations of one field, numbers with a fraction, bytes.
func decode(e ast.Expr) (any, bool) { return decodeWithin(e, maxDepth) }

func decodeWithin(e ast.Expr, depth int) (any, bool) {
	if depth == 0 {
		return nil, false
	}
	switch x := e.(type) {
	case *ast.BasicLit:
		return decodeLit(x)
	case *ast.ListLit:
		out := make([]any, len(x.Elts))
		for i, elt := range x.Elts {
			v, ok := decodeWithin(elt, depth-1)
			if !ok {
				return nil, false
			}
			out[i] = v
		}
		return out, true
	case *ast.StructLit:
		out := make(map[string]any, len(x.Elts))
		for _, d := range x.Elts {
			f, ok := d.(*ast.Field)
			if !ok {
				return nil, false
			}
			label, ok := plainLabel(f)
			if _, twice := out[label]; !ok || twice {
				return nil, false
			}
			if out[label], ok = decodeWithin(f.Value, depth-1); !ok {
				return nil, false
			}
		}
		return out, true
	}
	return nil, false
}

func decodeLit(x *ast.BasicLit) (any, bool) {
	switch x.Kind {
	case token.STRING:
		if s, ok := plainString(x.Value); ok {
			return s, true
		}
		if x.Value[0] == '\'' || x.Value[0] == '#' {
			return nil, false // bytes, and what looks like them
		}
		s, err := literal.Unquote(x.Value)
		return s, err == nil && utf8.ValidString(s)
	case token.INT:
		if !plainInt.MatchString(x.Value) {
			return nil, false
		}
		n, err := strconv.ParseInt(x.Value, 10, 64)
		return n, err == nil
	case token.TRUE:
		return true, true
	case token.FALSE:
		return false, true
	case token.NULL:
		return nil, true
	}
	return nil, false
}

// plainString unquotes a string that stands between two double quotes as it is.
func plainString(quoted string) (string, bool) {
	if len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
		return "", false
	}
	inner := quoted[1 : len(quoted)-1]
	return inner, plain(inner)
}

// plain reports whether a string is printable ASCII that neither CUE nor JSON has to escape.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// plainLabel is the name of a regular field that has nothing else to it. Names beyond ASCII are left to the evaluator, which normalizes
// them.
func plainLabel(f *ast.Field) (string, bool) {
	if f.Alias != nil || f.Constraint != token.ILLEGAL || len(f.Attrs) > 0 {
		return "", false
	}
	switch x := f.Label.(type) {
	case *ast.Ident:
		return x.Name, plain(x.Name) && x.Name[0] != '_' && x.Name[0] != '#'
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			return plainString(x.Value)
		}
	}
	return "", false
}

// appendJSON writes what decode reads, as the canonical form of a document does: keys sorted, no space, no escapes for HTML.
func appendJSON(out []byte, v any) []byte {
	switch x := v.(type) {
	case nil:
		return append(out, "null"...)
	case bool:
		return strconv.AppendBool(out, x)
	case int64:
		return strconv.AppendInt(out, x, 10)
	case string:
		return appendString(out, x)
	case []any:
		out = append(out, '[')
		for i, elt := range x {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendJSON(out, elt)
		}
		return append(out, ']')
	case map[string]any:
		out = append(out, '{')
		for i, label := range slices.Sorted(maps.Keys(x)) {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendString(out, label), ':')
			out = appendJSON(out, x[label])
		}
		return append(out, '}')
	}
	panic("not data")
}

func appendString(out []byte, s string) []byte {
	if plain(s) {
		out = append(out, '"')
		out = append(out, s...)
		return append(out, '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // strings always encode
	}
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
