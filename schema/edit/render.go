package edit

import (
	"encoding/json"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
)

// maxInline is how long a struct or a list may be that is written on one line.
const maxInline = 100

// CUE is the value as CUE text that starts at the given indentation; the first line is not indented.
func (v Value) CUE(indent string) string {
	switch x := v.Data.(type) {
	case []Member:
		return block(x, indent)
	case []Value:
		return list(x, indent)
	}
	return scalar(v.Data)
}

// field is one field as people write it: a struct with one field follows its name without braces.
func field(name string, v Value, indent string) string {
	head := Label(name) + ": "
	if members := v.Members(); len(members) == 1 {
		return head + field(members[0].Name, members[0].Value, indent)
	}
	return head + v.CUE(indent)
}

// Label is a name as a CUE label, quoted where it must be.
func Label(name string) string {
	if ast.StringLabelNeedsQuoting(name) {
		return literal.String.Quote(name)
	}
	return name
}

func block(members []Member, indent string) string {
	if len(members) == 0 {
		return "{}"
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, m := range members {
		b.WriteString(indent + "\t" + field(m.Name, m.Value, indent+"\t") + "\n")
	}
	b.WriteString(indent + "}")
	return b.String()
}

func list(items []Value, indent string) string {
	if line, ok := inlineList(items); ok {
		return line
	}
	var b strings.Builder
	b.WriteString("[\n")
	for _, item := range items {
		b.WriteString(indent + "\t" + element(item, indent+"\t") + ",\n")
	}
	b.WriteString(indent + "]")
	return b.String()
}

// inlineList writes a short list without structs on one line.
func inlineList(items []Value) (string, bool) {
	words := make([]string, len(items))
	for i, item := range items {
		switch item.Data.(type) {
		case []Member, []Value:
			return "", false
		}
		words[i] = scalar(item.Data)
	}
	line := "[" + strings.Join(words, ", ") + "]"
	return line, len(line) <= maxInline
}

// element is an item of a list: a short flat struct stays on one line.
func element(v Value, indent string) string {
	members := v.Members()
	if len(members) == 0 {
		return v.CUE(indent)
	}
	words := make([]string, len(members))
	for i, m := range members {
		switch m.Value.Data.(type) {
		case []Member, []Value:
			return v.CUE(indent)
		}
		words[i] = Label(m.Name) + ": " + scalar(m.Value.Data)
	}
	if line := "{" + strings.Join(words, ", ") + "}"; len(line) <= maxInline {
		return line
	}
	return v.CUE(indent)
}

func scalar(data any) string {
	switch x := data.(type) {
	case bool:
		return strconv.FormatBool(x)
	case string:
		return literal.String.Quote(x)
	case json.Number:
		return x.String()
	}
	return "null"
}
