package fleet

import (
	"net/netip"
	"testing"
)

func TestListenersReached(t *testing.T) {
	for _, tt := range []struct {
		name, bind, url string
		own             []netip.Addr
		reached         bool
	}{
		{name: "same address", bind: "127.0.0.1:9000", url: "http://127.0.0.1:9000", reached: true},
		{name: "localhost", bind: "127.0.0.1:9000", url: "http://localhost:9000", reached: true},
		{name: "localhost bind", bind: "localhost:9000", url: "tcp://127.0.0.1:9000", reached: true},
		{name: "mapped", bind: "127.0.0.1:9000", url: "http://[::ffff:127.0.0.1]:9000", reached: true},
		{name: "unspecified endpoint", bind: "127.0.0.1:9000", url: "http://0.0.0.0:9000", reached: true},
		{name: "IPv6 loopback", bind: "[::1]:9000", url: "http://[::1]:9000", reached: true},
		{name: "IPv6 unspecified endpoint", bind: "[::1]:9000", url: "http://[::]:9000", reached: true},
		{name: "wildcard bind, loopback", bind: "0.0.0.0:9000", url: "http://127.0.0.1:9000", reached: true},
		{name: "wildcard bind, all of 127/8", bind: "0.0.0.0:9000", url: "http://127.9.9.9:9000", reached: true},
		{name: "wildcard bind, IPv6 loopback", bind: "[::]:9000", url: "http://[::1]:9000", reached: true},
		{name: "wildcard bind of IPv6, IPv4 loopback", bind: "[::]:9000", url: "http://127.0.0.1:9000"},
		{name: "wildcard bind of IPv4, IPv6 loopback", bind: "0.0.0.0:9000", url: "http://[::1]:9000"},
		{name: "wildcard bind, address of the ssh destination", bind: "0.0.0.0:9000", url: "http://192.0.2.1:9000", reached: true},
		{name: "wildcard bind, interface address", bind: "0.0.0.0:9000", url: "http://198.51.100.7:9000", own: []netip.Addr{netip.MustParseAddr("198.51.100.7")}, reached: true},
		{name: "the API", bind: "127.0.0.1:9000", url: "http://localhost:7700", reached: true},
		{name: "unix", bind: "unix:///run/web.sock", url: "unix:///run/web.sock", reached: true},
		{name: "another port", bind: "127.0.0.1:9000", url: "http://127.0.0.1:9001"},
		{name: "another loopback address", bind: "127.0.0.1:9000", url: "http://127.0.0.2:9000"},
		{name: "another family", bind: "127.0.0.1:9000", url: "http://[::1]:9000"},
		{name: "wildcard bind, another machine", bind: "0.0.0.0:9000", url: "http://198.51.100.7:9000"},
		{name: "another socket", bind: "unix:///run/web.sock", url: "unix:///run/other.sock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Registry{Hosts: map[HostName]Host{"a1": {SSH: "ops@192.0.2.1", Resolver: &ServiceResolver{
				APIBind: "127.0.0.1:7700", Adapters: []Adapter{{Service: "web", Consumer: "shop", Bind: tt.bind}},
			}}}}
			endpoint, err := ParseEndpoint(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			got, reached := r.Listeners("a1", tt.own...).Reached(endpoint)
			if reached != tt.reached {
				t.Fatalf("reached %+v, %v", got, reached)
			}
			want := Listener{}
			if bind := tt.bind; reached {
				if want = (Listener{Service: "web", Consumer: "shop"}); tt.name == "the API" {
					want, bind = Listener{API: true}, "127.0.0.1:7700"
				}
				want.Declared = bind
				if want.Bind, err = ParseBind(bind); err != nil {
					t.Fatal(err)
				}
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// A host without a resolver, or one that nobody declared, holds no listener; neither does a bind that cannot be read.
func TestListenersOfNobody(t *testing.T) {
	r := &Registry{Hosts: map[HostName]Host{"a1": {}, "b1": {Resolver: &ServiceResolver{APIBind: "b1:80", Adapters: []Adapter{{Bind: "0.0.0.0"}}}}}}
	endpoint, err := ParseEndpoint("http://127.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []HostName{"a1", "b1", "c1"} {
		if got, reached := r.Listeners(name).Reached(endpoint); reached {
			t.Errorf("%s holds %+v", name, got)
		}
	}
}
