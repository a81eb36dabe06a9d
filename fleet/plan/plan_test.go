package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stado.internal/stado/fleet"
)

// document is a fleet of three hosts: shop is active on atlas and borea, and its database on carme.
func compiled(t testing.TB, edit func(*fleet.Registry)) []byte {
	t.Helper()
	adapters := func() *fleet.ServiceResolver {
		return &fleet.ServiceResolver{APIBind: "127.0.0.1:7700", RefreshSeconds: 30, MaxStaleSeconds: 600, Adapters: []fleet.Adapter{
			{Service: "shop", Consumer: "web", Bind: "127.0.0.1:7701"},
			{Service: "db", Consumer: "shop", Bind: "127.0.0.1:7702"},
		}}
	}
	r := &fleet.Registry{
		Directory: fleet.Directory{
			Generation: 1, Authority: fleet.Authority{Host: "atlas", Repository: "/r.git", Branch: "main", Command: "/stado", Epoch: 1},
			Services: map[fleet.ServiceName]fleet.Service{
				"shop": {
					ActiveHosts: []fleet.HostName{"atlas", "borea"}, Protocol: fleet.ProtocolHTTP,
					Endpoints: map[fleet.HostName]fleet.ServiceEndpoint{"atlas": {URL: "http://127.0.0.1:8080"}, "borea": {URL: "http://127.0.0.1:8080"}, "carme": {URL: "http://127.0.0.1:8080"}},
					Consumers: map[fleet.ConsumerName]fleet.Consumer{"web": {Capabilities: []string{"order"}}},
				},
				"db": {
					ActiveHosts: []fleet.HostName{"carme"}, Protocol: fleet.ProtocolTCP,
					Endpoints: map[fleet.HostName]fleet.ServiceEndpoint{"carme": {URL: "tcp://127.0.0.1:5432"}},
					Consumers: map[fleet.ConsumerName]fleet.Consumer{"shop": {}},
				},
			},
		},
		Hosts: map[fleet.HostName]fleet.Host{
			"atlas": {SSH: "ops@a", Zone: "z1", Resolver: adapters()},
			"borea": {SSH: "ops@b", Zone: "z2", Resolver: adapters()},
			"carme": {SSH: "ops@c", Zone: "z3"},
		},
	}
	if edit != nil {
		edit(r)
	}
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func between(t testing.TB, edit func(*fleet.Registry)) Plan {
	t.Helper()
	p, err := Between(compiled(t, nil), compiled(t, edit))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func service(r *fleet.Registry, name fleet.ServiceName, edit func(*fleet.Service)) {
	s := r.Directory.Services[name]
	edit(&s)
	r.Directory.Services[name] = s
}

func hostEntry(r *fleet.Registry, name fleet.HostName, edit func(*fleet.Host)) {
	h := r.Hosts[name]
	edit(&h)
	r.Hosts[name] = h
}

// Every case names all that the change means, and nothing else.
func TestBetween(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*fleet.Registry)
		want string
	}{
		"nothing": {func(*fleet.Registry) {}, ""},
		"the number only": {func(r *fleet.Registry) { r.Directory.Generation = 2 }, `
generation 1 -> 2`},
		"a moved listener": {func(r *fleet.Registry) { r.Hosts["atlas"].Resolver.Adapters[0].Bind = "127.0.0.1:7709" }, `
host atlas changed
  changed adapter shop consumer=web 127.0.0.1:7709: bind 127.0.0.1:7701 -> 127.0.0.1:7709`},
		"an exposed listener": {func(r *fleet.Registry) { r.Hosts["atlas"].Resolver.Adapters[0].Expose = true }, `
host atlas changed
  changed adapter shop consumer=web 127.0.0.1:7701: expose true`},
		"an adapter less, another one more": {func(r *fleet.Registry) {
			r.Hosts["borea"].Resolver.Adapters = append(r.Hosts["borea"].Resolver.Adapters[1:], fleet.Adapter{Service: "shop", Consumer: "ops", Bind: "unix:///s"})
		}, `
host borea changed
  bound adapter shop consumer=ops unix:///s: leads to atlas http://127.0.0.1:8080, borea http://127.0.0.1:8080
  unbound adapter shop consumer=web 127.0.0.1:7701: led to atlas http://127.0.0.1:8080, borea http://127.0.0.1:8080`},
		"a service moves": {func(r *fleet.Registry) {
			service(r, "shop", func(s *fleet.Service) { s.ActiveHosts = []fleet.HostName{"carme", "atlas"} })
		}, `
service shop changed
  changed setting active_hosts: atlas, borea -> carme, atlas
host atlas changed
  changed route shop consumer=web 127.0.0.1:7701: leads to atlas http://127.0.0.1:8080, borea http://127.0.0.1:8080 -> carme http://127.0.0.1:8080, atlas http://127.0.0.1:8080
host borea changed
  changed route shop consumer=web 127.0.0.1:7701: leads to atlas http://127.0.0.1:8080, borea http://127.0.0.1:8080 -> carme http://127.0.0.1:8080, atlas http://127.0.0.1:8080
  stops serving shop: address was http://127.0.0.1:8080
host carme changed
  starts serving shop: address http://127.0.0.1:8080`},
		"an address that nobody uses now": {func(r *fleet.Registry) {
			service(r, "shop", func(s *fleet.Service) { s.Endpoints["carme"] = fleet.ServiceEndpoint{URL: "http://127.0.0.1:9"} })
		}, `
service shop changed
  changed setting endpoints.carme.url: http://127.0.0.1:8080 -> http://127.0.0.1:9`},
		"the terms of a route": {func(r *fleet.Registry) {
			service(r, "shop", func(s *fleet.Service) {
				s.Protocol = fleet.ProtocolTCP
				s.Consumers["web"] = fleet.Consumer{}
				s.Consumers["ops"] = fleet.Consumer{}
			})
			r.Hosts["borea"].Resolver.Adapters[0].Protocol = fleet.ProtocolHTTP // its own word keeps what it was
		}, `
service shop changed
  added setting consumers.ops: {}
  removed setting consumers.web.capabilities: was order
  changed setting protocol: http -> tcp
host atlas changed
  changed route shop consumer=web 127.0.0.1:7701: capabilities was order
  changed route shop consumer=web 127.0.0.1:7701: protocol http -> tcp
host borea changed
  changed adapter shop consumer=web 127.0.0.1:7701: protocol http
  changed route shop consumer=web 127.0.0.1:7701: capabilities was order`},
		"authority and policies": {func(r *fleet.Registry) {
			r.Directory.Authority.Host, r.Directory.Authority.Epoch = "borea", 2
			r.Policies.GenerationMode = fleet.GenerationStamped
		}, `
fleet
  changed authority epoch: 1 -> 2
  changed authority host: atlas -> borea
  added setting policies: {"generation_mode":"stamped"}`},
		"a host goes, another one comes": {func(r *fleet.Registry) {
			r.Hosts["delos"] = fleet.Host{SSH: "ops@d", Resolver: &fleet.ServiceResolver{
				APIBind: "127.0.0.1:1", RefreshSeconds: 5, MaxStaleSeconds: 9,
				Adapters: []fleet.Adapter{{Service: "db", Consumer: "shop", Bind: "127.0.0.1:2"}},
			}}
			delete(r.Hosts, "borea")
			service(r, "shop", func(s *fleet.Service) { s.ActiveHosts = s.ActiveHosts[:1] })
		}, `
service shop changed
  changed setting active_hosts: atlas, borea -> atlas
host atlas changed
  changed route shop consumer=web 127.0.0.1:7701: leads to atlas http://127.0.0.1:8080, borea http://127.0.0.1:8080 -> atlas http://127.0.0.1:8080
host borea removed
  unbound adapter db consumer=shop 127.0.0.1:7702: led to carme tcp://127.0.0.1:5432
  unbound adapter shop consumer=web 127.0.0.1:7701: led to atlas http://127.0.0.1:8080, borea http://127.0.0.1:8080
  stops serving shop: address was http://127.0.0.1:8080
  removed setting service_resolver.api_bind: was 127.0.0.1:7700
  removed setting service_resolver.max_stale_seconds: was 600
  removed setting service_resolver.refresh_seconds: was 30
  removed setting ssh: was ops@b
  removed setting zone: was z2
host delos added
  bound adapter db consumer=shop 127.0.0.1:2: leads to carme tcp://127.0.0.1:5432
  added setting service_resolver.api_bind: 127.0.0.1:1
  added setting service_resolver.max_stale_seconds: 9
  added setting service_resolver.refresh_seconds: 5
  added setting ssh: ops@d`},
		"text that would move the cursor": {func(r *fleet.Registry) {
			hostEntry(r, "carme", func(h *fleet.Host) { h.Labels = map[string]string{"a.b": "\x1b[2J\u202e"} })
		}, `
host carme changed
  added setting labels: "{\"a.b\":\"\\u001b[2J` + `\u202e\"}"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := between(t, tc.edit)
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), strings.TrimSuffix(p.Text(), "\n")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if p.Empty() != (tc.want == "") {
				t.Errorf("Empty() is %v", p.Empty())
			}
		})
	}
}

// What the judges measure is told where a limit holds, by the limits that stood before the change.
func TestLimits(t *testing.T) {
	set := func(r *fleet.Registry, least, hosts, services int) {
		r.Policies.ChangeLimits = &fleet.ChangeLimits{MaxRemovedHostsPct: hosts, MaxChangedServicesPct: services, MinSet: least}
	}
	edit := func(r *fleet.Registry) {
		delete(r.Hosts, "borea")
		service(r, "db", func(s *fleet.Service) { s.Protocol = fleet.ProtocolHTTP })
		r.Directory.Services["wiki"] = fleet.Service{}
		set(r, 1, 100, 100) // judges from the next change on
	}
	for name, tc := range map[string]struct {
		before, after func(*fleet.Registry)
		want          []string
	}{
		"small sets have none":    {nil, edit, nil},
		"nothing is used up":      {func(r *fleet.Registry) { set(r, 2, 25, 50) }, func(r *fleet.Registry) { set(r, 2, 25, 50); r.Hosts["delos"] = fleet.Host{} }, nil},
		"both":                    {func(r *fleet.Registry) { set(r, 2, 25, 50) }, edit, []string{"change limit: 1 of 3 hosts removed, 33.33%; at most 25%: refused", "change limit: 1 of 2 services altered or removed, 50%; at most 50%"}},
		"one set is large enough": {func(r *fleet.Registry) { set(r, 3, 50, 50) }, edit, []string{"change limit: 1 of 3 hosts removed, 33.33%; at most 50%"}},
		"an emptied fleet":        {func(r *fleet.Registry) { set(r, 2, 25, 50) }, func(r *fleet.Registry) { r.Hosts = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Between(compiled(t, tc.before), compiled(t, tc.after))
			if err != nil {
				t.Fatal(err)
			}
			for form, text := range map[string]string{"text": p.Text(), "markdown": p.Markdown()} {
				var got []string
				for line := range strings.Lines(text) {
					if strings.HasPrefix(line, "change limit: ") {
						got = append(got, strings.TrimSuffix(line, "\n"))
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", form, diff)
				}
			}
			if len(p.Limits) != len(tc.want) || len(p.For("atlas").Limits) != 0 {
				t.Errorf("limits %+v, for one host %+v", p.Limits, p.For("atlas").Limits)
			}
		})
	}
}

// Fields that this version has no type for are told like all others: hosts and services are compared as they were compiled.
func TestBetweenComparesUnknownFields(t *testing.T) {
	p, err := Between([]byte(`{"service_directory":{"generation":1,"zones":{"z":1}},"hosts":{"a":{"relay":{"on":false}}},"trust":{"mode":"tip"}}`),
		[]byte(`{"service_directory":{"generation":1,"zones":{"z":2}},"hosts":{"a":{"relay":{"on":true}}},"trust":{"mode":"chain"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "fleet\n  changed setting service_directory.zones.z: 1 -> 2\n  changed setting trust.mode: tip -> chain\n" +
		"host a changed\n  changed setting relay.on: false -> true\n"
	if diff := cmp.Diff(want, p.Text()); diff != "" {
		t.Error(diff)
	}
}

func TestBetweenRefusesWhatIsNoDocument(t *testing.T) {
	for _, bad := range []string{"", "[]", `{"hosts":1}`} {
		if _, err := Between([]byte(bad), compiled(t, nil)); err == nil {
			t.Errorf("%q passes", bad)
		}
		if _, err := Between(compiled(t, nil), []byte(bad)); err == nil {
			t.Errorf("%q passes as the second one", bad)
		}
	}
}

func TestFor(t *testing.T) {
	p := between(t, func(r *fleet.Registry) {
		service(r, "shop", func(s *fleet.Service) { s.ActiveHosts = s.ActiveHosts[1:] })
		r.Directory.Authority.Epoch = 2
	})
	if len(p.Hosts) != 2 || len(p.Services) != 1 {
		t.Fatalf("the plan is\n%s", p.Text())
	}
	got := p.For("borea")
	if len(got.Hosts) != 1 || got.Hosts[0].Name != "borea" || len(got.Services) != 0 || len(got.Authority) != 1 || len(p.Hosts) != 2 {
		t.Errorf("the plan for borea is\n%s", got.Text())
	}
}

// pairing is what a person counts by hand: every adapter stands in one pair, and equal ones are never told apart.
func TestPairKeepsEveryAdapter(t *testing.T) {
	adapters := rapid.Custom(func(t *rapid.T) []fleet.Adapter {
		return rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) fleet.Adapter {
			return fleet.Adapter{
				Service:  fleet.ServiceName(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "service")),
				Consumer: fleet.ConsumerName(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "consumer")),
				Bind:     fmt.Sprintf("127.0.0.1:%d", rapid.IntRange(1, 6).Draw(t, "port")),
			}
		}), func(a fleet.Adapter) string { return a.Bind }).Draw(t, "adapters")
	})
	rapid.Check(t, func(t *rapid.T) {
		before, after := adapters.Draw(t, "before"), adapters.Draw(t, "after")
		left, right := map[fleet.Adapter]int{}, map[fleet.Adapter]int{}
		for _, p := range pair(before, after) {
			if p.before != nil {
				left[*p.before]++
			}
			if p.after != nil {
				right[*p.after]++
			}
			if p.before != nil && p.after != nil && (p.before.Service != p.after.Service || p.before.Consumer != p.after.Consumer) {
				t.Fatalf("%+v became %+v", *p.before, *p.after)
			}
		}
		for _, side := range []struct {
			in  []fleet.Adapter
			out map[fleet.Adapter]int
		}{{before, left}, {after, right}} {
			if len(side.out) != len(side.in) {
				t.Fatalf("%v became %v", side.in, side.out)
			}
			for _, a := range side.in {
				if side.out[a] != 1 {
					t.Fatalf("%+v stands in %d pairs", a, side.out[a])
				}
			}
		}
	})
}
