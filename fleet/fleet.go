// Package fleet is the vocabulary of a registry: hosts, services, adapters, generations and destinations as Go types, with pure
// queries over them. It does no I/O, imports nothing of this module, and everything else speaks in its words.
//
// A [Registry] is the declared document in its compiled form: the JSON that CUE evaluation yields, with the same field names. It is
// built once, from an admitted commit, and never changed afterwards; every value here may therefore be shared between goroutines.
package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// HostName names a host of the fleet: the key under `hosts`.
type HostName string

// ServiceName names a service: the key under `service_directory.services`.
type ServiceName string

// ConsumerName names a consumer of a service: the key under the service's `consumers`.
type ConsumerName string

// Generation is the epoch of the service directory: at least 1, and strictly rising with every change of the compiled document.
type Generation uint64

// MaxLeap is how far one change may raise the generation. A larger leap would let one bad commit use up the number space and
// fence out everybody else for ever.
const MaxLeap = 1_000_000

// Registry is one compiled registry document.
type Registry struct {
	Directory Directory         `json:"service_directory"`
	Hosts     map[HostName]Host `json:"hosts,omitempty"`
	Trust     *Trust            `json:"trust,omitempty"`
	Policies  Policies          `json:"policies,omitzero"`
	Presence  *Presence         `json:"presence,omitempty"`
	Edges     map[EdgeName]Edge `json:"edges,omitempty"`
	Gateway   *Gateway          `json:"gateway,omitempty"`
	Objects   *Objects          `json:"objects,omitempty"`
	Vault     *Vault            `json:"vault,omitempty"`
}

// Directory is the routing part of the registry.
type Directory struct {
	Generation Generation              `json:"generation"`
	Authority  Authority               `json:"authority,omitzero"`
	Services   map[ServiceName]Service `json:"services,omitempty"`
}

// Authority says whose repository's branch is the registry: a host of the fleet (Host set) or a forge (Remote set). The zero value
// means that the registry names none, as in a one-host fleet that polls a local repository.
type Authority struct {
	Host       HostName `json:"host,omitempty"`
	Repository string   `json:"repository,omitempty"`
	Remote     string   `json:"remote,omitempty"`
	Branch     string   `json:"branch,omitempty"`
	Command    string   `json:"command,omitempty"`
	Epoch      uint64   `json:"epoch,omitempty"`
}

// Protocol is what an adapter may assume of the bytes it relays: it decides the form of a refusal and nothing else.
type Protocol string

// The protocols. [ProtocolHTTP] refusals are a 502 answer, [ProtocolTCP] refusals are a reset.
const (
	ProtocolHTTP Protocol = "http"
	ProtocolTCP  Protocol = "tcp"
)

// Service is one service of the directory.
type Service struct {
	// ActiveHosts are the hosts that serve now, in declared order; each has an entry in Endpoints.
	ActiveHosts []HostName `json:"active_hosts"`
	// Endpoints holds, for every host that can serve, the address as seen on that host.
	Endpoints map[HostName]ServiceEndpoint `json:"endpoints"`
	Consumers map[ConsumerName]Consumer    `json:"consumers"`
	Selector  string                       `json:"selector,omitempty"`
	Protocol  Protocol                     `json:"protocol,omitempty"`
	Check     *Check                       `json:"check,omitempty"`
	Verify    *Verify                      `json:"verify,omitempty"`
}

// ServiceEndpoint is the address of a service on one host. [ParseEndpoint] reads its URL.
type ServiceEndpoint struct {
	URL string `json:"url"`
}

// Consumer is a declared caller of a service.
type Consumer struct {
	Capabilities []string `json:"capabilities,omitempty"`
}

// Check is how a host tests that its endpoint of a service works.
type Check struct {
	Kind     string `json:"kind"`
	Path     string `json:"path,omitempty"`
	Command  string `json:"command,omitempty"`
	Interval string `json:"interval,omitempty"`
	Timeout  string `json:"timeout,omitempty"`
	Rise     int    `json:"rise,omitempty"`
	Fall     int    `json:"fall,omitempty"`
}

// Verify is how `stado service directory connect` proves that an address answers.
type Verify struct {
	Kind   string `json:"kind"`
	From   string `json:"from,omitempty"`
	Expect string `json:"expect,omitempty"`
}

