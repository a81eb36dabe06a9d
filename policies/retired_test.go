package policies

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"stado.internal/stado/schema"
)

// TestRetiredTableIsTheSchema compares the table with the lines of the schema, in both directions.
func TestRetiredTableIsTheSchema(t *testing.T) {
	table, err := Retired()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range table {
		want[f.Path] = f.Sentence
		if !strings.HasSuffix(f.Path, "."+f.Field) || f.Since == "" || !strings.Contains(f.Sentence, f.Replacement) {
			t.Errorf("the row of %s does not hang together: %+v", f.Path, f)
		}
	}
	if len(want) != len(table) {
		t.Errorf("the table has %d rows for %d fields", len(table), len(want))
	}
	if diff := cmp.Diff(want, schema.Retired()); diff != "" {
		t.Errorf("-table +schema\n%s", diff)
	}
}

// TestRetiredFieldsAreRefused declares every retired field, literally and by way of a definition, which only the evaluator sees.
func TestRetiredFieldsAreRefused(t *testing.T) {
	table, err := Retired()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range table {
		p := strings.NewReplacer("services.*", "services.api", "hosts.*", "hosts.a1", "adapters.*", "adapters.0").Replace(f.Path)
		for _, form := range []string{"literal", "computed"} {
			t.Run(p+"/"+form, func(t *testing.T) {
				c := schema.Compile(declaring(f.Path, f.Field, form == "computed"), schema.Options{})
				if c.Document != nil {
					t.Fatal("the registry compiles")
				}
				i := slices.IndexFunc(c.Findings, func(g finding) bool { return g.Rule == schema.RuleRetired })
				if i < 0 {
					t.Fatalf("no finding is of rule %s: %v", schema.RuleRetired, c.Findings)
				}
				got := c.Findings[i]
				if got.Message != f.Sentence || got.Path != p || got.File != "entry.cue" || got.Line == 0 {
					t.Errorf("got %+v, want the sentence %q at %s in entry.cue", got, f.Sentence, p)
				}
			})
		}
	}
}

func TestRetiredSeedSentence(t *testing.T) {
	table, err := Retired()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(table, func(f RetiredField) bool { return f.Path == "service_directory.services.*.answer_seconds" })
	if i < 0 {
		t.Fatal("answer_seconds of a service is not retired")
	}
	const start, end = "'answer_seconds' is retired: a resolver never cuts a relayed request by a clock; ", "; remove the key"
	if s := table[i].Sentence; !strings.HasPrefix(s, start) || !strings.HasSuffix(s, end) {
		t.Errorf("sentence %q", s)
	}
	if got, want := table[i].Unknown(), "unknown field `answer_seconds`"; got != want {
		t.Errorf("import says %q, want %q", got, want)
	}
}

// declaring is a registry that is good but for one retired field.
func declaring(fieldPath, field string, computed bool) []schema.File {
	line, template := field+": 30", ""
	if computed {
		line, template = "#Old", "\n#Old: {"+field+": 30, ...}\n"
	}
	inService, inAdapter := "", ""
	if strings.HasPrefix(fieldPath, "hosts.") {
		inAdapter = line
	} else {
		inService = line
	}
	texts := map[string]string{
		"registry.cue":   registry,
		"generation.cue": generation,
		"entry.cue": "package fleet\n" + template + `
registry: service_directory: services: api: {
	active_hosts: ["a1"]
	endpoints: a1: url: "http://127.0.0.1:9000"
	consumers: web: {}
	` + inService + `
}
registry: hosts: a1: service_resolver: {
	api_bind: "127.0.0.1:7100"
	refresh_seconds: 30
	max_stale_seconds: 300
	adapters: [{
		service: "api", consumer: "web", bind: "127.0.0.1:7101"
		` + inAdapter + `
	}]
}
`,
	}
	var out []schema.File
	for _, p := range slices.Sorted(maps.Keys(texts)) {
		out = append(out, schema.File{Path: p, Data: []byte(texts[p])})
	}
	return out
}
