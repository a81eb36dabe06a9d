package edit

import "encoding/json"

// Members are the fields of a struct, nil for anything else.
func (v Value) Members() []Member {
	members, _ := v.Data.([]Member)
	return members
}

// Field finds a field of a struct.
func (v Value) Field(name string) (Member, bool) {
	for _, m := range v.Members() {
		if m.Name == name {
			return m, true
		}
	}
	return Member{}, false
}

// At walks down fields.
func (v Value) At(labels ...string) (Value, bool) {
	for _, label := range labels {
		m, ok := v.Field(label)
		if !ok {
			return Value{}, false
		}
		v = m.Value
	}
	return v, true
}

// Equal reports whether two values are the same data: the order of fields and the lines do not matter.
func (v Value) Equal(w Value) bool {
	switch x := v.Data.(type) {
	case []Member:
		y, ok := w.Data.([]Member)
		if !ok || len(x) != len(y) {
			return false
		}
		for _, m := range x {
			other, ok := w.Field(m.Name)
			if !ok || !m.Value.Equal(other.Value) {
				return false
			}
		}
		return true
	case []Value:
		y, ok := w.Data.([]Value)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !x[i].Equal(y[i]) {
				return false
			}
		}
		return true
	}
	switch w.Data.(type) {
	case []Member, []Value:
		return false
	}
	return v.Data == w.Data
}

// JSON is the value as JSON, with fields in their order.
func (v Value) JSON() ([]byte, error) { return json.Marshal(v) }

// MarshalJSON keeps the order of fields.
func (v Value) MarshalJSON() ([]byte, error) {
	members, ok := v.Data.([]Member)
	if !ok {
		return json.Marshal(v.Data)
	}
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(m.Name)
		if err != nil {
			return nil, err
		}
		value, err := m.Value.MarshalJSON()
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// Missing finds the first part of a value that another one does not hold: its labels, and its line. A struct is held by one that has its
// fields and perhaps more, everything else by what is equal to it.
func (v Value) Missing(from Value) (labels []string, line int, missing bool) {
	want, ok1 := v.Data.([]Member)
	held, ok2 := from.Data.([]Member)
	if !ok1 || !ok2 {
		return nil, v.Line, !v.Equal(from)
	}
	for i, m := range want {
		var other Member
		ok := i < len(held) && held[i].Name == m.Name // as a rule the order is the same
		if ok {
			other = held[i]
		} else if other, ok = from.Field(m.Name); !ok {
			return []string{m.Name}, m.Line, true
		}
		if inner, line, missing := m.Value.Missing(other.Value); missing {
			return append([]string{m.Name}, inner...), line, true
		}
	}
	return nil, 0, false
}