// Host is one host of the fleet.
type Host struct {
	SSH               Destination       `json:"ssh,omitempty"`
	SSHFallbacks      []SSHFallback     `json:"ssh_fallbacks,omitempty"`
	Hostnames         []string          `json:"hostnames,omitempty"`
	Zone              string            `json:"zone,omitempty"`
	Region            string            `json:"region,omitempty"`
	User              string            `json:"user,omitempty"`
	CertificateSHA256 string            `json:"certificate_sha256,omitempty"`
	ClaimKey          string            `json:"claim_key,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Resolver          *ServiceResolver  `json:"service_resolver,omitempty"`
	Presence          *HostPresence     `json:"presence,omitempty"`
	Edge              *EdgeHost         `json:"edge,omitempty"`
	Relay             *Relay            `json:"relay,omitempty"`
	Objects           *HostObjects      `json:"objects,omitempty"`
	Console           *HostView         `json:"console,omitempty"`
	Metrics           *HostView         `json:"metrics,omitempty"`
}

// SSHFallback is a further path to a host, tried after the primary one in declared order.
type SSHFallback struct {
	Name        string      `json:"name"`
	Destination Destination `json:"destination"`
}

// ServiceResolver is the resolver of one host.
type ServiceResolver struct {
	APIBind         string    `json:"api_bind"`
	RefreshSeconds  int       `json:"refresh_seconds"`
	MaxStaleSeconds int       `json:"max_stale_seconds"`
	Adapters        []Adapter `json:"adapters,omitempty"`
}

// Refresh is the declared interval between two reads of the authority.
func (r *ServiceResolver) Refresh() time.Duration {
	return time.Duration(r.RefreshSeconds) * time.Second
}

// MaxStale is the age past which the served snapshot is reported stale.
func (r *ServiceResolver) MaxStale() time.Duration {
	return time.Duration(r.MaxStaleSeconds) * time.Second
}

// Adapter is a stable local listener for one (service, consumer).
type Adapter struct {
	Service  ServiceName  `json:"service"`
	Consumer ConsumerName `json:"consumer"`
	Bind     string       `json:"bind"`
	// Protocol overrides the service's when set.
	Protocol Protocol `json:"protocol,omitempty"`
	// Expose permits a bind that other machines can reach.
	Expose bool `json:"expose,omitempty"`
	// Mode is the permission of a unix socket bind, in octal ("0660"); empty means 0600.
	Mode string `json:"mode,omitempty"`
}

// Snapshot is one admitted commit, compiled. It is immutable.
type Snapshot struct {
	Commit     string // full object id; empty for a document that was handed over without one
	Digest     string // SHA-256 of Document, in hex
	Document   []byte // canonical JSON
	Registry   *Registry
	Parts      *Parts // Document and Registry, when they come from it; else nil
	AdmittedAt time.Time
	Provenance Provenance
}

// Generation is the snapshot's generation, 0 for a nil snapshot (nothing held).
func (s *Snapshot) Generation() Generation {
	if s == nil || s.Registry == nil {
		return 0
	}
	return s.Registry.Directory.Generation
}

// Provenance says how a held document came to this host.
type Provenance string

// The provenances.
const (
	ProvenanceFetched    Provenance = "fetched"
	ProvenanceHandedOver Provenance = "handed-over"
)

// Decode reads a compiled document. It is strict about JSON and lenient about fields: a closed schema has judged them already.
func Decode(document []byte) (*Registry, error) {
	var r Registry
	if err := json.Unmarshal(document, &r); err != nil {
		return nil, fmt.Errorf("cannot read the compiled registry document: %w", err)
	}
	return &r, nil
}

// HostNames lists the hosts in lexical order.
func (r *Registry) HostNames() []HostName { return slices.Sorted(maps.Keys(r.Hosts)) }

// ServiceNames lists the services in lexical order.
func (r *Registry) ServiceNames() []ServiceName {
	return slices.Sorted(maps.Keys(r.Directory.Services))
}

// AdapterProtocol is the protocol of an adapter: its own, else its service's, else http.
func (r *Registry) AdapterProtocol(a Adapter) Protocol {
	if a.Protocol != "" {
		return a.Protocol
	}
	if p := r.Directory.Services[a.Service].Protocol; p != "" {
		return p
	}
	return ProtocolHTTP
}
