package schema

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
	"stado.internal/stado/fleet"
)

// The evaluator's message formats that say which rule is broken. They are pinned by tests, as the evaluator's version is by go.mod.
const (
	formatUnknown     = "field not allowed"
	formatMissing     = "field is required but not present"
	formatIncomplete  = "incomplete value %v"
	formatConflict    = "conflicting values"
	formatInvalid     = "invalid value"
	formatLengths     = "incompatible list lengths"
	formatDisjunction = "%d errors in empty disjunction:"
	bindsLabel        = "_binds"
)

const generationPath = directoryLabel + ".generation"

func sprintf(format string, args []any) string { return fmt.Sprintf(format, args...) }

// explain turns an error of the evaluator into findings that name the user's file, not the schema's.
func (c *compiler) explain(err error) []fleet.Finding {
	var out []fleet.Finding
	for _, e := range errors.Errors(err) {
		if f, ok := c.explainOne(e); ok {
			out = append(out, f)
		}
	}
	return preferSentences(out)
}

func (c *compiler) explainOne(e errors.Error) (fleet.Finding, bool) {
	format, args := e.Msg()
	if format == formatDisjunction {
		return fleet.Finding{}, false // a heading: the errors follow on their own
	}
	labels := unquoted(e.Path())
	p := FieldPath(labels...)
	c.where.locate(p)
	message := abridge(sprintf(format, args))
	at := c.place(p, e)
	s := c.shape.at(labels)
	switch {
	case slices.Contains(labels, bindsLabel):
		return c.bindClash(labels, args), true
	case s != nil && s.retired != "":
		return refusal(RuleRetired, at, p, s.retired), true
	case format == formatUnknown && len(labels) > 0:
		parent := c.shape.at(labels[:len(labels)-1])
		if parent != nil && parent.badName != "" {
			return refusal(RuleValue, at, p, parent.badName), true
		}
		return unknownField(at, p, labels[len(labels)-1], parent), true
	case format == formatMissing && (p == directoryLabel || p == generationPath):
		return c.noGeneration(), true
	case format == formatMissing:
		return hinted(refusal(RuleMissing, at, p, sayMissing(p)), hintMissing(s)), true
	case format == formatIncomplete:
		return hinted(refusal(RuleIncomplete, at, p, sayIncomplete(p, abridge(sprintf("%v", args)))), hintConcrete), true
	case len(e.Path()) == 0:
		return refusal(RuleSyntax, at, p, message), true
	case strings.HasPrefix(format, formatConflict) && len(c.places(e)) > 1:
		return c.conflict(p, at, message, e), true
	}
	if sentence := c.address(p, at); sentence != "" {
		message = abridge(sentence)
	}
	f := refusal(RuleValue, at, p, message)
	if s != nil && generic(message) {
		f.Hint = s.doc
	}
	return f, true
}

// What is left of a message that quotes a long value: its beginning, and its end, where the reason stands. Together with the mark they are
// well below [fleet.MaxText], which cuts the end off.
const (
	messageStart = 120
	messageEnd   = 400
)

// abridge takes the middle out of a message.
func abridge(message string) string {
	runes := []rune(message)
	if len(runes) <= messageStart+messageEnd {
		return message
	}
	return string(runes[:messageStart]) + " […] " + string(runes[len(runes)-messageEnd:])
}

// unquoted takes the root label off an evaluator's path and the quotes off its labels.
func unquoted(labels []string) []string {
	if len(labels) > 0 && labels[0] == rootLabel {
		labels = labels[1:]
	}
	out := make([]string, len(labels))
	for i, label := range labels {
		out[i] = label
		if s, err := literal.Unquote(label); err == nil && strings.HasPrefix(label, `"`) {
			out[i] = s
		}
	}
	return out
}

// places are the positions of an error in the registry's own files, without the line that binds the schema.
func (c *compiler) places(e errors.Error) []Position {
	var out []Position
	add := func(p token.Pos) {
		at := position(p)
		if _, own := c.files[at.File]; own && !slices.Contains(out, at) && !c.binds(at) {
			out = append(out, at)
		}
	}
	for _, p := range errors.Positions(e) {
		add(p)
	}
	return out
}

// binds reports whether a position is that of a reference to the schema, such as registry: schema.#Registry.
func (c *compiler) binds(at Position) bool {
	return strings.HasPrefix(textAt(c.files[at.File], at), "schema.#")
}

// place is where a finding points: where the field is given, else what the evaluator names, else the nearest enclosing field.
func (c *compiler) place(fieldPath string, e errors.Error) Position {
	if at, ok := c.where.index[fieldPath]; ok {
		return at
	}
	if places := c.places(e); len(places) > 0 {
		return places[0]
	}
	if at := At(c.where.index, fieldPath); at.File != "" {
		return at
	}
	return c.template(unquoted(e.Path()))
}

// template is where the registry's own files give the longest beginning of a path that does not lead into the registry: a definition, or a
// hidden field. Of a cycle the evaluator names nothing else.
func (c *compiler) template(labels []string) Position {
	best, found := 0, Position{}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		file, err := parseCUE(name, c.files[name])
		if err != nil {
			continue // nothing that is evaluated
		}
		if at, depth := deepest(file.Decls, labels); depth > best {
			best, found = depth, Position{name, at.Line, at.Column}
		}
	}
	return found
}

