package plan

import (
	"fmt"
	"strings"
)

// MaxMarkdown is the most bytes that [Plan.Markdown] writes: what a comment on a pull request may hold.
const MaxMarkdown = 65_536

// Marker is the first line of the Markdown form. A job that comments finds its last comment by it.
const Marker = "<!-- stado plan -->"

const (
	tableHead = "\n| change | what | before | after |\n|---|---|---|---|\n"
	noteRoom  = 200 // for the note that lines were left out
	maxWord   = 500 // a longer value is cut: it is read in the file
)

// Markdown is the plan as a comment: a table for each host, service and the fleet. Everything that comes out of a document stands in a
// code span that it cannot leave, so that no name can format, link or mention. What does not fit is left out at the end, and counted.
func (p Plan) Markdown() string {
	var b strings.Builder
	b.WriteString(Marker + "\n### stado plan: " + p.Summary() + "\n")
	for _, l := range p.Limits {
		b.WriteString("\n" + l.say() + "\n")
	}
	left := 0
	for _, s := range p.sections() {
		head := "\n" + s.heading() + tableHead
		for _, r := range s.rows {
			line := r.markdown()
			if left > 0 || b.Len()+len(head)+len(line) > MaxMarkdown-noteRoom {
				left++
				continue
			}
			b.WriteString(head + line)
			head = ""
		}
		if len(s.rows) == 0 && left == 0 && b.Len()+len(head) <= MaxMarkdown-noteRoom {
			b.WriteString("\n" + s.heading())
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n%s did not fit into this comment; `stado plan` prints all of them.\n", count(left, "more line"))
	}
	return b.String()
}

func (s section) heading() string {
	if s.name == "" {
		return "#### " + s.kind + "\n"
	}
	return fmt.Sprintf("#### %s %s %s\n", s.kind, code(s.name), s.change)
}

func (r row) markdown() string {
	what := r.what + " " + code(r.name[0])
	if len(r.name) == 3 {
		what += " for " + code(r.name[1]) + " at " + code(r.name[2])
	}
	if r.field != "" {
		what += ", " + r.field // a word of ours
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", r.change, what, cell(r.before), cell(r.after))
}

func cell(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = code(w)
	}
	if words != nil && len(out) == 0 {
		return "(none)"
	}
	return strings.Join(out, ", ")
}

// code is a word in a code span. The characters that could end the span, and those that do not print, are written by their number; a
// bar is escaped for the table, which is safe because no backslash is left to stand before it.
func code(s string) string {
	var b strings.Builder
	b.WriteByte('`')
	for i, r := range strings.ToValidUTF8(s, "?") {
		if i >= maxWord {
			b.WriteString("...")
			break
		}
		switch {
		case r == '|':
			b.WriteString(`\|`)
		case r == '`' || r == '\\' || r < ' ' || r > '~':
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
	}
	if b.Len() == 1 {
		b.WriteString(`""`)
	}
	b.WriteByte('`')
	return b.String()
}
