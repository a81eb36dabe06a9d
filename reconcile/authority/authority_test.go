package authority_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
)

// copyOf is a last-known-good copy of a fleet whose authority is old, with the hosts old and those that follow.
func copyOf(generation fleet.Generation, quorum fleet.Quorum, hosts ...fleet.HostName) *fleet.Snapshot {
	r := &fleet.Registry{
		Hosts:    map[fleet.HostName]fleet.Host{"old": {}},
		Policies: fleet.Policies{Quorum: quorum},
		Directory: fleet.Directory{
			Generation: generation,
			Authority:  fleet.Authority{Host: "old", Command: "/usr/bin/stado", Repository: "/srv/registry.git", Branch: "main", Epoch: 3},
			Services:   map[fleet.ServiceName]fleet.Service{"shop": {}},
		},
	}
	for _, h := range hosts {
		r.Hosts[h] = fleet.Host{}
	}
	return &fleet.Snapshot{Commit: commit(int(generation)), Digest: digest(int(generation)), Registry: r}
}

func commit(n int) string { return strings.Repeat("c", 38) + two(n) }

func digest(n int) string { return strings.Repeat("d", 62) + two(n) }

func two(n int) string { return string([]byte{byte('0' + n/10%10), byte('0' + n%10)}) }

// naming is a copy whose document names another authority.
func naming(s *fleet.Snapshot, a fleet.Authority) *fleet.Snapshot {
	out, r := *s, *s.Registry
	r.Directory.Authority = a
	out.Registry = &r
	return &out
}

func reasonOf(t *testing.T, err error) authority.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	r, ok := err.(*authority.Refusal)
	if !ok {
		t.Fatalf("%v is no refusal", err)
	}
	return r.Reason
}

// golden compares a text with testdata/name; STADO_UPDATE=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("STADO_UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + "\n"
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		reading authority.Reading
		cause   string
		answers bool
	}{
		{authority.Reading{}, "", true},
		{authority.Reading{Cause: "no answer within 30s"}, "no answer within 30s", false},
		{authority.Reading{Refused: "service directory rollback rejected: generation 4 < 7"}, "service directory rollback rejected: generation 4 < 7", false},
		{authority.Reading{Cause: "cut short", Refused: "fork refused"}, "cut short", false},
	} {
		if cause, answers := c.reading.Answers(); cause != c.cause || answers != c.answers {
			t.Errorf("%+v: %q %t", c.reading, cause, answers)
		}
	}
}

func TestHostOf(t *testing.T) {
	for _, c := range []struct {
		authority fleet.Authority
		want      fleet.HostName
	}{
		{fleet.Authority{}, ""},
		{fleet.Authority{Host: "a1"}, "a1"},
		{fleet.Authority{Remote: "https://forge.example/fleet.git"}, "forge.example"},
		{fleet.Authority{Remote: "ssh://git@forge.example:2222/fleet.git"}, "forge.example"},
		{fleet.Authority{Remote: "git@forge.example:fleet.git"}, "forge.example"},
		{fleet.Authority{Host: "a1", Remote: "https://forge.example"}, "a1"},
		{fleet.Authority{Remote: "file:///srv/fleet.git"}, ""},
		{fleet.Authority{Remote: "/srv/a:b"}, ""},
	} {
		if got := authority.HostOf(c.authority); got != c.want {
			t.Errorf("%+v: %q", c.authority, got)
		}
	}
	if h := authority.HeadOf(nil); h != (authority.Head{}) {
		t.Errorf("of nothing: %+v", h)
	}
}
