package edit

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawValue draws data as a registry has it.
func drawValue(t *rapid.T, depth int) Value {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return Value{Data: rapid.Bool().Draw(t, "bool")}
	case 1:
		return Value{Data: nil}
	case 2, 3:
		return Value{Data: rapid.SampledFrom([]string{"", "a", "two words", "quo\"te", "\\", "línea\n\ttab", "// no comment", "{", "a: b"}).Draw(t, "string")}
	case 4:
		list := make([]Value, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = drawValue(t, depth-1)
		}
		return Value{Data: list}
	}
	return drawStruct(t, depth-1)
}

func drawStruct(t *rapid.T, depth int) Value {
	members := []Member{}
	for _, name := range []string{"a", "b-c", "d.e", "true", "_f", "0"} {
		if rapid.IntRange(0, 2).Draw(t, "present") > 0 {
			members = append(members, Member{Name: name, Value: drawValue(t, depth)})
		}
	}
	return Value{Data: members}
}

// TestPutSaysTheValue writes one value over another: the file then says the second and nothing else, writing it again changes nothing,
// and a comment beside a field that both have survives.
func TestPutSaysTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawStruct(t, 3), drawStruct(t, 3)
		var text strings.Builder
		text.WriteString("package fleet\n\nx: {\n")
		loose := rapid.Bool().Draw(t, "unformatted")
		for _, m := range before.Members() {
			fmt.Fprintf(&text, "\t// about %q\n\t%s // beside %q\n", m.Name, field(m.Name, m.Value, "\t"), m.Name)
		}
		text.WriteString("}\n")
		if loose {
			text.WriteString("  // the end\n")
		}
		f, err := Open("x.cue", []byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Put(after, "x"); err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		got := f.Bytes()
		v, err := ReadData("x.cue", got)
		if err != nil {
			t.Fatalf("%v\n%s", err, got)
		}
		x, _ := v.At("x")
		if !x.Equal(after) {
			t.Fatalf("%s\nthen Put %s\ngives %s", text.String(), after.CUE(""), got)
		}
		for _, m := range before.Members() {
			_, kept := after.Field(m.Name)
			for _, comment := range []string{fmt.Sprintf("// about %q", m.Name), fmt.Sprintf("// beside %q", m.Name)} {
				if strings.Contains(string(got), comment) != kept {
					t.Fatalf("comment %s: kept is %v\n%s\nbecomes\n%s", comment, !kept, text.String(), got)
				}
			}
		}
		again, err := Open("x.cue", got)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Put(after, "x"); err != nil || string(again.Bytes()) != string(got) {
			t.Fatalf("a second Put changes\n%s\nto\n%s\n%v", got, again.Bytes(), err)
		}
	})
}

// FuzzEdit gives arbitrary text and edits it: an edit that is done leaves text that parses and says what was put, one that is refused
// leaves the text alone.
func FuzzEdit(f *testing.F) {
	for _, seed := range []string{shop, "package fleet\nx: a: {b: 1}\n", "x: {...}", "x: [1,\n2]\n", "x: _y & {a: 1}", "x: {\n}\n", "x: {a: b: c: 1, d: 2}\r\n"} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, n uint8) {
		file, err := Open("x.cue", text)
		if err != nil {
			return
		}
		before := string(file.Bytes())
		want := Value{Data: []Value{{Data: true}, {Data: strings.Repeat("v", int(n))}}}
		if n%2 == 0 {
			want = Value{Data: []Member{{Name: "b", Value: want}, {Name: "c d", Value: Value{Data: []Member{}}}}}
		}
		if err := file.Put(want, "x", "a"); err != nil {
			if string(file.Bytes()) != before {
				t.Fatalf("refused, and changed %q to %q", before, file.Bytes())
			}
			return
		}
		again, err := Open("x.cue", file.Bytes())
		if err != nil {
			t.Fatalf("%q became %q: %v", before, file.Bytes(), err)
		}
		if changed, err := again.putStep(want, []string{"x", "a"}); changed || err != nil {
			t.Fatalf("%q became %q, which does not say %s (%v)", before, file.Bytes(), want.CUE(""), err)
		}
	})
}
