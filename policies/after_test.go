package policies

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// TestAfterMeansClean changes hosts of registries: what After accepts, Check has nothing to say of.
func TestAfterMeansClean(t *testing.T) {
	clean, dirty := 0, 0
	said := func(r *fleet.Registry) int { return len(Check(schema.Compiled{Registry: r, Document: []byte("{}")})) }
	rapid.Check(t, func(t *rapid.T) {
		previous := &fleet.Registry{
			Directory: fleet.Directory{
				Generation: 1, Authority: fleet.Authority{Host: rapid.SampledFrom([]fleet.HostName{"", "h0"}).Draw(t, "authority")},
				Services: map[fleet.ServiceName]fleet.Service{
					"web": {ActiveHosts: []fleet.HostName{"h0"}, Endpoints: map[fleet.HostName]fleet.ServiceEndpoint{"h0": {URL: "http://127.0.0.1:80"}}, Consumers: map[fleet.ConsumerName]fleet.Consumer{"c": {}}},
					"db":  {ActiveHosts: []fleet.HostName{"h1"}, Endpoints: map[fleet.HostName]fleet.ServiceEndpoint{"h1": {URL: "tcp://127.0.0.1:90"}}, Consumers: map[fleet.ConsumerName]fleet.Consumer{"c": {}}, Protocol: fleet.ProtocolTCP},
				},
			},
			Hosts: map[fleet.HostName]fleet.Host{},
		}
		if rapid.Bool().Draw(t, "objects") {
			previous.Objects = &fleet.Objects{}
		}
		for i := range 3 {
			h := fleet.Host{SSH: fleet.Destination(fmt.Sprintf("stado@h%d.example.net", i))}
			if i == 2 && rapid.Bool().Draw(t, "relay") {
				h.Relay = &fleet.Relay{Socket: "unix:///run/relay", Slots: map[fleet.SlotName]fleet.RelaySlot{"s": {Attach: "h1:/run/s"}}}
			}
			previous.Hosts[fleet.HostName(fmt.Sprintf("h%d", i))] = h
		}
		next := *previous
		next.Directory.Generation = 2
		next.Hosts = maps.Clone(previous.Hosts)
		name := rapid.SampledFrom([]fleet.HostName{"h0", "h1", "h2"}).Draw(t, "changed")
		next.Hosts[name] = changedHost(t, previous.Hosts[name])
		before, after := said(previous), said(&next)
		if before > 0 {
			return
		}
		if !NewAfter().Clean(previous, &next, []fleet.HostName{name}) {
			dirty++
			return
		}
		clean++
		if after > 0 {
			t.Fatalf("accepted, and %v of %+v", Check(schema.Compiled{Registry: &next, Document: []byte("{}")}), next.Hosts)
		}
	})
	if clean == 0 || dirty == 0 {
		t.Errorf("%d accepted, %d not: the test says nothing", clean, dirty)
	}
}

func changedHost(t *rapid.T, h fleet.Host) fleet.Host {
	for range rapid.IntRange(1, 2).Draw(t, "changes") {
		switch rapid.IntRange(0, 9).Draw(t, "change") {
		case 0:
			h.SSH = rapid.SampledFrom([]fleet.Destination{"", "stado@h0.example.net", "nobody"}).Draw(t, "ssh")
		case 1:
			h.Hostnames = []string{rapid.SampledFrom([]string{"h1", "own", "h0.example.net"}).Draw(t, "name")}
		case 2:
			h.Zone = "z"
		case 3:
			h.Objects = &fleet.HostObjects{Bind: "127.0.0.1:9"}
		case 4:
			h.Edge = &fleet.EdgeHost{Name: "e", Origin: "127.0.0.1:1"}
		case 5:
			h.Console = &fleet.HostView{Bind: rapid.SampledFrom([]string{"127.0.0.1:7", "0.0.0.0:7", "x"}).Draw(t, "console")}
		case 6:
			h.Presence = &fleet.HostPresence{HeartbeatInterval: new(fleet.Threshold("often"))}
		case 7:
			h.Relay = &fleet.Relay{Socket: "unix:///run/relay", Slots: map[fleet.SlotName]fleet.RelaySlot{"s": {Attach: rapid.SampledFrom([]string{"h1:/run/s", "h9:/run/s", "x"}).Draw(t, "slot")}}}
		default:
			h.Resolver = &fleet.ServiceResolver{
				APIBind: "127.0.0.1:7100", RefreshSeconds: 30, MaxStaleSeconds: rapid.SampledFrom([]int{1, 60}).Draw(t, "stale"),
				Adapters: []fleet.Adapter{{
					Service:  rapid.SampledFrom([]fleet.ServiceName{"web", "db", "none"}).Draw(t, "service"),
					Consumer: rapid.SampledFrom([]fleet.ConsumerName{"c", "c", "d"}).Draw(t, "consumer"),
					Bind:     rapid.SampledFrom([]string{"127.0.0.1:7100", "127.0.0.1:7101", "0.0.0.0:7102"}).Draw(t, "bind"),
					Protocol: rapid.SampledFrom([]fleet.Protocol{"", fleet.ProtocolHTTP, fleet.ProtocolTCP}).Draw(t, "protocol"),
				}},
			}
		}
	}
	return h
}
