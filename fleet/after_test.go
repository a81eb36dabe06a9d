package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// TestDecodeAfter edits documents at random, canonical ones and others, and decodes each after the one before it.
func TestDecodeAfter(t *testing.T) {
	t.Parallel()
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		d := map[string]any{
			"hosts":             map[string]any{},
			"service_directory": map[string]any{"generation": 1, "authority": map[string]any{"host": "h0"}, "services": map[string]any{}},
			"presence":          map[string]any{"driver": "nats"},
			"trust":             map[string]any{},
		}
		before, previous := []byte(nil), (*Registry)(nil)
		for range 5 {
			for range rapid.IntRange(0, 4).Draw(t, "edits") {
				edit(t, d)
			}
			document, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			text := string(document)
			switch rapid.IntRange(0, 9).Draw(t, "form") {
			case 0:
				text = strings.Replace(text, `"hosts":{`, `"hosts": {`, 1)
			case 1:
				text = strings.Replace(text, `"hosts":{`, `"Hosts":{"h1":{"zone":"other"}},"hosts":{`, 1)
			case 2:
				text = strings.Replace(text, `"hosts":{`, `"hosts":{"h9":{},"h9":{"zone":"z"},`, 1)
			case 3:
				text = strings.Replace(text, `"trust"`, `"hosts":{"h1":{"zone":"again"}},"trust"`, 1)
			case 4:
				at := rapid.IntRange(0, len(text)).Draw(t, "at")
				text = text[:at] + rapid.SampledFrom([]string{"", "}", "{", `"`, ",", "[", "1", `\`}).Draw(t, "junk") + text[min(len(text), at+1):]
			}
			document = []byte(text)
			want, wantErr := Decode(document)
			got, gotErr := DecodeAfter(previous, before, document)
			if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
				t.Fatalf("%s\ngot error %v, want %v", document, gotErr, wantErr)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s\n-whole +after\n%s", document, diff)
			}
			if wantErr != nil {
				continue
			}
			if _, ok := cut(document); ok && previous != nil {
				taken++
			}
			before, previous = document, got
		}
	})
	if taken == 0 {
		t.Error("no document was ever taken apart: the test says nothing")
	}
}

func edit(t *rapid.T, d map[string]any) {
	name := fmt.Sprintf("h%d", rapid.IntRange(0, 5).Draw(t, "name"))
	directory := d["service_directory"].(map[string]any)
	hosts, ok := d["hosts"].(map[string]any)
	services, ok2 := directory["services"].(map[string]any)
	text := rapid.SampledFrom([]string{"a", `"`, `\`, `\"`, "}", "{,", "é", "", `},"h3":{`}).Draw(t, "text")
	switch rapid.SampledFrom([]string{"host", "host", "host", "label", "remove", "service", "service", "generation", "none", "odd"}).Draw(t, "edit") {
	case "host":
		if ok {
			hosts[name] = map[string]any{"zone": text, "hostnames": []string{text, "b"}, "service_resolver": map[string]any{"refresh_seconds": rapid.IntRange(0, 3).Draw(t, "n")}}
		}
	case "label":
		if ok {
			hosts[name] = map[string]any{"labels": map[string]string{text: text}}
		}
	case "odd":
		if ok {
			hosts["h"+text] = map[string]any{"zone": "odd"}
		}
	case "remove":
		delete(hosts, name)
		delete(services, name)
	case "service":
		if ok2 {
			services[name] = map[string]any{"active_hosts": []string{text}, "selector": text}
		}
	case "generation":
		directory["generation"] = rapid.IntRange(1, 9).Draw(t, "generation")
	case "none":
		d[rapid.SampledFrom([]string{"hosts", "presence", "service_directory"}).Draw(t, "part")] = nil
	}
	if _, ok := d["service_directory"].(map[string]any); !ok {
		d["service_directory"] = map[string]any{"generation": 2, "services": map[string]any{}}
	}
	if d["hosts"] == nil && rapid.Bool().Draw(t, "again") {
		d["hosts"] = map[string]any{}
	}
}

// TestReplace puts other hosts and another generation into canonical documents: what comes out is the same document, registry and parts as
// those that are made from the text.
func TestReplace(t *testing.T) {
	t.Parallel()
	replaced := 0
	rapid.Check(t, func(t *rapid.T) {
		directory := map[string]any{"generation": 1, "authority": map[string]any{"host": "h0"}, "services": map[string]any{}}
		d := map[string]any{"hosts": map[string]any{}, "service_directory": directory, "trust": map[string]any{}}
		for range rapid.IntRange(0, 12).Draw(t, "edits") {
			edit(t, d)
		}
		before, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		values, there := map[HostName][]byte{}, true
		hosts, _ := d["hosts"].(map[string]any)
		for range rapid.IntRange(0, 2).Draw(t, "hosts") {
			name := fmt.Sprintf("h%d", rapid.IntRange(0, 5).Draw(t, "host"))
			value := map[string]any{"zone": rapid.SampledFrom([]string{"new", `}"`}).Draw(t, "zone")}
			if values[HostName(name)], err = json.Marshal(value); err != nil {
				t.Fatal(err)
			}
			if _, known := hosts[name]; known {
				hosts[name] = value
			} else {
				there = false
			}
		}
		g := Generation(rapid.SampledFrom([]int{0, 7, 1 << 40}).Draw(t, "generation"))
		if directory, ok := d["service_directory"].(map[string]any); ok && g > 0 {
			directory["generation"] = g
		}
		after, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		registry, err := Decode(before)
		if err != nil {
			t.Fatal(err)
		}
		parts, ok := TakeApart(before, registry)
		if !ok {
			return
		}
		var room []byte
		switch rapid.IntRange(0, 2).Draw(t, "room") {
		case 1:
			room = make([]byte, 1) // is not enough
		case 2:
			room = make([]byte, len(before)+1000)
		}
		held := string(before)
		next, ok := parts.Replace(values, g, room)
		if string(parts.Document()) != held {
			t.Fatalf("the document that is held has become %s", parts.Document())
		}
		if !ok {
			return
		}
		if out := next.Document(); !there || string(out) != string(after) {
			t.Fatalf("got %s\nwant %s", out, after)
		}
		if len(values) > 0 {
			replaced++
		}
		want, err := Decode(after)
		if diff := cmp.Diff(want, next.Registry()); err != nil || diff != "" {
			t.Fatalf("%v\n-whole +parts\n%s", err, diff)
		}
		anew, ok := TakeApart(after, want)
		diff := cmp.Diff(anew, next, cmp.AllowUnexported(Parts{}, pieces{}, member{}), cmpopts.IgnoreFields(Parts{}, "digest"), cmpopts.EquateEmpty())
		if !ok || diff != "" || anew.Digest() != next.Digest() {
			t.Fatalf("apart: %t\n-anew +replaced\n%s", ok, diff)
		}
	})
	if replaced == 0 {
		t.Error("nothing was ever replaced: the test says nothing")
	}
}
