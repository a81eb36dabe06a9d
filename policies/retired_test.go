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
		if f.Deprecated {
			t.Errorf("%s is deprecated: this test has to learn that the schema still has it", f.Path)
		}
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

// TestDeprecatedFields walks a field through its window with rows that no release has: while it is deprecated the registry is admitted
// with a warning, in the form of the later refusal and at the place that gives the field.
func TestDeprecatedFields(t *testing.T) {
	texts := map[string]string{
		"shared.cue":   "package fleet\n\n_fra: {region: \"eu\", ...}\n",
		"hosts/a1.cue": "package fleet\n\nregistry: hosts: a1: {\n\tzone: \"z1\"\n\tssh_fallbacks: [{name: \"x\", destination: \"u@a\"}, {name: \"y\", destination: \"u@b\"}]\n}\n",
		"hosts/a2.cue": "package fleet\n\nregistry: hosts: a2: _fra\n",
	}
	var files []schema.File
	for _, p := range slices.Sorted(maps.Keys(texts)) {
		files = append(files, schema.File{Path: p, Data: []byte(texts[p])})
	}
	c := compile(t, files)
	rows := fabricated(t, `retired: [
		{path: "hosts.*.zone", field: "zone", since: "9.1.0", why: "zones are labels", replacement: "labels: zone", deprecated: true},
		{path: "hosts.*.region", field: "region", since: "9.1.0", why: "regions are labels", replacement: "labels: region", deprecated: true},
		{path: "hosts.*.ssh_fallbacks.*.name", field: "name", since: "9.1.0", why: "paths need no name", replacement: "their order is enough", deprecated: true},
		{path: "hosts.*.user", field: "user", since: "9.1.0", why: "nobody has one", replacement: "nothing", deprecated: true},
		{path: "hosts.*.ssh_fallbacks", field: "ssh_fallbacks", since: "9.0.0", why: "it is refused by the schema", replacement: "nothing"},
	]`)
	findings := check(c, rows)
	if findings.Refuses() {
		t.Errorf("a deprecated field is refused: %v", findings)
	}
	var got []string
	for _, f := range findings {
		got = append(got, string(f.Severity)+" "+f.Path+" "+f.String())
	}
	want := []string{
		`warning hosts.a1.zone hosts/a1.cue:4:8: STADO-RETIRED-001: 'zone' is deprecated: zones are labels; labels: zone; remove the key (deprecated since 9.1.0; a later release refuses it)`,
		`warning hosts.a1.ssh_fallbacks.0.name hosts/a1.cue:5:25: STADO-RETIRED-001: 'name' is deprecated: paths need no name; their order is enough; remove the key (deprecated since 9.1.0; a later release refuses it)`,
		`warning hosts.a1.ssh_fallbacks.1.name hosts/a1.cue:5:58: STADO-RETIRED-001: 'name' is deprecated: paths need no name; their order is enough; remove the key (deprecated since 9.1.0; a later release refuses it)`,
		`warning hosts.a2.region hosts/a2.cue:3:22: STADO-RETIRED-001: 'region' is deprecated: regions are labels; labels: region; remove the key (deprecated since 9.1.0; a later release refuses it)`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if s := rows[4].Sentence; s != "'ssh_fallbacks' is retired: it is refused by the schema; nothing; remove the key" {
		t.Errorf("after the window the sentence is %q", s)
	}
}

// fabricated reads rows in the form of the embedded table.
func fabricated(t *testing.T, rows string) []RetiredField {
	t.Helper()
	definition, _, ok := strings.Cut(string(retiredTable), "// retired is the only table")
	if !ok {
		t.Fatal("the embedded table has another form")
	}
	table, err := retiredFrom([]byte(definition + "retired: [...#Retired]\n" + rows))
	if err != nil {
		t.Fatal(err)
	}
	return table
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