// deepest follows labels through struct literals as far as they go.
func deepest(elts []ast.Decl, labels []string) (at Position, depth int) {
	for _, d := range elts {
		f, ok := d.(*ast.Field)
		if !ok || len(labels) == 0 {
			continue
		}
		if label, _, err := ast.LabelName(f.Label); err != nil || label != labels[0] {
			continue
		}
		here, n := position(f.Label.Pos()), 0
		if st, ok := f.Value.(*ast.StructLit); ok {
			if inner, more := deepest(st.Elts, labels[1:]); more > 0 {
				here, n = inner, more
			}
		}
		if n+1 > depth {
			at, depth = here, n+1
		}
	}
	return at, depth
}

func (c *compiler) conflict(fieldPath string, at Position, message string, e errors.Error) fleet.Finding {
	var others []string
	for _, p := range c.places(e) {
		if p != at {
			others = append(others, fleet.Finding{File: p.File, Line: p.Line, Column: p.Column}.Position())
		}
	}
	if len(others) > 0 {
		message += "; " + sayAlsoSet(others)
	}
	return hinted(refusal(RuleConflict, at, fieldPath, message), hintConflict(fieldPath))
}

// bindClash words a conflict in the schema's _binds, whose field is the bind and whose values name the listeners.
func (c *compiler) bindClash(labels []string, args []any) fleet.Finding {
	i := slices.Index(labels, bindsLabel)
	resolver, bind := FieldPath(labels[:i]...), labels[len(labels)-1]
	names := make([]string, 0, len(args))
	for _, a := range args {
		name := sprintf("%v", []any{a})
		if s, err := literal.Unquote(name); err == nil {
			name = s
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) < 2 {
		names = append(names, "another listener", "another listener")
	}
	p := resolver
	if n, ok := strings.CutPrefix(names[1], "adapters["); ok {
		n, _, _ = strings.Cut(n, "]")
		p = resolver + ".adapters." + n + ".bind"
	} else if n, ok := strings.CutPrefix(names[0], "adapters["); ok {
		n, _, _ = strings.Cut(n, "]")
		p = resolver + ".adapters." + n + ".bind"
	}
	f := refusal(RuleBindClash, At(c.where.index, p), p, sayBindClash(bind, names[0], names[1]))
	return hinted(f, hintBindClash)
}

// address gives a wrong address the sentence of the model's own parser, which says what exactly is wrong with it.
func (c *compiler) address(fieldPath string, at Position) string {
	quoted, err := strconv.QuotedPrefix(textAt(c.files[at.File], at))
	if err != nil {
		return ""
	}
	value, err := literal.Unquote(quoted)
	if err != nil {
		return ""
	}
	switch lastLabel(fieldPath) {
	case "ssh", "destination":
		_, err = fleet.Destination(value).Parse()
	case "url":
		if lastLabel(parentPath(parentPath(fieldPath))) != "endpoints" {
			return ""
		}
		_, err = fleet.ParseEndpoint(value)
	case "bind", "api_bind":
		_, err = fleet.ParseBind(value)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// textAt is the rest of a file's line from a position on, "" when there is none.
func textAt(data []byte, at Position) string {
	for range at.Line - 1 {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			return ""
		}
		data = data[i+1:]
	}
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		data = data[:i]
	}
	if at.Line < 1 || at.Column < 1 || at.Column > len(data) {
		return ""
	}
	return string(data[at.Column-1:])
}

// noGeneration points at the file that gives the generation, whether it is there or not: that a service is declared somewhere does not
// make its file the place to look at.
func (c *compiler) noGeneration() fleet.Finding {
	at := c.where.index[directoryLabel]
	if at.File != generationFile {
		at = Position{File: generationFile}
	}
	return hinted(refusal(RuleMissing, at, generationPath, sayNoGeneration()), hintNoGeneration)
}

func hintMissing(s *shape) string {
	if s == nil {
		return ""
	}
	return s.doc
}

// generic reports whether a message is the evaluator's own wording, not a sentence of the schema or of the model.
func generic(message string) bool {
	return strings.HasPrefix(message, formatConflict) || strings.HasPrefix(message, formatInvalid) || strings.HasPrefix(message, formatLengths)
}

// preferSentences leaves one finding for one mistake. Where the schema says a sentence of its own, what the evaluator adds about the
// alternatives of the field says less; where a field is wrong, what follows from it for the struct around it says nothing new.
func preferSentences(fs []fleet.Finding) []fleet.Finding {
	spoken, inside := map[string]bool{}, map[string]bool{}
	for _, f := range fs {
		if f.Rule == RuleValue && !generic(f.Message) {
			spoken[f.Path] = true
		}
		for p := parentPath(f.Path); p != ""; p = parentPath(p) {
			inside[p] = true
		}
	}
	return slices.DeleteFunc(fs, func(f fleet.Finding) bool {
		switch f.Rule {
		case RuleValue:
			return generic(f.Message) && spoken[f.Path] || inside[f.Path]
		case RuleConflict:
			return spoken[f.Path]
		}
		return false
	})
}
