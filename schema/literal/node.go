package literal

import "regexp"

// node is what the schema says of one value. Scalars are values without parts.
type node interface {
	// accept gives data as the schema completes it, when the schema is known to admit it. in is the struct that holds the value, for
	// constraints that speak of its other fields; it may be nil. Maps in data are completed in place.
	accept(data any, in map[string]any) (any, bool)
	// absent is the value of a regular field that is not given.
	absent() (any, bool)
	scalar() bool
}

// unknown stands for what the compiler of this package does not understand, and for what nothing satisfies.
type unknown struct{}

func (unknown) accept(any, map[string]any) (any, bool) { return nil, false }
func (unknown) absent() (any, bool)                    { return nil, false }
func (unknown) scalar() bool                           { return false }

// constant is one value.
type constant struct{ value any }

func (n constant) accept(data any, _ map[string]any) (any, bool) {
	return data, scalarData(data) && data == n.value
}
func (n constant) absent() (any, bool) { return n.value, true }
func (constant) scalar() bool          { return true }

// test is any condition on one scalar.
type test func(data any, in map[string]any) bool

func (n test) accept(data any, in map[string]any) (any, bool) {
	return data, scalarData(data) && n(data, in)
}
func (test) absent() (any, bool) { return nil, false }
func (test) scalar() bool        { return true }

// any1 is a disjunction of scalars, with a default if one is marked.
type any1 struct {
	alternatives []node
	standard     any
	marked       bool
}

func (n any1) accept(data any, in map[string]any) (any, bool) {
	for _, a := range n.alternatives {
		if _, ok := a.accept(data, in); ok {
			return data, true
		}
	}
	return nil, false
}
func (n any1) absent() (any, bool) { return n.standard, n.marked }
func (any1) scalar() bool          { return true }

// all is a conjunction of scalars.
type all []node

func (n all) accept(data any, in map[string]any) (any, bool) {
	for _, a := range n {
		if _, ok := a.accept(data, in); !ok {
			return nil, false
		}
	}
	return data, true
}
func (all) absent() (any, bool) { return nil, false }
func (all) scalar() bool        { return true }

// list is a list with fixed elements and, if rest is not nil, any number of further ones.
type list struct {
	fixed []node
	rest  node
}

func (n list) accept(data any, _ map[string]any) (any, bool) {
	elements, ok := data.([]any)
	if !ok || len(elements) < len(n.fixed) || len(elements) > len(n.fixed) && n.rest == nil {
		return nil, false
	}
	for i, e := range elements {
		element := n.rest
		if i < len(n.fixed) {
			element = n.fixed[i]
		}
		if elements[i], ok = element.accept(e, nil); !ok {
			return nil, false
		}
	}
	return elements, true
}
func (list) absent() (any, bool) { return nil, false }
func (list) scalar() bool        { return false }

// match is a condition on a string by a regular expression, which is compiled when it is first asked: a few files meet few of them.
type match struct {
	expression func() *regexp.Regexp
	negated    bool
}

func (n match) matches(s string) bool { return n.expression().MatchString(s) != n.negated }
func (n match) accept(data any, _ map[string]any) (any, bool) {
	s, ok := data.(string)
	return data, ok && n.matches(s)
}
func (match) absent() (any, bool) { return nil, false }
func (match) scalar() bool        { return true }

// structure is a closed struct.
type structure struct {
	fields     map[string]field
	patterns   []pattern
	least      int // number of fields
	conditions []condition
	distinct   []distinct
}

type field struct {
	presence presence
	value    node
}

type presence int

const (
	regular presence = iota
	required
	optional
)

// pattern constrains every field whose name matches.
type pattern struct {
	label match
	value node
}

func (n *structure) accept(data any, _ map[string]any) (any, bool) {
	given, ok := data.(map[string]any)
	if !ok || len(given) < n.least {
		return nil, false
	}
	for label, v := range given {
		if given[label], ok = n.one(label, v, given); !ok {
			return nil, false
		}
	}
	for label, f := range n.fields {
		if _, is := given[label]; is || f.presence == optional {
			continue
		}
		v, ok := f.value.absent()
		if !ok || f.presence == required {
			return nil, false
		}
		if given[label], ok = n.one(label, v, given); !ok {
			return nil, false
		}
	}
	for _, c := range n.conditions {
		if holds, known := c.holds(scope{fields: n.fields, data: given}); holds || !known {
			return nil, false
		}
	}
	for _, d := range n.distinct {
		if !d.holds(scope{fields: n.fields, data: given}) {
			return nil, false
		}
	}
	return given, true
}

// one judges one field by its declaration and by every pattern that names it.
func (n *structure) one(label string, v any, in map[string]any) (_ any, ok bool) {
	f, declared := n.fields[label]
	if declared {
		if v, ok = f.value.accept(v, in); !ok {
			return nil, false
		}
	}
	for _, p := range n.patterns {
		if !p.label.matches(label) {
			continue
		}
		declared = true
		if v, ok = p.value.accept(v, in); !ok {
			return nil, false
		}
	}
	return v, declared
}

func (n *structure) absent() (any, bool) { return n.accept(map[string]any{}, nil) }
func (*structure) scalar() bool          { return false }

func scalarData(data any) bool {
	switch data.(type) {
	case nil, bool, int64, string:
		return true
	}
	return false
}
