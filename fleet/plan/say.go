package plan

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"stado.internal/stado/fleet"
)

// section is what is said of one thing, in rows; both forms of the text are made of it.
type section struct {
	kind   string // fleet, service or host
	name   string
	change Change
	rows   []row
}

// row is one line. Its words are ours; name, before and after are the document's, and not yet fit to be shown. They are single values,
// or lists.
type row struct {
	change        string
	what          string // adapter, route, serves, setting
	name          []string
	field         string
	before, after []string
}

// ledTo is the field of an adapter that is unbound: where it led.
const ledTo = "led to"

func (p Plan) sections() []section {
	var out []section
	top := section{kind: "fleet"}
	for _, f := range p.Authority {
		top.rows = append(top.rows, fieldRow("authority", f))
	}
	for _, f := range p.Settings {
		top.rows = append(top.rows, fieldRow("setting", f))
	}
	if len(top.rows) > 0 {
		out = append(out, top)
	}
	for _, s := range p.Services {
		part := section{kind: "service", name: string(s.Name), change: s.Change}
		for _, f := range s.Fields {
			part.rows = append(part.rows, fieldRow("setting", f))
		}
		out = append(out, part)
	}
	for _, h := range p.Hosts {
		out = append(out, section{kind: "host", name: string(h.Name), change: h.Change, rows: h.rows()})
	}
	return out
}

func (h Host) rows() []row {
	var out []row
	for _, a := range h.Adapters {
		r := row{change: string(a.Change), what: "adapter", name: a.words()}
		switch a.Change {
		case Bound:
			r.field, r.after = "leads to", leads(a.LeadsTo)
			out = append(out, r)
		case Unbound:
			r.field, r.before = ledTo, leads(a.LeadsTo)
			out = append(out, r)
		default:
			for _, f := range a.Fields {
				r.field, r.before, r.after = f.Field, value(f.Before), value(f.After)
				out = append(out, r)
			}
		}
	}
	for _, t := range h.Routes {
		r := row{change: string(Changed), what: "route", name: t.words()}
		if t.LeadsTo != nil {
			r.field, r.before, r.after = "leads to", leads(t.LeadsTo.Before), leads(t.LeadsTo.After)
			out = append(out, r)
		}
		for _, f := range t.Fields {
			r.field, r.before, r.after = f.Field, value(f.Before), value(f.After)
			out = append(out, r)
		}
	}
	for _, s := range h.Serves {
		out = append(out, row{change: string(s.Change), what: "serving", name: []string{string(s.Service)}, field: "address", before: word(s.Before), after: word(s.After)})
	}
	for _, f := range h.Settings {
		out = append(out, fieldRow("setting", f))
	}
	return out
}

func fieldRow(what string, f Field) row {
	change := Changed
	switch {
	case f.Before == nil:
		change = Added
	case f.After == nil:
		change = Removed
	}
	return row{change: string(change), what: what, name: []string{f.Field}, before: value(f.Before), after: value(f.After)}
}

func (k Key) words() []string { return []string{string(k.Service), string(k.Consumer), k.Bind} }

func leads(candidates []Candidate) []string {
	out := []string{}
	for _, c := range candidates {
		out = append(out, string(c.Host)+" "+c.URL)
	}
	return out
}

func word(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// value is a value in words: strings without quotes, lists of strings as lists, everything else as JSON; nil when it is not there.
func value(v json.RawMessage) []string {
	if v == nil {
		return nil
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		return []string{s}
	}
	var list []string
	if json.Unmarshal(v, &list) == nil && list != nil {
		return list
	}
	return []string{string(v)}
}

// Text is the plan for a terminal, one line per change.
func (p Plan) Text() string {
	var b strings.Builder
	if g := p.Generation; g.Before != g.After {
		fmt.Fprintf(&b, "generation %d -> %d\n", g.Before, g.After)
	}
	for _, l := range p.Limits {
		b.WriteString(l.say() + "\n")
	}
	for _, s := range p.sections() {
		heading := s.kind
		if s.name != "" {
			heading += " " + plain(s.name) + " " + string(s.change)
		}
		b.WriteString(heading + "\n")
		for _, r := range s.rows {
			b.WriteString("  " + r.text() + "\n")
		}
	}
	return b.String()
}

func (r row) text() string {
	name := plain(r.name[0])
	if len(r.name) == 3 {
		name += " consumer=" + plain(r.name[1]) + " " + plain(r.name[2])
	}
	line := r.change + " " + r.what + " " + name
	switch {
	case r.before == nil:
		return line + ": " + strings.TrimLeft(r.field+" "+plainList(r.after), " ")
	case r.field == ledTo:
		return line + ": " + ledTo + " " + plainList(r.before)
	case r.after == nil:
		return line + ": " + strings.TrimLeft(r.field+" ", " ") + "was " + plainList(r.before)
	}
	return line + ": " + strings.TrimLeft(r.field+" "+plainList(r.before), " ") + " -> " + plainList(r.after)
}

func plainList(words []string) string {
	if words == nil {
		return "-"
	}
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = plain(w)
	}
	if len(out) == 0 {
		return "(none)"
	}
	return strings.Join(out, ", ")
}

// plain is a word for a terminal: what does not print, and would move the cursor or turn the direction of the text, is escaped.
func plain(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}

// Summary is the plan in one line.
func (p Plan) Summary() string {
	if p.Empty() {
		return "no change"
	}
	adapters, routes := 0, 0
	for _, h := range p.Hosts {
		adapters += len(h.Adapters)
		routes += len(h.Routes)
	}
	return fmt.Sprintf("%s: %s, %s and %s on %s", sayGenerations(p.Generation.Before, p.Generation.After),
		count(len(p.Services), "service"), count(adapters, "adapter"), count(routes, "route"), count(len(p.Hosts), "host"))
}

// say is one line of our own words, for both forms.
func (l Limit) say() string {
	what := "hosts removed"
	if l.Kind == ChangedServices {
		what = "services altered or removed"
	}
	line := fmt.Sprintf("change limit: %d of %d %s, %s; at most %d%%", l.Count, l.Of, what, fleet.Portion{Count: l.Count, Of: l.Of}.Percent(), l.MaxPercent)
	if l.Exceeded {
		line += ": refused"
	}
	return line
}

func sayGenerations(before, after fleet.Generation) string {
	if before == after {
		return fmt.Sprintf("generation %d stays", before)
	}
	return fmt.Sprintf("generation %d to %d", before, after)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
