package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
)

// registry is a fleet of two hosts, in order: web on a1, called from a1 and b1.
func registry(edit func(*fleet.Registry)) *fleet.Registry {
	resolver := func(api string) *fleet.ServiceResolver {
		return &fleet.ServiceResolver{APIBind: api, RefreshSeconds: 30, MaxStaleSeconds: 90, Adapters: []fleet.Adapter{{Service: "web", Consumer: "shop", Bind: "127.0.0.1:9000"}}}
	}
	r := &fleet.Registry{
		Directory: fleet.Directory{Generation: 7, Services: map[fleet.ServiceName]fleet.Service{"web": {
			ActiveHosts: []fleet.HostName{"a1"},
			Endpoints:   map[fleet.HostName]fleet.ServiceEndpoint{"a1": {URL: "http://127.0.0.1:8000"}, "b1": {URL: "http://127.0.0.1:8000"}},
			Consumers:   map[fleet.ConsumerName]fleet.Consumer{"shop": {}},
		}}},
		Hosts: map[fleet.HostName]fleet.Host{
			"a1": {SSH: "ops@a1", Resolver: resolver("127.0.0.1:7700")},
			"b1": {SSH: "ops@b1", Resolver: resolver("127.0.0.1:7800")},
		},
	}
	if edit != nil {
		edit(r)
	}
	return r
}

func edit[K comparable, V any](m map[K]V, key K, change func(*V)) {
	v := m[key]
	change(&v)
	m[key] = v
}

func TestExamine(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*fleet.Registry)
		want []string // kind, subject and detail
	}{
		"in order": {nil, nil},
		"an endpoint that is an adapter of its host, standby or not": {func(r *fleet.Registry) {
			edit(r.Directory.Services, "web", func(s *fleet.Service) {
				s.Endpoints["a1"] = fleet.ServiceEndpoint{URL: "http://localhost:9000"}
				s.Endpoints["b1"] = fleet.ServiceEndpoint{URL: "http://127.0.0.1:7800"}
			})
		}, []string{
			"self-referencing-endpoint service_directory.services.web.endpoints.a1: service_directory.services.web.endpoints.a1 is http://localhost:9000, which is adapter for web on that same target: the adapter would proxy to itself",
			"self-referencing-endpoint service_directory.services.web.endpoints.b1: service_directory.services.web.endpoints.b1 is http://127.0.0.1:7800, which is the resolver's own API on that same target: the adapter would proxy to itself",
		}},
		"the only active host has no path": {func(r *fleet.Registry) {
			edit(r.Hosts, "a1", func(h *fleet.Host) { h.SSH = "" })
		}, []string{
			"host-without-path hosts.a1: host a1 names no SSH destination, and the adapter for web on b1 leads there",
			"unreachable-route hosts.b1.service_resolver.adapters.0: hosts.b1.service_resolver.adapters.0, for web and consumer shop, leads to no host that can be reached: the service is active on a1 only, without an SSH destination",
		}},
		"another active host has one": {func(r *fleet.Registry) {
			edit(r.Hosts, "a1", func(h *fleet.Host) { h.SSH = "" })
			edit(r.Directory.Services, "web", func(s *fleet.Service) { s.ActiveHosts = append(s.ActiveHosts, "b1") })
		}, []string{
			"host-without-path hosts.a1: host a1 names no SSH destination, and the adapter for web on b1 leads there",
		}},
		"a fallback is a path": {func(r *fleet.Registry) {
			edit(r.Hosts, "a1", func(h *fleet.Host) {
				h.SSH, h.SSHFallbacks = "", []fleet.SSHFallback{{Name: "public", Destination: "ops@a1"}}
			})
		}, nil},
		"nobody else leads there": {func(r *fleet.Registry) {
			edit(r.Hosts, "b1", func(h *fleet.Host) { h.SSH = "" })
		}, nil},
		"many lead there": {func(r *fleet.Registry) {
			edit(r.Hosts, "a1", func(h *fleet.Host) { h.SSH = "" })
			edit(r.Directory.Services, "web", func(s *fleet.Service) { s.ActiveHosts = append(s.ActiveHosts, "b1") })
			r.Hosts["c1"] = fleet.Host{SSH: "ops@c1", Resolver: r.Hosts["b1"].Resolver}
		}, []string{
			"host-without-path hosts.a1: host a1 names no SSH destination, and 2 adapters of other hosts lead there, the one for web on b1 among them",
		}},
		"a consumer that calls from nowhere": {func(r *fleet.Registry) {
			r.Directory.Services["web"].Consumers["ops"] = fleet.Consumer{}
		}, []string{
			"consumer-without-adapter service_directory.services.web.consumers.ops: service web declares consumer ops, and no host has an adapter for it",
		}},
		"a service that nobody calls": {func(r *fleet.Registry) {
			r.Directory.Services["d.b"] = fleet.Service{
				ActiveHosts: []fleet.HostName{"a1"}, Endpoints: map[fleet.HostName]fleet.ServiceEndpoint{"a1": {URL: "tcp://127.0.0.1:5432"}},
				Consumers: map[fleet.ConsumerName]fleet.Consumer{"web": {}},
			}
		}, []string{
			`consumer-without-adapter service_directory.services."d.b".consumers.web: service d.b declares consumer web, and no host has an adapter for it`,
			`unused-endpoint service_directory.services."d.b".endpoints.a1: service_directory.services."d.b".endpoints.a1 is never used: no adapter of the fleet leads to service d.b`,
		}},
		"nothing at all": {func(r *fleet.Registry) { *r = fleet.Registry{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Examine(registry(tc.edit)) {
				got = append(got, string(f.Kind)+" "+f.Subject+": "+f.Detail)
				if f.Hint == "" || strings.Contains(f.Hint, "%!") {
					t.Errorf("%s has the hint %q", f.Kind, f.Hint)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if again := Examine(registry(tc.edit)); !slices.Equal(again, Examine(registry(tc.edit))) {
				t.Error("two examinations differ")
			}
		})
	}
}
