package policies

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stado.internal/stado/schema"
)

func constraining(fieldPath string) []string {
	var ids []string
	for _, r := range Constraining(fieldPath) {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestConstraining(t *testing.T) {
	for path, want := range map[string][]string{
		"service_directory.generation":           {RuleReused, RuleRollback, RuleLeap, RuleStamped, RuleNotOwned},
		"service_directory.authority":            {RuleAuthorityAlone, RuleEpoch, RuleNotOwned},
		"service_directory.authority.branch":     {RuleAuthorityAlone, RuleEpoch, RuleNotOwned},
		"hosts":                                  {RuleRemovedHosts, RuleEmptyFleet, RuleNotOwned},
		`hosts."a.b"`:                            {RuleRemovedHosts, RuleEmptyFleet, RuleIdentity, RuleNotOwned, RuleTwice},
		"hosts.a1.zone":                          {RuleNotOwned},
		"service_directory.services.pay.check":   {RuleChangedServices, RuleNotOwned},
		"hosts.a1.service_resolver.adapters.0":   {RuleNotOwned},
		"policies.change_limits.min_set":         {RuleNotOwned},
		"hosts.a1.service_resolver.adapters.0.x": {RuleNotOwned},
		`hosts."`:                                nil,
	} {
		if got := constraining(path); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// TestConstraintsAreComplete takes every finding that a registry of testdata is refused for, and every rule of this package, and looks
// for it in the table: a rule that looks at a new place needs a row there.
func TestConstraintsAreComplete(t *testing.T) {
	line := regexp.MustCompile(`(?m)^(?:error|warning) \[([^]]+)\].* (STADO-[A-Z]+-[0-9]{3}): `)
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	ofSchema := map[string]bool{RulePolicy: true, RulePolicyBroken: true, RuleDeprecated: true} // any field, by what others write
	for _, r := range schema.Rules() {
		ofSchema[r.ID] = r.ID != RuleBindClash
	}
	found := 0
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range line.FindAllStringSubmatch(string(data), -1) {
			if path, id := m[1], m[2]; !ofSchema[id] {
				found++
				if !slices.Contains(constraining(path), id) {
					t.Errorf("%s: %s refuses %s, and the table does not say so", name, id, path)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("testdata has %d findings of this package", found)
	}
	listed := map[string]bool{}
	for _, c := range constraints() {
		for _, id := range c.rules {
			listed[id] = true
		}
	}
	for _, r := range Rules() {
		if !ofSchema[r.ID] && !listed[r.ID] {
			t.Errorf("rule %s has no row in the table", r.ID)
		}
	}
	documented := documentedRules(t)
	for _, id := range documented {
		if !listed[id] && !ofSchema[id] {
			t.Errorf("docs/policies.md names %s, and the table has no row for it", id)
		}
	}
	for _, r := range slices.Concat(changeRules(), scopeRules()) {
		if !slices.Contains(documented, r.ID) {
			t.Errorf("docs/policies.md does not name %s", r.ID)
		}
	}
}

// documentedRules are the ids in the table of built-in rules, where `-002` behind an id stands for its sibling.
func documentedRules(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for row := range strings.Lines(string(data)) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		if !strings.HasPrefix(row, "| `STADO-") {
			continue
		}
		family := ""
		for _, m := range regexp.MustCompile("`(STADO-[A-Z]+)?(-[0-9]{3})`").FindAllStringSubmatch(cell, -1) {
			if m[1] != "" {
				family = m[1]
			}
			ids = append(ids, family+m[2])
		}
	}
	if len(ids) < 10 {
		t.Fatalf("docs/policies.md has a table of %v", ids)
	}
	return ids
}
