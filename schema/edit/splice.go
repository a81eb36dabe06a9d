package edit

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
)

// The edits of text. Each is one splice at places that the syntax tree names, after which the text is parsed again.

func offset(n ast.Node) int { return n.Pos().Offset() }

func (f *File) splice(start, end int, text string) error {
	data := slices.Concat(f.data[:start], []byte(text), f.data[end:])
	if err := f.load(data); err != nil {
		return &Error{"", sayBroken(f.name, err)}
	}
	return nil
}

func (f *File) replace(n ast.Node, text string) error {
	return f.splice(offset(n), n.End().Offset(), f.lines(text))
}

// lines gives new text the line ends of the file.
func (f *File) lines(text string) string {
	if bytes.Contains(f.data, []byte("\r\n")) {
		return strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

func (f *File) lineStart(at int) int { return bytes.LastIndexByte(f.data[:at], '\n') + 1 }

// indentAt is the white space that the line of an offset starts with.
func (f *File) indentAt(at int) string {
	line := f.data[f.lineStart(at):]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// startsLine reports whether only white space stands before an offset on its line.
func (f *File) startsLine(at int) bool {
	return len(bytes.TrimSpace(f.data[f.lineStart(at):at])) == 0
}

// insert adds a field that the file does not write, to the innermost struct that it does write.
func (f *File) insert(labels []string, v Value) error {
	for k := len(labels) - 1; k > 0; k-- {
		sites := f.sites(labels[:k])
		if len(sites) == 0 {
			continue
		}
		for _, s := range slices.Backward(sites) {
			for _, e := range slices.Backward(parts(s.value)) {
				if st, ok := e.(*ast.StructLit); ok {
					return f.insertInto(st, labels[k:], v)
				}
			}
		}
		return f.computed(labels, sites[0].value)
	}
	text := "\n" + chain(labels, v, "") + "\n"
	if len(f.data) > 0 && !bytes.HasSuffix(f.data, []byte("\n")) {
		text = "\n" + text
	}
	return f.splice(len(f.data), len(f.data), f.lines(text))
}

// chain is a: b: c: value.
func chain(labels []string, v Value, indent string) string {
	for _, label := range slices.Backward(labels[1:]) {
		v = Value{Data: []Member{{Name: label, Value: v}}}
	}
	return field(labels[0], v, indent)
}

func (f *File) insertInto(st *ast.StructLit, labels []string, v Value) error {
	if !st.Lbrace.IsValid() {
		return f.embrace(st, labels, v)
	}
	open, closing := st.Lbrace.Offset(), st.Rbrace.Offset()
	if len(st.Elts) == 0 && len(bytes.TrimSpace(f.data[open+1:closing])) == 0 {
		indent := f.indentAt(open)
		return f.splice(open+1, closing, f.lines("\n"+indent+"\t"+chain(labels, v, indent+"\t")+"\n"+indent))
	}
	before := closing
	if n := len(st.Elts); n > 0 {
		// What follows an ellipsis is not a field any more.
		if rest, ok := st.Elts[n-1].(*ast.Ellipsis); ok {
			before = offset(rest)
		}
	}
	if f.startsLine(before) {
		indent := f.indentAt(before)
		if before == closing {
			indent = f.childIndent(st, indent+"\t")
		}
		at := f.lineStart(before)
		return f.splice(at, at, f.lines(indent+chain(labels, v, indent)+"\n"))
	}
	if before != closing {
		return f.splice(before, before, f.lines(chain(labels, v, f.indentAt(before))+", "))
	}
	last := st.Elts[len(st.Elts)-1]
	return f.splice(last.End().Offset(), last.End().Offset(), f.lines(", "+chain(labels, v, f.indentAt(closing))))
}

// childIndent is the indentation of the first field that starts a line.
func (f *File) childIndent(st *ast.StructLit, otherwise string) string {
	for _, d := range st.Elts {
		if f.startsLine(offset(d)) {
			return f.indentAt(offset(d))
		}
	}
	return otherwise
}

// embrace gives braces to a struct that was written without, since it now has a second field.
func (f *File) embrace(st *ast.StructLit, labels []string, v Value) error {
	only := st.Elts[0]
	start, end := offset(only), only.End().Offset()
	indent := f.indentAt(start)
	// A string over several lines keeps its value: the indentation of its last line is taken off all of its lines.
	inner := strings.ReplaceAll(string(f.data[start:end]), "\n", "\n\t")
	return f.splice(start, end, "{"+f.lines("\n")+indent+"\t"+inner+f.lines("\n"+indent+"\t"+chain(labels, v, indent+"\t")+"\n"+indent+"}"))
}

// appendTo adds an element at the end of a list.
func (f *File) appendTo(l *ast.ListLit, v Value) error {
	closing := l.Rbrack.Offset()
	if len(l.Elts) > 0 && !f.startsLine(closing) {
		end := l.Elts[len(l.Elts)-1].End().Offset()
		return f.splice(end, end, f.lines(", "+element(v, f.indentAt(closing))))
	}
	if f.startsLine(closing) {
		indent := f.indentAt(closing) + "\t"
		if len(l.Elts) > 0 && f.startsLine(offset(l.Elts[0])) {
			indent = f.indentAt(offset(l.Elts[0]))
		}
		at := f.lineStart(closing)
		return f.splice(at, at, f.lines(indent+element(v, indent)+",\n"))
	}
	return f.splice(closing, closing, f.lines(element(v, f.indentAt(closing))))
}

// remove takes out a field or an element with its comments. The only field of a struct without braces takes that struct's field along.
func (f *File) remove(s site) error {
	for s.holder != nil && !s.holder.Lbrace.IsValid() {
		if s.within == nil {
			return errors.New("a struct without braces that is the value of no field")
		}
		s = *s.within
	}
	start, end := offset(s.node), s.node.End().Offset()
	for _, group := range ast.Comments(s.node) {
		if group.Doc {
			start = min(start, offset(group))
		}
	}
	after, comma := f.separator(end)
	rest := after + len(blanks(f.data[after:]))
	if f.startsLine(start) && f.endsLine(rest) {
		return f.splice(f.lineStart(start), f.lineEnd(rest), "")
	}
	if comma {
		return f.splice(start, rest, "")
	}
	before := bytes.TrimRight(f.data[:start], " \t\r\n")
	if bytes.HasSuffix(before, []byte(",")) {
		start = len(before) - 1
	}
	return f.splice(start, end, "")
}

// separator is the offset behind the comma that follows a node, if one does.
func (f *File) separator(end int) (after int, comma bool) {
	next := end + len(blanks(f.data[end:]))
	if next < len(f.data) && f.data[next] == ',' {
		return next + 1, true
	}
	return end, false
}

// endsLine reports whether nothing but a comment stands between an offset and the end of its line.
func (f *File) endsLine(at int) bool {
	line, _, _ := bytes.Cut(f.data[at:], []byte("\n"))
	line = bytes.TrimSpace(line)
	return len(line) == 0 || bytes.HasPrefix(line, []byte("//"))
}

// lineEnd is the offset behind the newline that ends the line of an offset.
func (f *File) lineEnd(at int) int {
	if i := bytes.IndexByte(f.data[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(f.data)
}

func blanks(data []byte) []byte {
	return data[:len(data)-len(bytes.TrimLeft(data, " \t"))]
}
