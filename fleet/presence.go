package fleet

import (
	"encoding/json"
	"fmt"
	"time"
)

// PresenceDriver is where nodes are announced.
type PresenceDriver string

// The presence drivers: this host alone, or the fleet.
const (
	PresenceMemory   PresenceDriver = "memory"
	PresenceOverNATS PresenceDriver = "nats"
)

// EmbeddedNATS is the role of the NATS server inside an agent.
type EmbeddedNATS string

// The roles: no server, one that stands alone, one of the cluster (on the hosts that it names; the others are its leaves), or a leaf of
// an external cluster.
const (
	EmbeddedOff     EmbeddedNATS = "off"
	EmbeddedSingle  EmbeddedNATS = "single"
	EmbeddedCluster EmbeddedNATS = "cluster"
	EmbeddedLeaf    EmbeddedNATS = "leaf"
)

// Presence says how programs that are alive find each other.
type Presence struct {
	// Driver is empty when the registry does not say; [Registry.PresenceOf] decides.
	Driver            PresenceDriver `json:"driver,omitempty"`
	Selector          string         `json:"selector"`
	HeartbeatInterval Threshold      `json:"heartbeat_interval"`
	DegradedAfter     Threshold      `json:"degraded_after"`
	OfflineAfter      Threshold      `json:"offline_after"`
	ReapAfter         Threshold      `json:"reap_after"`
	Entries           string         `json:"entries"`
	NATS              *PresenceNATS  `json:"nats,omitempty"`
}

// PresenceNATS is the store of [PresenceOverNATS].
type PresenceNATS struct {
	Address     string       `json:"address,omitempty"`
	Token       string       `json:"token,omitempty"`
	Credentials string       `json:"credentials,omitempty"`
	Bucket      string       `json:"bucket"`
	TTL         string       `json:"ttl"`
	Embedded    EmbeddedNATS `json:"embedded"`
	Cluster     []HostName   `json:"cluster,omitempty"`
	Leaf        []string     `json:"leaf,omitempty"`
}

// HostPresence is what one host does otherwise than the fleet's [Presence] says; what is not set stays.
type HostPresence struct {
	Driver            PresenceDriver    `json:"driver,omitempty"`
	Selector          string            `json:"selector,omitempty"`
	HeartbeatInterval *Threshold        `json:"heartbeat_interval,omitempty"`
	DegradedAfter     *Threshold        `json:"degraded_after,omitempty"`
	OfflineAfter      *Threshold        `json:"offline_after,omitempty"`
	ReapAfter         *Threshold        `json:"reap_after,omitempty"`
	Entries           string            `json:"entries,omitempty"`
	NATS              *HostPresenceNATS `json:"nats,omitempty"`
}

// HostPresenceNATS is what one host does otherwise than the fleet's [PresenceNATS] says.
type HostPresenceNATS struct {
	Address     string       `json:"address,omitempty"`
	Token       string       `json:"token,omitempty"`
	Credentials string       `json:"credentials,omitempty"`
	Bucket      string       `json:"bucket,omitempty"`
	TTL         string       `json:"ttl,omitempty"`
	Embedded    EmbeddedNATS `json:"embedded,omitempty"`
	Leaf        []string     `json:"leaf,omitempty"`
}

// defaultPresence is what a block that says nothing says: the defaults of the schema.
func defaultPresence() Presence {
	return Presence{
		Selector: "local", HeartbeatInterval: "5s", DegradedAfter: "15s", OfflineAfter: "30s", ReapAfter: "5m", Entries: "lease",
	}
}

func defaultPresenceNATS() PresenceNATS {
	return PresenceNATS{Bucket: "stado_presence", TTL: "30s", Embedded: EmbeddedOff}
}

// PresenceOf is the presence of one host with everything decided: the fleet's, with what the host says otherwise. For a host that the
// registry does not declare, such as "", it is the fleet's. The result shares no pointer with the registry.
func (r *Registry) PresenceOf(host HostName) Presence {
	p := defaultPresence()
	if r.Presence != nil {
		p = *r.Presence
	}
	if p.NATS != nil {
		nats := *p.NATS
		p.NATS = &nats
	}
	if own := r.Hosts[host].Presence; own != nil {
		own.override(&p)
	}
	return r.withDriver(p)
}

// withDriver decides for the fleet's store as soon as there is something to find it by.
func (r *Registry) withDriver(p Presence) Presence {
	switch {
	case p.Driver != "":
	case p.NATS != nil || r.Gateway != nil:
		p.Driver = PresenceOverNATS
	default:
		p.Driver = PresenceMemory
	}
	return p
}

func (h *HostPresence) override(p *Presence) {
	set(&p.Driver, h.Driver)
	set(&p.Selector, h.Selector)
	set(&p.Entries, h.Entries)
	replace(&p.HeartbeatInterval, h.HeartbeatInterval)
	replace(&p.DegradedAfter, h.DegradedAfter)
	replace(&p.OfflineAfter, h.OfflineAfter)
	replace(&p.ReapAfter, h.ReapAfter)
	if h.NATS == nil {
		return
	}
	if p.NATS == nil {
		nats := defaultPresenceNATS()
		p.NATS = &nats
	}
	set(&p.NATS.Address, h.NATS.Address)
	set(&p.NATS.Token, h.NATS.Token)
	set(&p.NATS.Credentials, h.NATS.Credentials)
	set(&p.NATS.Bucket, h.NATS.Bucket)
	set(&p.NATS.TTL, h.NATS.TTL)
	set(&p.NATS.Embedded, h.NATS.Embedded)
	if h.NATS.Leaf != nil {
		p.NATS.Leaf = h.NATS.Leaf
	}
}

// set replaces a value unless the new one is empty.
func set[T ~string](to *T, value T) {
	if value != "" {
		*to = value
	}
}

// replace replaces a value unless the new one is not given; empty is a value here.
func replace[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}

// Threshold is a declared time after which something happens, as it is written. "" and 0 (which is kept as "0") mean never.
type Threshold string

const neverNumber = "0"

// Never reports whether the threshold switches its transition off.
func (t Threshold) Never() bool { return t == "" || t == neverNumber }

// Duration is the time, 0 for never. It fails for a time that is longer than Go can count.
func (t Threshold) Duration() (time.Duration, error) {
	if t.Never() {
		return 0, nil
	}
	return ParseDuration(string(t))
}

// ParseDuration reads a declared time, such as 10s, 500ms or 1m30s.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("time %q is not a positive time below 292 years (write 10s, 500ms or 1m30s)", s)
	}
	return d, nil
}

// UnmarshalJSON reads a string, or the number 0.
func (t *Threshold) UnmarshalJSON(raw []byte) error {
	if string(raw) == neverNumber {
		*t = neverNumber
		return nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("cannot read a threshold: %w", err)
	}
	*t = Threshold(s)
	return nil
}

// MarshalJSON writes what UnmarshalJSON read.
func (t Threshold) MarshalJSON() ([]byte, error) {
	if t == neverNumber {
		return []byte(neverNumber), nil
	}
	return json.Marshal(string(t))
}
