package schema_test

import (
	"testing"

	"stado.internal/stado/schema"
)

func TestOwner(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct {
		file    string
		entries bool
	}{
		"hosts":                      {"", true},
		"hosts.a1":                   {"hosts/a1.cue", false},
		`hosts."a.b".ssh`:            {"hosts/a.b.cue", false},
		"hosts.web_test.zone":        {"hosts/web_test.entry.cue", false},
		`hosts."web_test.entry"`:     {"hosts/web_test.entry.entry.cue", false},
		`hosts."web.entry"`:          {"hosts/web.entry.cue", false},
		"service_directory":          {"", true},
		"service_directory.services": {"", true},
		"service_directory.services.pay.consumers": {"services/pay.cue", false},
		"service_directory.generation":             {"generation.cue", false},
		"service_directory.authority.epoch":        {"authority.cue", false},
		"policies.generation_mode":                 {"", false},
		`hosts."`:                                  {"", false},
	} {
		if file, entries := schema.Owner(path); file != want.file || entries != want.entries {
			t.Errorf("%s: %q, %t", path, file, entries)
		}
	}
	for _, name := range []string{"a1", "web_test", "web_tool", "web_test.entry", "web_test.entry.entry", "web.entry", "test", "_test"} {
		if got := schema.EntryName(schema.EntryFile(name)); got != name {
			t.Errorf("%s stands in %s, which is that of %s", name, schema.EntryFile(name), got)
		}
	}
	for file, owns := range map[string]bool{"hosts/a1.cue": true, "hosts/fra/a1.cue": true, "hosts/a2.cue": false, "services/a1.cue": false, "a1.cue": false} {
		if schema.Owns("hosts/a1.cue", file) != owns {
			t.Errorf("%s: want %t", file, owns)
		}
	}
	if schema.Owns("", "shared.cue") {
		t.Error("nobody's field has an owner")
	}
}
