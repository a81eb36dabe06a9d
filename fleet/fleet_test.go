package fleet

import (
	"slices"
	"strings"
	"testing"
)

func TestHostByIdentity(t *testing.T) {
	r := &Registry{Hosts: map[HostName]Host{
		"a1": {Hostnames: []string{"edge.example.net"}, SSH: "ops@[10.0.0.1]:2222"},
		"a2": {SSH: "ops@a2.example.net"},
		"b1": {Hostnames: []string{"twin"}},
		"b2": {Hostnames: []string{"twin"}},
	}}
	for in, want := range map[string]HostName{
		"a1": "a1", "A1.": "a1", " a1.corp.example.net ": "a1", "EDGE.example.net": "a1", "10.0.0.1": "a1", "a2.example.net": "a2",
	} {
		if got, err := r.HostByIdentity(in); err != nil || got != want {
			t.Errorf("HostByIdentity(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	if _, err := r.HostByIdentity("twin"); err == nil || err.Error() != "hostname 'twin' matches multiple registry targets: b1, b2" {
		t.Errorf("two hosts with one identity: %v", err)
	}
	if _, err := r.HostByIdentity("c9"); err == nil || !strings.HasPrefix(err.Error(), `resolver host "c9" has no registry target identity`) {
		t.Errorf("no host: %v", err)
	}
}

func TestIdentitiesAreNormalizedAndUnique(t *testing.T) {
	h := Host{Hostnames: []string{"A1.Example.net.", "a1"}, SSH: "ops@a1.example.net"}
	if got, want := h.Identities("a1"), []string{"a1", "a1.example.net"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAdapterProtocol(t *testing.T) {
	r := &Registry{Directory: Directory{Services: map[ServiceName]Service{"db": {Protocol: ProtocolTCP}, "web": {}}}}
	for _, tc := range []struct {
		in   Adapter
		want Protocol
	}{
		{Adapter{Service: "db"}, ProtocolTCP},
		{Adapter{Service: "db", Protocol: ProtocolHTTP}, ProtocolHTTP},
		{Adapter{Service: "web"}, ProtocolHTTP},
		{Adapter{Service: "gone"}, ProtocolHTTP},
	} {
		if got := r.AdapterProtocol(tc.in); got != tc.want {
			t.Errorf("AdapterProtocol(%+v) = %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestFindingLine(t *testing.T) {
	f := Finding{Rule: "STADO-X-001", File: "hosts/a1.cue", Line: 3, Column: 7, Message: "no", Hint: "do"}
	if got, want := f.String(), "hosts/a1.cue:3:7: STADO-X-001: no (do)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Finding{Rule: "R", Message: "no"}).String(); got != "R: no" {
		t.Errorf("got %q", got)
	}
}

func TestFindingsSortAndRefuse(t *testing.T) {
	fs := Findings{{File: "b", Line: 1}, {File: "a", Line: 9}, {File: "a", Line: 2, Rule: "Z"}, {File: "a", Line: 2, Rule: "A", Severity: SeverityWarning}}
	if fs.Refuses() {
		t.Error("no finding is an error")
	}
	fs.Sort()
	var got []string
	for _, f := range fs {
		got = append(got, f.Position()+f.Rule)
	}
	if want := []string{"a:2A", "a:2Z", "a:9", "b:1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !(Findings{{Severity: SeverityError}}).Refuses() {
		t.Error("an error must refuse")
	}
}

func TestSnapshotGenerationOfNothing(t *testing.T) {
	var none *Snapshot
	if none.Generation() != 0 {
		t.Error("nothing held must be generation 0")
	}
	if _, err := Decode([]byte("{")); err == nil {
		t.Error("half a document must be refused")
	}
}
