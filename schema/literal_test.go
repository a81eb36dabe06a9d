package schema

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// leafTexts are leaves that use every block and every kind of value that the schema has for hosts and services; the schema's text
// alone admits them.
var leafTexts = []string{
	`registry: hosts: a1: {
	ssh: "root@[10.0.0.1]:2222"
	ssh_fallbacks: [{name: "lan", destination: "10.0.0.1"}]
	hostnames: ["a1.example.net", "A1"]
	zone: "z1", region: "eu", user: "stado"
	certificate_sha256: "` + strings.Repeat("0a", 32) + `"
	labels: {role: "edge", "rack/row": ""}
	service_resolver: {
		api_bind: "127.0.0.1:7100", refresh_seconds: 30, max_stale_seconds: 300
		adapters: [
			{service: "s0", consumer: "web", bind: "127.0.0.1:7101"},
			{service: "s1", consumer: "web", bind: "unix:///run/s1.sock", mode: "0660", protocol: "tcp", expose: true},
		]
	}
}`,
	`registry: hosts: "b.1": {
	presence: {driver: "nats", selector: "first", heartbeat_interval: 0, degraded_after: "", nats: {address: "nats://h:4222", ttl: "30s", embedded: "leaf", leaf: ["tls://h:1"]}}
	relay: {socket: "unix:///run/relay.sock", slots: speech: attach: "host://a1/run/x.sock", limits: max_chunk: 2048}
	objects: bind: "127.0.0.1:1"
	console: {}
	metrics: {bind: "0.0.0.0:7481", expose: true}
	labels: note: "é <&> \" \\ \u2028"
}`,
	`registry: service_directory: services: s0: {
	active_hosts: ["a1", "b.1"]
	endpoints: {a1: url: "http://127.0.0.1:9000", "b.1": {url: "unix:///run/s0.sock"}}
	consumers: {web: {}, job: capabilities: ["read", "write"]}
	selector: "zone=z1"
	check: {kind: "http", path: "/healthz", interval: "5s", rise: 1}
	verify: {kind: "tcp", from: "endpoint-holders"}
}`,
	"registry: service_directory: services: s1: {active_hosts: [\"a1\"], endpoints: a1: url: \"tcp://[::1]:9000\", consumers: web: {}, protocol: \"tcp\", check: kind: \"none\"}",
	"registry: hosts: e: {}",
}

// TestLiteralAdmits holds that these leaves need no evaluation, and that their documents are those of the evaluator.
func TestLiteralAdmits(t *testing.T) {
	for _, text := range leafTexts {
		if !agreesWithCUE(t, text) {
			t.Errorf("the evaluator is asked about\n%s", text)
		}
	}
}

// TestLiteralMeansCUE changes leaves and asks the evaluator about every one that the schema's text still admits: it says the same.
func TestLiteralMeansCUE(t *testing.T) {
	admitted, asked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 5 {
			if agreesWithCUE(t, mutated(t)) {
				admitted++
			}
			asked++
		}
	})
	if admitted < asked/20 || admitted == asked {
		t.Errorf("%d of %d leaves were admitted: the test says little", admitted, asked)
	}
}

func FuzzLiteral(f *testing.F) {
	for _, text := range leafTexts {
		f.Add(text)
	}
	f.Add("registry: hosts: a1: {zone: \"z\", zone: \"z\"}")
	f.Add("registry: hosts: a1: labels: \"\\u0061\": \"\"\"\n\tx\n\t\"\"\"")
	f.Fuzz(func(t *testing.T, text string) { agreesWithCUE(t, text) })
}

// agreesWithCUE reports whether a leaf is admitted without the evaluator, and fails the test when the evaluator says otherwise.
func agreesWithCUE(t interface{ Fatalf(string, ...any) }, text string) bool {
	file := File{"leaf.cue", []byte("package fleet\n\n" + text + "\n")}
	c := newCompiler(Options{})
	sources := c.parse(c.gateFiles([]File{file}))
	if c.findings.refuses() || len(sources) != 1 || sources[0].fragment == nil {
		return false
	}
	s := sources[0]
	u := unit{sources: []source{s}, entries: []entry{{kind: s.leaf.kind, name: s.leaf.name, sources: sources}}}
	for _, f := range baseFiles[1:] {
		u.sources = append(u.sources, source{path: f.Path, data: f.Data})
	}
	got := evaluateCUE(u)
	if got.err != nil {
		t.Fatalf("admitted without the evaluator, which says %v:\n%s", got.err, text)
	}
	if !bytes.Equal(got.entries[0], s.fragment) {
		t.Fatalf("without the evaluator\n%s\nwith it\n%s\nof\n%s", s.fragment, got.entries[0], text)
	}
	return true
}

// mutated draws a leaf and a few changes of its words: most often one for another of its kind.
func mutated(t *rapid.T) string {
	const signs = " \n\t:,{}[]"
	isSign := func(r rune) bool { return strings.ContainsRune(signs, r) }
	text := rapid.SampledFrom(leafTexts).Draw(t, "leaf")
	all := strings.FieldsFunc(strings.Join(leafTexts, " "), isSign)
	for range rapid.IntRange(1, 2).Draw(t, "changes") {
		old := rapid.SampledFrom(strings.FieldsFunc(text, isSign)).Draw(t, "old")
		var with string
		switch rapid.IntRange(0, 5).Draw(t, "change") {
		case 0:
			with = rapid.SampledFrom([]string{
				"0", "1", "-1", "1.0", "0x1F", "1K", "1_000", "9223372036854775808", "true", "false", "null", "_", "_|_", "string", "int", "{}", "[]", "\"\"",
				"\"0.0.0.0:1\"", "\"127.0.0.1:7100\"", "\"a b\"", "\"é\"", "\"exec\"", "'x'", "#\"x\"#", "\"\\u0061\"", "\"x\" | \"y\"", "*\"tcp\" | \"http\"",
			}).Draw(t, "value")
		case 1:
			with = rapid.SampledFrom([]string{"answer_seconds", "idle_seconds", "bogus", "_hidden", "#definition", "\"quoted name\"", "command: \"x\", path", "labels", "zone: \"z\", zone", "x?"}).Draw(t, "label")
		default:
			same := slices.DeleteFunc(slices.Clone(all), func(w string) bool { return kindOfWord(w) != kindOfWord(old) })
			with = rapid.SampledFrom(append(same, old)).Draw(t, "other")
		}
		text = strings.Replace(text, old, with, 1)
	}
	return text
}

func kindOfWord(w string) byte {
	switch {
	case w[0] >= '0' && w[0] <= '9':
		return '0'
	case w[0] == '"':
		return '"'
	}
	return 'a'
}
