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
