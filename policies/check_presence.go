package policies

import (
	"slices"
	"strconv"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

const presenceLabel = "presence"

// presence judges the fleet's presence, and that of every host that says something otherwise: together with what the host leaves out,
// which is the fleet's.
func (k *checker) presence() {
	said := map[string]bool{}
	if k.registry.Presence != nil {
		presenceBlock{k, presenceLabel, said, false}.judge(k.registry.PresenceOf(""))
		k.cluster()
	}
	for _, name := range k.registry.HostNames() {
		if k.registry.Hosts[name].Presence != nil {
			presenceBlock{k, hostPath(name, presenceLabel), said, true}.judge(k.registry.PresenceOf(name))
		}
	}
}

// presenceBlock is the presence of the fleet, or of a host.
type presenceBlock struct {
	k    *checker
	path string
	// said is what the fleet's is refused for: a host that inherits the mistake is not refused again.
	said     map[string]bool
	inherits bool
}

func (b presenceBlock) refuse(rule, field, message, hint string) {
	key := rule + " " + field + " " + message
	if b.inherits && b.said[key] {
		return
	}
	b.said[key] = b.said[key] || !b.inherits
	b.k.refuse(rule, b.path+"."+field, message, hint)
}

func (b presenceBlock) judge(p fleet.Presence) {
	read := func(field string, t fleet.Threshold) (time.Duration, bool) {
		d, err := t.Duration()
		if err != nil {
			b.refuse(RuleDuration, field, err.Error(), "")
		}
		return d, err == nil
	}
	heartbeat, beats := read("heartbeat_interval", p.HeartbeatInterval)
	degraded, degrades := read("degraded_after", p.DegradedAfter)
	offline, ends := read("offline_after", p.OfflineAfter)
	if _, reaps := read("reap_after", p.ReapAfter); beats && degrades && ends && reaps {
		b.thresholds(p, heartbeat, degraded, offline)
	}
	if p.Driver != fleet.PresenceOverNATS {
		return
	}
	b.store(p.NATS)
	if p.NATS != nil && beats {
		b.ttl(p, heartbeat)
	}
}

// thresholds refuses an order in which a healthy node would flap. A transition that is switched off is compared with nothing.
func (b presenceBlock) thresholds(p fleet.Presence, heartbeat, degraded, offline time.Duration) {
	beats := "two heartbeats of " + string(p.HeartbeatInterval)
	switch {
	case degraded > 0 && degraded-heartbeat <= heartbeat: // 2 × heartbeat could overflow
		b.refuse(RulePresenceTimes, "degraded_after", sayThreshold("degraded_after", p.DegradedAfter, beats), hintThreshold)
	case degraded > 0 && offline > 0 && degraded >= offline:
		b.refuse(RulePresenceTimes, "offline_after", sayThreshold("offline_after", p.OfflineAfter, "degraded_after, which is "+string(p.DegradedAfter)), hintThreshold)
	case degraded == 0 && offline > 0 && offline-heartbeat <= heartbeat:
		b.refuse(RulePresenceTimes, "offline_after", sayThreshold("offline_after", p.OfflineAfter, beats), hintThreshold)
	case offline == 0 && !p.ReapAfter.Never():
		b.refuse(RulePresenceTimes, "reap_after", sayReap(p.ReapAfter), hintReap)
	}
}

// store refuses a store that cannot be found. A gateway embeds one, which every agent reaches.
func (b presenceBlock) store(n *fleet.PresenceNATS) {
	gateway := b.k.registry.Gateway != nil
	switch {
	case n == nil:
		if !gateway {
			b.refuse(RulePresenceStore, "driver", sayNoStore, hintNoStore)
		}
	case n.Embedded == fleet.EmbeddedOff && n.Address == "" && !gateway:
		b.refuse(RulePresenceStore, "nats.address", sayNoStore, hintNoStore)
	case n.Embedded == fleet.EmbeddedCluster && len(n.Cluster) == 0:
		b.refuse(RulePresenceStore, "nats.embedded", sayNoCluster, hintNoCluster)
	case n.Embedded == fleet.EmbeddedLeaf && len(n.Leaf) == 0 && len(n.Cluster) == 0 && !gateway:
		b.refuse(RulePresenceStore, "nats.embedded", sayNoHub, hintNoHub)
	}
}

// minTTL is the granularity of times in NATS: less would be none.
const minTTL = time.Second

func (b presenceBlock) ttl(p fleet.Presence, heartbeat time.Duration) {
	ttl, err := fleet.ParseDuration(p.NATS.TTL)
	switch {
	case err != nil:
		b.refuse(RuleDuration, "nats.ttl", err.Error(), "")
	case ttl < minTTL:
		b.refuse(RulePresenceTTL, "nats.ttl", sayThreeBeats(p.NATS.TTL, "one second, the least that NATS counts"), hintTTL)
	case ttl/3 < heartbeat:
		b.refuse(RulePresenceTTL, "nats.ttl", sayThreeBeats(p.NATS.TTL, "three heartbeats of "+string(p.HeartbeatInterval)), hintTTL)
	}
}

// cluster judges the hosts whose servers form the cluster.
func (k *checker) cluster() {
	if k.registry.Presence.NATS == nil {
		return
	}
	hosts := k.registry.Presence.NATS.Cluster
	for i, host := range hosts {
		p := schema.FieldPath(presenceLabel, "nats", "cluster", strconv.Itoa(i))
		_, declared := k.registry.Hosts[host]
		switch {
		case slices.Contains(hosts[:i], host):
			k.refuse(RulePresenceStore, p, sayClusterTwice(host), hintClusterTwice)
		case !declared:
			k.refuse(RuleUnknownHost, p, sayUnknownHost(host), hintUnknownHost(host))
		}
	}
}

// duration reads a declared time, or refuses it.
func (k *checker) duration(fieldPath, s string) (time.Duration, bool) {
	d, err := fleet.ParseDuration(s)
	if err != nil {
		k.refuse(RuleDuration, fieldPath, err.Error(), "")
	}
	return d, err == nil
}
