package route

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"stado.internal/stado/fleet"
)

// snapshot is a fleet of two hosts: a1 (ours) and b1.
func snapshot(edit func(*fleet.Registry)) *fleet.Snapshot {
	r := &fleet.Registry{
		Directory: fleet.Directory{Generation: 7, Services: map[fleet.ServiceName]fleet.Service{
			"web": {
				ActiveHosts: []fleet.HostName{"a1"},
				Endpoints:   map[fleet.HostName]fleet.ServiceEndpoint{"a1": {URL: "http://127.0.0.1:8000"}, "b1": {URL: "http://127.0.0.1:8001"}},
				Consumers:   map[fleet.ConsumerName]fleet.Consumer{"shop": {Capabilities: []string{"read"}}},
			},
		}},
		Hosts: map[fleet.HostName]fleet.Host{
			"a1": {SSH: "ops@192.0.2.1", Resolver: &fleet.ServiceResolver{
				APIBind: "127.0.0.1:7700", RefreshSeconds: 30, MaxStaleSeconds: 90,
				Adapters: []fleet.Adapter{{Service: "web", Consumer: "shop", Bind: "127.0.0.1:9000"}},
			}},
			"b1": {SSH: "ops@192.0.2.2", Resolver: &fleet.ServiceResolver{APIBind: "127.0.0.1:7800", RefreshSeconds: 30, MaxStaleSeconds: 90}},
		},
	}
	if edit != nil {
		edit(r)
	}
	return &fleet.Snapshot{Registry: r}
}

func setService(r *fleet.Registry, edit func(*fleet.Service)) {
	s := r.Directory.Services["web"]
	edit(&s)
	r.Directory.Services["web"] = s
}

func TestSelfLoop(t *testing.T) {
	tests := []struct {
		name, bind, api, url string
		own                  []netip.Addr
		loops                bool
	}{
		{name: "same address", bind: "127.0.0.1:9000", url: "http://127.0.0.1:9000", loops: true},
		{name: "localhost", bind: "127.0.0.1:9000", url: "http://localhost:9000", loops: true},
		{name: "localhost bind", bind: "localhost:9000", url: "tcp://127.0.0.1:9000", loops: true},
		{name: "mapped", bind: "127.0.0.1:9000", url: "http://[::ffff:127.0.0.1]:9000", loops: true},
		{name: "unspecified endpoint", bind: "127.0.0.1:9000", url: "http://0.0.0.0:9000", loops: true},
		{name: "IPv6 loopback", bind: "[::1]:9000", url: "http://[::1]:9000", loops: true},
		{name: "IPv6 unspecified endpoint", bind: "[::1]:9000", url: "http://[::]:9000", loops: true},
		{name: "wildcard bind, loopback", bind: "0.0.0.0:9000", url: "http://127.0.0.1:9000", loops: true},
		{name: "wildcard bind, all of 127/8", bind: "0.0.0.0:9000", url: "http://127.9.9.9:9000", loops: true},
		{name: "wildcard bind, IPv6 loopback", bind: "[::]:9000", url: "http://[::1]:9000", loops: true},
		{name: "wildcard bind, address of the ssh destination", bind: "0.0.0.0:9000", url: "http://192.0.2.1:9000", loops: true},
		{name: "wildcard bind, interface address", bind: "0.0.0.0:9000", url: "http://198.51.100.7:9000", own: []netip.Addr{netip.MustParseAddr("198.51.100.7")}, loops: true},
		{name: "the API", bind: "127.0.0.1:9000", url: "http://localhost:7700", loops: true},
		{name: "unix", bind: "unix:///run/web.sock", url: "unix:///run/web.sock", loops: true},
		{name: "another port", bind: "127.0.0.1:9000", url: "http://127.0.0.1:9001"},
		{name: "another loopback address", bind: "127.0.0.1:9000", url: "http://127.0.0.2:9000"},
		{name: "another family", bind: "127.0.0.1:9000", url: "http://[::1]:9000"},
		{name: "wildcard bind, another machine", bind: "0.0.0.0:9000", url: "http://198.51.100.7:9000"},
		{name: "wildcard bind of IPv6, IPv4 loopback", bind: "[::]:9000", url: "http://127.0.0.1:9000"},
		{name: "wildcard bind of IPv4, IPv6 loopback", bind: "0.0.0.0:9000", url: "http://[::1]:9000"},
		{name: "another socket", bind: "unix:///run/web.sock", url: "unix:///run/other.sock"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, err := NewTable(snapshot(func(r *fleet.Registry) {
				r.Hosts["a1"].Resolver.Adapters[0].Bind = tt.bind
				setService(r, func(s *fleet.Service) { s.Endpoints["a1"] = fleet.ServiceEndpoint{URL: tt.url} })
			}), "a1", tt.own...)
			if err != nil {
				t.Fatal(err)
			}
			r := table.Routes()[0]
			if (r.Refusal != "") != tt.loops || r.Refusal != r.Candidates[0].Refusal {
				t.Errorf("refusal %q, want one: %v", r.Refusal, tt.loops)
			}
		})
	}
}

