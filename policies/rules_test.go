package policies

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

type finding = fleet.Finding

var ruleID = regexp.MustCompile(`STADO-[A-Z]+-[0-9]{3}`)

// TestRulesAreKnown looks for rule ids in the sources and in the expected findings of both packages: each has an explanation, and each
// explanation a finding that some archive or source produces.
func TestRulesAreKnown(t *testing.T) {
	known := map[string]bool{}
	for _, r := range Rules() {
		if known[r.ID] {
			t.Errorf("rule %s is there twice", r.ID)
		}
		known[r.ID] = true
		if r.Title == "" || r.Explanation == "" || !strings.HasSuffix(r.Explanation, ".") || !ruleID.MatchString(r.ID) {
			t.Errorf("rule %+v is not explained", r)
		}
	}
	if !slices.IsSortedFunc(Rules(), func(a, b Rule) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("the rules are not sorted")
	}
	for _, pattern := range []string{"*.go", "testdata/*.txtar", "../schema/*.go", "../schema/testdata/*.txtar"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range ruleID.FindAllString(string(data), -1) {
				if !known[id] {
					t.Errorf("%s uses rule %s, which nothing explains", name, id)
				}
			}
		}
	}
}

// TestJudgeNeverGoesBack offers arbitrary revisions to a holder that admits what Judge lets pass.
func TestJudgeNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var held Revision
		contents := map[fleet.Generation]string{}
		for range rapid.IntRange(1, 30).Draw(t, "offers") {
			next := revision(t)
			findings := Judge(held, next)
			if findings.Refuses() != (len(findings) > 0) {
				t.Fatalf("a finding that does not refuse: %v", findings)
			}
			if findings.Refuses() {
				continue
			}
			g := next.Registry.Directory.Generation
			if held.Registry != nil {
				before := held.Registry.Directory.Generation
				if g < before || g-before > fleet.MaxLeap {
					t.Fatalf("admitted generation %d after %d", g, before)
				}
				if len(held.Registry.Hosts) > 0 && len(next.Registry.Hosts) == 0 && !next.AllowEmptyFleet {
					t.Fatal("admitted an empty fleet")
				}
			}
			if d, ok := contents[g]; ok && d != next.Digest {
				t.Fatalf("admitted two contents of generation %d", g)
			}
			contents[g], held = next.Digest, next
		}
	})
}

func revision(t *rapid.T) Revision {
	r := &fleet.Registry{Hosts: map[fleet.HostName]fleet.Host{}}
	r.Directory.Generation = fleet.Generation(rapid.OneOf(rapid.Uint64Range(1, 6), rapid.SampledFrom([]uint64{fleet.MaxLeap, fleet.MaxLeap + 1, fleet.MaxLeap + 7, 1<<63 - 1})).Draw(t, "generation"))
	if rapid.Bool().Draw(t, "hosts") {
		r.Hosts["a1"] = fleet.Host{}
	}
	return Revision{
		Registry: r, Digest: rapid.SampledFrom([]string{"aa", "bb"}).Draw(t, "digest"),
		AllowEmptyFleet: rapid.Bool().Draw(t, "allow"),
	}
}

func TestJudgeWithoutRevisions(t *testing.T) {
	empty := Revision{Registry: &fleet.Registry{}, Digest: "aa"}
	for name, pair := range map[string][2]Revision{"first": {{}, empty}, "none": {empty, {}}} {
		if got := Judge(pair[0], pair[1]); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := Check(schema.Compiled{}); got != nil {
		t.Errorf("a registry that did not compile: %v", got)
	}
}
