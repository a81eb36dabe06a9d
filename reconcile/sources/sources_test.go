package sources

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/source"
)

func TestRemotes(t *testing.T) {
	home := Named{Repository: "https://git.example.net/fleet.git", Branch: "live", CAFile: "/ca.pem", CredentialFile: "/secret"}
	got, err := Remotes([]Named{home, {Repository: "https://mirror.example.org/fleet.git"}, {Repository: "/srv/fleet.git", Branch: "main", CredentialFile: "/other"}})
	if err != nil || len(got) != 3 || got[0].CredentialFile != "/secret" {
		t.Fatalf("%+v, %v", got, err)
	}
	if m := got[1]; m.Branch != "live" || m.CAFile != "/ca.pem" || m.CredentialFile != "" {
		t.Errorf("a mirror that says nothing of itself: %+v", m)
	}
	if m := got[2]; m.Branch != "main" || m.CredentialFile != "/other" {
		t.Errorf("a mirror of its own: %+v", m)
	}
	for want, named := range map[string][]Named{
		"mirror 1 cannot be read: ":                                       {home, {Repository: "ftp://mirror.example.org/fleet.git"}},
		"branch live of https://git.example.net/fleet.git is named twice": {home, {Repository: "/srv/fleet.git"}, {Repository: home.Repository}},
		"ftp": {{Repository: "ftp://git.example.net/fleet.git"}},
	} {
		if _, err := Remotes(named); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestOrder: the authority that the registry names is first, as what the host was started with when it is among that.
func TestOrder(t *testing.T) {
	started, err := Remotes([]Named{{Repository: "https://git.example.net/fleet.git"}, {Repository: "https://mirror.example.org/fleet.git", CAFile: "/ca.pem", CredentialFile: "/secret"}})
	if err != nil {
		t.Fatal(err)
	}
	var made []source.Remote
	s := New(Options{
		Started: started, Complete: func(o source.Options) source.Options { made = append(made, o.Remote); return o }, Self: func(*fleet.Snapshot) fleet.HostName { return "a1" },
		Own: func(own reconcile.Source, _ *fleet.Snapshot) reconcile.Source { return own }, Log: slog.New(slog.DiscardHandler),
	})
	defer s.Close()
	held := func(a fleet.Authority) *fleet.Snapshot {
		r := &fleet.Registry{Hosts: map[fleet.HostName]fleet.Host{"b1": {SSH: "stado@b1.example.net"}}}
		r.Directory.Authority = a
		return &fleet.Snapshot{Registry: r}
	}
	for _, tc := range []struct {
		name string
		held *fleet.Snapshot
		kind string
		want string
	}{
		{"nothing is held", nil, "https", "[https://git.example.net/fleet.git https://mirror.example.org/fleet.git]"},
		{"no authority", held(fleet.Authority{}), "https", "[https://git.example.net/fleet.git https://mirror.example.org/fleet.git]"},
		{"a host", held(fleet.Authority{Host: "b1", Repository: "/srv/fleet.git", Branch: "main"}), "ssh", "[ssh://stado@b1.example.net/srv/fleet.git https://git.example.net/fleet.git https://mirror.example.org/fleet.git]"},
		{"this host", held(fleet.Authority{Host: "a1", Repository: "/srv/fleet.git", Branch: "main"}), "local", "[file:///srv/fleet.git https://git.example.net/fleet.git https://mirror.example.org/fleet.git]"},
		{"the repository", held(fleet.Authority{Remote: "https://git.example.net/fleet.git", Branch: "main"}), "https", "[https://git.example.net/fleet.git https://mirror.example.org/fleet.git]"},
		{"the mirror", held(fleet.Authority{Remote: "https://mirror.example.org/fleet.git", Branch: "main"}), "https", "[https://mirror.example.org/fleet.git https://git.example.net/fleet.git]"},
		{"another branch", held(fleet.Authority{Remote: "https://mirror.example.org/fleet.git", Branch: "live"}), "https", "[https://mirror.example.org/fleet.git (branch live) https://git.example.net/fleet.git https://mirror.example.org/fleet.git]"},
		{"an authority that cannot be read", held(fleet.Authority{Remote: "ftp://git.example.net"}), "https", "[https://git.example.net/fleet.git https://mirror.example.org/fleet.git]"},
	} {
		if got := fmt.Sprint(s.Order(tc.held)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		if got := s.Kind(tc.held); got != tc.kind {
			t.Errorf("%s: read as %s, want %s", tc.name, got, tc.kind)
		}
	}
	for _, r := range made {
		if mirror := strings.Contains(r.URL, "mirror"); mirror != (r.CredentialFile == "/secret") || mirror != (r.CAFile == "/ca.pem") {
			t.Errorf("read with the credentials of another: %+v", r)
		}
	}
}
