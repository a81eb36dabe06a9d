package source

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/remote"
)

func TestAuthority(t *testing.T) {
	hosts := map[fleet.HostName]fleet.Host{
		"a1": {SSH: "stado@a1.example.net"},
		"a2": {SSH: "stado@[a2.example.net]:2222", SSHFallbacks: []fleet.SSHFallback{{Name: "wan", Destination: "stado@203.0.113.7"}}},
		"a3": {SSH: "[2001:db8::3]"},
	}
	for name, c := range map[string]struct {
		authority fleet.Authority
		url       string
		host      string
		paths     []remote.Path
		err       string
	}{
		"nobody": {},
		"a forge": {
			authority: fleet.Authority{Remote: "https://forge.example/fleet.git", Branch: "trunk"}, url: "https://forge.example/fleet.git trunk",
		},
		"this host": {
			authority: fleet.Authority{Host: "self", Repository: "/srv/fleet.git"}, url: "file:///srv/fleet.git main",
		},
		"another host": {
			authority: fleet.Authority{Host: "a1", Repository: "/srv/my fleet.git"}, url: "ssh://stado@a1.example.net/srv/my%20fleet.git main",
			host: "a1", paths: []remote.Path{{Name: "primary", Destination: "stado@a1.example.net"}},
		},
		"over two paths": {
			authority: fleet.Authority{Host: "a2", Repository: "/srv/fleet.git"}, url: "ssh://stado@a2.example.net:2222/srv/fleet.git main",
			host: "a2", paths: []remote.Path{{Name: "primary", Destination: "stado@[a2.example.net]:2222"}, {Name: "wan", Destination: "stado@203.0.113.7"}},
		},
		"by address": {
			authority: fleet.Authority{Host: "a3", Repository: "/srv/fleet.git"}, url: "ssh://[2001:db8::3]/srv/fleet.git main",
			host: "a3", paths: []remote.Path{{Name: "primary", Destination: "[2001:db8::3]"}},
		},
		"without a path": {
			authority: fleet.Authority{Host: "a9", Repository: "/srv/fleet.git"}, err: "the registry's authority cannot be read: ",
		},
	} {
		r := &fleet.Registry{Hosts: hosts, Directory: fleet.Directory{Authority: c.authority}}
		o, ok, err := Authority(r, "self")
		switch {
		case c.err != "":
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		case err != nil || ok != (c.url != ""):
			t.Errorf("%s: %v %v", name, ok, err)
			continue
		case !ok:
			continue
		}
		if got := o.Remote.URL + " " + o.Remote.Branch; got != c.url || o.SSH.Host != c.host {
			t.Errorf("%s: %s at %q", name, got, o.SSH.Host)
		}
		if diff := cmp.Diff(c.paths, o.SSH.Paths); diff != "" {
			t.Errorf("%s: paths (-want +got):\n%s", name, diff)
		}
	}
}
