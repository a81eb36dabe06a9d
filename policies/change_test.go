package policies

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// sealed is a revision of a registry, with the document that it was decoded from.
func sealed(t interface{ Fatal(...any) }, r *fleet.Registry) Revision {
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	document, err := schema.Canonical(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return Revision{Registry: r, Document: document, Digest: schema.Digest(document)}
}

func rulesOf(fs fleet.Findings) []string {
	var out []string
	for _, f := range fs {
		out = append(out, f.Rule)
	}
	slices.Sort(out)
	return out
}

// TestLimitBoundaries stands at the edges of the change limits: the last number that passes, the first that does not, and a set too small.
func TestLimitBoundaries(t *testing.T) {
	for _, c := range []struct {
		set, n, percent, least int
		want                   bool
	}{
		{20, 5, 25, 10, false},
		{20, 6, 25, 10, true},
		{19, 5, 25, 10, true}, // 26.32 percent
		{10, 3, 25, 10, true},
		{9, 9, 25, 10, false},
		{10, 0, 0, 10, false},
		{10, 1, 0, 10, true},
		{10, 10, 100, 1, false},
		{1, 1, 99, 1, true},
		{10_000, 2_501, 25, 10, true},
	} {
		if got := exceeds(c.n, c.set, c.percent, c.least); got != c.want {
			t.Errorf("%d of %d past %d%% of at least %d: %v", c.n, c.set, c.percent, c.least, got)
		}
	}
	for want, pair := range map[string][2]int{"25%": {5, 20}, "26.32%": {5, 19}, "25.01%": {2501, 10_000}, "100%": {3, 3}, "0%": {0, 7}} {
		if got := percent(pair[0], pair[1]); got != want {
			t.Errorf("%d of %d is %s, want %s", pair[0], pair[1], got, want)
		}
	}
}

// TestDefaultLimits holds that a registry which says nothing of limits has those of the schema.
func TestDefaultLimits(t *testing.T) {
	c := compile(t, []schema.File{{Path: "policies.cue", Data: []byte("package fleet\n\nregistry: policies: quorum: \"none\"\n")}})
	if diff := cmp.Diff(*c.Registry.Policies.ChangeLimits, (fleet.Policies{}).Limits()); diff != "" {
		t.Errorf("-schema +model\n%s", diff)
	}
}

// TestGaps says which rules hold across what lies between two revisions.
func TestGaps(t *testing.T) {
	base := func() *fleet.Registry {
		r := &fleet.Registry{Hosts: map[fleet.HostName]fleet.Host{}}
		r.Directory.Generation = 41
		r.Directory.Authority = fleet.Authority{Host: "h0", Repository: "/r", Command: "/c", Epoch: 3}
		for i := range 10 {
			r.Hosts[fleet.HostName(fmt.Sprintf("h%d", i))] = fleet.Host{Zone: "z"}
		}
		return r
	}
	move := func(epoch uint64) func(*fleet.Registry) {
		return func(r *fleet.Registry) { r.Directory.Authority.Host, r.Directory.Authority.Epoch = "h1", epoch }
	}
	zone := func(r *fleet.Registry) { r.Hosts["h2"] = fleet.Host{Zone: "y"} }
	shrink := func(r *fleet.Registry) { delete(r.Hosts, "h7"); delete(r.Hosts, "h8"); delete(r.Hosts, "h9") }
	for _, c := range []struct {
		name    string
		stamped bool
		changes []func(*fleet.Registry)
		want    [4][]string // by gap: none, refused, merged, unknown
	}{
		{"a change", false, []func(*fleet.Registry){zone}, [4][]string{}},
		{"a change with its number, stamped", true, []func(*fleet.Registry){zone}, [4][]string{0: {RuleStamped}}},
		{"a move", false, []func(*fleet.Registry){move(4)}, [4][]string{}},
		{"a move and a change", false, []func(*fleet.Registry){move(4), zone}, [4][]string{0: {RuleAuthorityAlone}, 1: {RuleAuthorityAlone}}},
		{"two moves", false, []func(*fleet.Registry){move(5)}, [4][]string{0: {RuleEpoch}, 1: {RuleEpoch}}},
		{"a move without its epoch", false, []func(*fleet.Registry){move(3)}, [4][]string{{RuleEpoch}, {RuleEpoch}, {RuleEpoch}, {RuleEpoch}}},
		{"a move back", false, []func(*fleet.Registry){move(2)}, [4][]string{{RuleEpoch}, {RuleEpoch}, {RuleEpoch}, {RuleEpoch}}},
		{"three of ten hosts", false, []func(*fleet.Registry){shrink}, [4][]string{0: {RuleRemovedHosts}, 1: {RuleRemovedHosts}, 2: {RuleRemovedHosts}}},
	} {
		for gap := GapNone; gap <= GapUnknown; gap++ {
			held, next := base(), base()
			if c.stamped {
				held.Policies.GenerationMode, next.Policies.GenerationMode = fleet.GenerationStamped, fleet.GenerationStamped
			}
			for _, change := range c.changes {
				change(next)
			}
			next.Directory.Generation = 42
			offered := sealed(t, next)
			offered.Gap = gap
			if diff := cmp.Diff(c.want[gap], rulesOf(Judge(sealed(t, held), offered))); diff != "" {
				t.Errorf("%s across gap %d (-want +got):\n%s", c.name, gap, diff)
			}
		}
	}
}

// TestChanged names what differs, and takes a document that cannot be read for wholly different.
func TestChanged(t *testing.T) {
	const held = `{"hosts":{"a.1":{"zone":"x"},"b":{}},"objects":{},"service_directory":{"authority":{"host":"b"},"generation":1,"services":{"s":{}}}}`
	for next, want := range map[string][]string{
		held: nil,
		`{"hosts":{"a.1":{"zone":"x"},"b":{}},"objects":{},"service_directory":{"generation":2,"services":{"s":{}}}}`: nil,
		`{"hosts":{"a.1":{"zone":"y"},"c":{}},"service_directory":{"generation":2,"more":1}}`:                         {`hosts."a.1"`, "hosts.b", "hosts.c", "objects", "service_directory.more", "service_directory.services.s"},
	} {
		if diff := cmp.Diff(want, changed([]byte(held), []byte(next))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", next, diff)
		}
	}
	if got := changed([]byte(held), []byte(`{"hosts":`)); len(got) < 4 {
		t.Errorf("a torn document differs in %v", got)
	}
}

// TestJudgeKeepsTheAuthority offers arbitrary changes to a holder that admits what Judge lets pass: every change of the authority is alone
// and counted, and nothing else is.
func TestJudgeKeepsTheAuthority(t *testing.T) {
	moves, changes := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var held Revision
		for range rapid.IntRange(5, 40).Draw(t, "offers") {
			r := &fleet.Registry{Hosts: map[fleet.HostName]fleet.Host{"a": {Zone: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "zone")}}}
			r.Directory.Authority = fleet.Authority{Remote: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "remote")}
			r.Policies.GenerationMode = rapid.SampledFrom([]fleet.GenerationMode{fleet.GenerationAuthored, fleet.GenerationStamped}).Draw(t, "mode")
			r.Directory.Generation, r.Directory.Authority.Epoch = 1, 1
			if held.Registry != nil {
				r.Directory.Generation = held.Registry.Directory.Generation + fleet.Generation(rapid.IntRange(0, 1).Draw(t, "raise"))
				r.Directory.Authority.Epoch = held.Registry.Directory.Authority.Epoch + uint64(rapid.IntRange(0, 2).Draw(t, "epoch"))
			}
			next := sealed(t, r)
			if Judge(held, next).Refuses() {
				continue
			}
			if held.Registry != nil {
				before, after := held.Registry.Directory.Authority, r.Directory.Authority
				others := held.Registry.Hosts["a"].Zone != r.Hosts["a"].Zone || held.Registry.Policies != r.Policies
				raised := r.Directory.Generation > held.Registry.Directory.Generation
				switch moved := before.Remote != after.Remote; {
				case moved && (others || after.Epoch != before.Epoch+1), !moved && after.Epoch != before.Epoch:
					t.Fatalf("admitted %s after %s", next.Document, held.Document)
				case others && raised && held.Registry.Policies.GenerationMode == fleet.GenerationStamped:
					t.Fatalf("admitted a number by hand: %s after %s", next.Document, held.Document)
				case moved:
					moves++
				case others:
					changes++
				}
			}
			held = next
		}
	})
	if moves == 0 || changes == 0 {
		t.Errorf("%d moves and %d other changes were admitted: the rules were not tried", moves, changes)
	}
}
