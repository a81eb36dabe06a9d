package policies

// The rules of what a registry declares beside hosts and services.
const (
	RuleSignerKey     = "STADO-TRUST-001"
	RuleSignerUnread  = "STADO-TRUST-002"
	RulePresenceTimes = "STADO-PRESENCE-001"
	RulePresenceTTL   = "STADO-PRESENCE-002"
	RulePresenceStore = "STADO-PRESENCE-003"
	RuleNoEdge        = "STADO-EDGE-001"
	RuleEdgeOrigin    = "STADO-EDGE-002"
	RuleEdgeInterval  = "STADO-EDGE-003"
	RuleSlotSSH       = "STADO-RELAY-001"
	RuleSlotLoop      = "STADO-RELAY-002"
	RuleSlotTwice     = "STADO-RELAY-003"
	RuleRelayLimits   = "STADO-RELAY-004"
	RuleNoObjects     = "STADO-OBJECT-001"
	RuleNoCertificate = "STADO-BIND-004"
	RuleDuration      = "STADO-TIME-002"
)

func nounRules() []Rule {
	return []Rule{
		{ID: RuleSignerKey, Title: "one key of two signers", Explanation: "A key belongs to one signer, so that one scope holds for what it signs."},
		{ID: RuleSignerUnread, Title: "key that verifies nothing", Explanation: "A signer's key is one public SSH or PGP key, and strong enough that what it signs means something."},
		{ID: RulePresenceTimes, Title: "thresholds in the wrong order", Explanation: "Two heartbeats are shorter than degraded_after, and that is shorter than offline_after, or healthy nodes would flap when one sign of life is late. A node is removed only after it was offline."},
		{ID: RulePresenceTTL, Title: "entries expire between heartbeats", Explanation: "An entry outlives three heartbeats, and a second, or nodes of a living process would vanish from the store."},
		{ID: RulePresenceStore, Title: "presence without a store", Explanation: "The driver nats names a server, or says which hosts embed one: nobody would find anybody."},
		{ID: RuleNoEdge, Title: "forwarder of an unknown edge", Explanation: "A forwarder serves an edge that the registry declares."},
		{ID: RuleEdgeOrigin, Title: "origin among the edge's addresses", Explanation: "The point of an edge is that the origin's address stands in no record of its name."},
		{ID: RuleEdgeInterval, Title: "edges measured too often", Explanation: "Every agent measures: less than a minute costs many times as much and finds nothing sooner, since a return takes several good measurements in a row."},
		{ID: RuleSlotSSH, Title: "slot on a host without SSH", Explanation: "A slot on another host is reached through the SSH session to that host."},
		{ID: RuleSlotLoop, Title: "slot attached to its own switch", Explanation: "A switch that is its own master would route requests in a circle."},
		{ID: RuleSlotTwice, Title: "two slots on one socket", Explanation: "A slot is one master; the same master in two slots would be asked twice."},
		{ID: RuleRelayLimits, Title: "chunk larger than a frame", Explanation: "A chunk travels in a frame, with a header."},
		{ID: RuleNoObjects, Title: "object API without objects", Explanation: "A host serves the object API that the registry declares; without it there is nothing to serve."},
		{ID: RuleNoCertificate, Title: "exposed view without a certificate", Explanation: "A console or metrics that other machines can reach are served with the host's certificate only."},
		{ID: RuleDuration, Title: "bad time", Explanation: "A time is positive and shorter than 292 years."},
	}
}