func TestSelfLoopSentences(t *testing.T) {
	const tail = ": the service directory must carry the address the service listens on, not the stable address published for its clients; " +
		"relaying it would loop back into this process and no client would ever be answered"
	for url, want := range map[string]string{
		"http://localhost:9000": "service web resolves to http://localhost:9000, which is adapter web for consumer shop (127.0.0.1:9000) of this resolver on a1" + tail,
		"http://127.0.0.1:7700": "service web resolves to http://127.0.0.1:7700, which is the resolver API (127.0.0.1:7700) of this resolver on a1" + tail,
	} {
		table, err := NewTable(snapshot(func(r *fleet.Registry) {
			setService(r, func(s *fleet.Service) { s.Endpoints["a1"] = fleet.ServiceEndpoint{URL: url} })
		}), "a1")
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Routes()[0].Refusal; got != want {
			t.Errorf("%s\n got %s\nwant %s", url, got, want)
		}
		if _, err := table.Resolve("web", "shop"); err == nil || err.Error() != want {
			t.Errorf("the API answers %v", err)
		}
	}
}

// An active host is judged by its own resolver's listeners, and one that loops does not take the others with it.
func TestSelfLoopIsJudgedPerHost(t *testing.T) {
	table, err := NewTable(snapshot(func(r *fleet.Registry) {
		setService(r, func(s *fleet.Service) {
			s.ActiveHosts = []fleet.HostName{"b1", "a1"}
			s.Endpoints["b1"] = fleet.ServiceEndpoint{URL: "http://127.0.0.1:7800"} // b1's API
			s.Endpoints["a1"] = fleet.ServiceEndpoint{URL: "http://127.0.0.1:7800"} // nothing of a1
		})
	}), "a1")
	if err != nil {
		t.Fatal(err)
	}
	r := table.Routes()[0]
	if r.Refusal != "" || r.Candidates[1].Refusal != "" || !r.Candidates[1].Local {
		t.Errorf("route %+v", r)
	}
	if c := r.Candidates[0]; c.Local || !strings.Contains(c.Refusal, "(127.0.0.1:7800) of this resolver on b1") {
		t.Errorf("candidate %+v", c)
	}
}

func TestRefusalsAndFaults(t *testing.T) {
	tests := []struct {
		name           string
		edit           func(*fleet.Registry)
		refusal, fault string
	}{
		{"fine", nil, "", ""},
		{"unknown service", func(r *fleet.Registry) { r.Hosts["a1"].Resolver.Adapters[0].Service = "db" }, `unknown logical service "db"`, ""},
		{"unknown consumer", func(r *fleet.Registry) { r.Hosts["a1"].Resolver.Adapters[0].Consumer = "x" }, `consumer "x" is not authorized for service "web"`, ""},
		{"no active host", func(r *fleet.Registry) { setService(r, func(s *fleet.Service) { s.ActiveHosts = nil }) }, "service web has no active host", ""},
		{"no endpoint", func(r *fleet.Registry) {
			setService(r, func(s *fleet.Service) { s.ActiveHosts = []fleet.HostName{"c1"} })
		}, "endpoints name no address there", ""},
		{"bad endpoint", func(r *fleet.Registry) {
			setService(r, func(s *fleet.Service) { s.Endpoints["a1"] = fleet.ServiceEndpoint{URL: "http://web"} })
		}, "has no usable address on a1", ""},
		{"bad bind", func(r *fleet.Registry) { r.Hosts["a1"].Resolver.Adapters[0].Bind = "web:80" }, "", "nothing can listen for web (consumer shop)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, err := NewTable(snapshot(tt.edit), "a1")
			if err != nil {
				t.Fatal(err)
			}
			r := table.Routes()[0]
			if !strings.Contains(r.Refusal, tt.refusal) || (r.Refusal == "") != (tt.refusal == "") {
				t.Errorf("refusal %q", r.Refusal)
			}
			if !strings.Contains(r.Fault, tt.fault) || (r.Fault == "") != (tt.fault == "") {
				t.Errorf("fault %q", r.Fault)
			}
		})
	}
}

