package fleet

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPresenceOf replaces what a host says, keeps what it does not, and leaves the registry as it was.
func TestPresenceOf(t *testing.T) {
	const text = `{
		"presence": {"selector": "local", "heartbeat_interval": "5s", "degraded_after": "15s", "offline_after": "30s", "reap_after": "5m", "entries": "lease",
			"nats": {"bucket": "b", "ttl": "30s", "embedded": "cluster", "cluster": ["a", "b", "c"], "leaf": ["nats://h:1"]}},
		"hosts": {
			"a": {},
			"b": {"presence": {"driver": "memory", "selector": "first", "heartbeat_interval": 0, "degraded_after": "", "offline_after": "1m", "reap_after": "2m", "entries": "per-node"}},
			"c": {"presence": {"nats": {"address": "nats://o:1", "token": "t", "credentials": "/c", "bucket": "o", "ttl": "1m", "embedded": "leaf", "leaf": ["nats://o:2"]}}}
		}}`
	r, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fleetNATS := PresenceNATS{Bucket: "b", TTL: "30s", Embedded: EmbeddedCluster, Cluster: []HostName{"a", "b", "c"}, Leaf: []string{"nats://h:1"}}
	ownNATS := PresenceNATS{
		Address: "nats://o:1", Token: "t", Credentials: "/c", Bucket: "o", TTL: "1m", Embedded: EmbeddedLeaf,
		Cluster: fleetNATS.Cluster, Leaf: []string{"nats://o:2"},
	}
	plain := Presence{
		Driver: PresenceOverNATS, Selector: "local", HeartbeatInterval: "5s", DegradedAfter: "15s", OfflineAfter: "30s", ReapAfter: "5m",
		Entries: "lease", NATS: &fleetNATS,
	}
	own := plain
	own.NATS = &ownNATS
	for host, want := range map[HostName]Presence{
		"": plain, "a": plain, "unknown": plain, "c": own,
		"b": {
			Driver: PresenceMemory, Selector: "first", HeartbeatInterval: "0", DegradedAfter: "", OfflineAfter: "1m", ReapAfter: "2m",
			Entries: "per-node", NATS: &fleetNATS,
		},
	} {
		if diff := cmp.Diff(want, r.PresenceOf(host)); diff != "" {
			t.Errorf("%q: -want +got\n%s", host, diff)
		}
	}
	if after, err := json.Marshal(r); err != nil || string(after) != string(before) {
		t.Errorf("the registry has changed: %s, was %s (%v)", after, before, err)
	}
}

// TestPresenceDriver decides for the fleet's store when there is something to find it by.
func TestPresenceDriver(t *testing.T) {
	tests := []struct {
		registry Registry
		want     PresenceDriver
	}{
		{Registry{}, PresenceMemory},
		{Registry{Presence: &Presence{}}, PresenceMemory},
		{Registry{Gateway: &Gateway{}}, PresenceOverNATS},
		{Registry{Presence: &Presence{NATS: &PresenceNATS{}}}, PresenceOverNATS},
		{Registry{Presence: &Presence{Driver: PresenceMemory}, Gateway: &Gateway{}}, PresenceMemory},
		{Registry{Hosts: map[HostName]Host{"a": {Presence: &HostPresence{NATS: &HostPresenceNATS{Address: "nats://h:1"}}}}}, PresenceOverNATS},
	}
	for i, test := range tests {
		if got := test.registry.PresenceOf("a").Driver; got != test.want {
			t.Errorf("%d: %s, want %s", i, got, test.want)
		}
	}
}

func TestThreshold(t *testing.T) {
	for raw, want := range map[string]struct {
		time  time.Duration
		never bool
		bad   bool
	}{
		`"5s"`: {time: 5 * time.Second}, `"1m30s"`: {time: 90 * time.Second}, `""`: {never: true}, `0`: {never: true},
		`"999999999h"`: {bad: true}, `"0s"`: {bad: true}, `"-5s"`: {bad: true}, `"soon"`: {bad: true},
	} {
		var got Threshold
		if err := json.Unmarshal([]byte(raw), &got); err != nil {
			t.Fatal(err)
		}
		d, err := got.Duration()
		if d != want.time || got.Never() != want.never || (err != nil) != want.bad {
			t.Errorf("%s: %s, never %t, %v", raw, d, got.Never(), err)
		}
		if back, err := json.Marshal(got); err != nil || string(back) != raw {
			t.Errorf("%s comes back as %s (%v)", raw, back, err)
		}
	}
	for _, raw := range []string{`5`, `{}`, `null_`, `0.0`} {
		var got Threshold
		if err := json.Unmarshal([]byte(raw), &got); err == nil {
			t.Errorf("%s is read as %q", raw, got)
		}
	}
}

func TestParseAttach(t *testing.T) {
	for raw, want := range map[string]Attachment{
		"unix:///run/a.sock": {Path: "/run/a.sock"}, "host://b/run/a.sock": {Host: "b", Path: "/run/a.sock"}, "host://b.c/a": {Host: "b.c", Path: "/a"},
		"": {}, "unix://run/a.sock": {}, "unix:///": {}, "unix:///a/../b": {}, "host:///a": {}, "host://b": {}, "host://b/": {}, "host://b//a": {}, "tcp://h:1": {}, "/a": {},
	} {
		got, err := ParseAttach(raw)
		if got != want || (err == nil) != (want != Attachment{}) {
			t.Errorf("%q: %+v, %v; want %+v", raw, got, err, want)
		}
	}
}