func TestHostsWithoutAdapters(t *testing.T) {
	for name, tt := range map[string]struct {
		snapshot *fleet.Snapshot
		want     string
	}{
		"nothing held": {nil, "no registry is held"},
		"unknown host": {snapshot(func(r *fleet.Registry) { delete(r.Hosts, "a1") }), `host "a1" is not in the registry at generation 7`},
		"no resolver": {snapshot(func(r *fleet.Registry) {
			h := r.Hosts["a1"]
			h.Resolver = nil
			r.Hosts["a1"] = h
		}), "declares no service_resolver"},
	} {
		if _, err := NewTable(tt.snapshot, "a1"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestResolve(t *testing.T) {
	gateway := func(edit func(*fleet.Registry)) string {
		table, err := NewTable(snapshot(edit), "a1")
		if err != nil {
			t.Fatal(err)
		}
		got, err := table.Resolve("web", "shop")
		if err != nil || got.Generation != 7 || len(got.Capabilities) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got.Gateway
	}
	adapter := func(edit func(*fleet.Adapter)) func(*fleet.Registry) {
		return func(r *fleet.Registry) { edit(&r.Hosts["a1"].Resolver.Adapters[0]) }
	}
	for want, edit := range map[string]func(*fleet.Registry){
		"http://127.0.0.1:9000": nil,
		"tcp://127.0.0.1:9000":  adapter(func(a *fleet.Adapter) { a.Protocol = fleet.ProtocolTCP }),
		"unix:///run/web":       adapter(func(a *fleet.Adapter) { a.Bind = "unix:///run/web" }),
		"https://127.0.0.1:9000": func(r *fleet.Registry) {
			setService(r, func(s *fleet.Service) { s.Endpoints["a1"] = fleet.ServiceEndpoint{URL: "https://127.0.0.1:8000"} })
		},
		"": func(r *fleet.Registry) { r.Hosts["a1"].Resolver.Adapters = nil },
	} {
		if got := gateway(edit); got != want {
			t.Errorf("gateway %q, want %q", got, want)
		}
	}
}

func TestTable(t *testing.T) {
	table, err := NewTable(snapshot(nil), "a1")
	if err != nil {
		t.Fatal(err)
	}
	api, fault := table.API()
	if table.Host() != "a1" || table.Generation() != 7 || table.Refresh() != 30*time.Second || fault != "" || api.Address != "127.0.0.1:7700" {
		t.Errorf("table %+v", table)
	}
	table, err = NewTable(snapshot(func(r *fleet.Registry) { r.Hosts["a1"].Resolver.APIBind = "nowhere" }), "a1")
	if err != nil {
		t.Fatal(err)
	}
	if api, fault := table.API(); api != nil || !strings.Contains(fault, "the resolver API of a1 has no address") {
		t.Errorf("API %v, %q", api, fault)
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	table, err := NewTable(snapshot(nil), "a1")
	if err != nil {
		t.Fatal(err)
	}
	var current Current
	k := Key{Service: "web", Consumer: "shop", Bind: "127.0.0.1:9000"}
	if current.Lookup(k) != nil {
		t.Fatal("an empty table has a route")
	}
	current.Store(table)
	found := 0
	if n := testing.AllocsPerRun(1000, func() {
		if current.Lookup(k) != nil {
			found++
		}
	}); n != 0 || found == 0 {
		t.Errorf("%v allocations, %d found", n, found)
	}
	current.Store(nil)
	if current.Lookup(k) != nil {
		t.Error("a table that was taken away still routes")
	}
}

func BenchmarkLookup(b *testing.B) {
	table, err := NewTable(snapshot(nil), "a1")
	if err != nil {
		b.Fatal(err)
	}
	var current Current
	current.Store(table)
	k := Key{Service: "web", Consumer: "shop", Bind: "127.0.0.1:9000"}
	b.ReportAllocs()
	for b.Loop() {
		if current.Lookup(k) == nil {
			b.Fatal("no route")
		}
	}
}
