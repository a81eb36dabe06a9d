package policies

import (
	"fmt"

	"stado.internal/stado/fleet"
)

func sayOneKey(signer, other fleet.SignerName, where string) string {
	return fmt.Sprintf("signer %s has the key of signer %s%s", signer, other, where)
}

func sayUnreadKey(signer fleet.SignerName, err error) string {
	return fmt.Sprintf("the key of signer %s cannot verify anything: %v", signer, err)
}

const hintUnreadKey = "a signer without a good key signs nothing, and a fleet whose signers all have none is never changed again"

const hintOneKey = "keep one of the two, with the scope that is meant"

func sayThreshold(field string, t fleet.Threshold, than string) string {
	return fmt.Sprintf("%s is %s, not more than %s", field, t, than)
}

func sayReap(t fleet.Threshold) string {
	return fmt.Sprintf("reap_after is %s, but offline_after is off, so no node is ever offline", t)
}

const (
	hintThreshold = "2 × heartbeat_interval < degraded_after < offline_after; a sign of life may be late without a change of state"
	hintReap      = `set offline_after, or say reap_after: ""`
)

func sayThreeBeats(ttl, than string) string {
	return fmt.Sprintf("ttl is %s, less than %s", ttl, than)
}

const (
	hintTTL      = "raise ttl, or shorten heartbeat_interval"
	sayNoStore   = "presence is over NATS, and the registry neither names a server nor embeds one"
	sayNoCluster = "the embedded servers are to form a cluster, and its hosts are not named"
	sayNoHub     = "the embedded server is to be a leaf, and nothing says of which servers"
)

func sayClusterTwice(host fleet.HostName) string {
	return fmt.Sprintf("host %s stands twice in the cluster", host)
}

const (
	hintNoStore      = `say nats: address: "nats://HOST:4222", nats: embedded: "single", or declare a gateway`
	hintNoCluster    = "name three hosts: presence: nats: cluster: [a, b, c]"
	hintNoHub        = "list them in leaf, or name the hosts of the fleet's cluster"
	hintClusterTwice = "name three different hosts"
)

func sayNoEdge(host fleet.HostName, edge fleet.EdgeName) string {
	return fmt.Sprintf("host %s forwards for edge %s, which the registry does not declare", host, edge)
}

func hintNoEdge(edge fleet.EdgeName) string {
	return fmt.Sprintf("add edges: %q: {}, or name an edge that is declared", string(edge))
}

func sayEdgeOrigin(a string) string {
	return fmt.Sprintf("%s is an address of the forwarder and of the origin", a)
}

const hintEdgeOrigin = "an edge hides the origin: its records never hold the origin's address"

func sayEdgeInterval(edge fleet.EdgeName, interval string) string {
	return fmt.Sprintf("edge %s is measured every %s, more often than once a minute", edge, interval)
}

const hintEdgeInterval = `write interval: "1m" or more`

func saySlotSSH(slot fleet.SlotName, host fleet.HostName) string {
	return fmt.Sprintf("slot %s is on host %s, which has no SSH destination", slot, host)
}

func hintSlotSSH(host fleet.HostName) string {
	return fmt.Sprintf("set ssh of host %s, or attach a socket of this host", host)
}

func saySlotLoop(slot fleet.SlotName) string {
	return fmt.Sprintf("slot %s is attached to the socket of its own switch", slot)
}

const hintSlotLoop = "attach the socket of the master"

func sayOneSocket(slot, other fleet.SlotName, where string) string {
	return fmt.Sprintf("slot %s is attached to the socket of slot %s%s", slot, other, where)
}

const hintOneSocket = "keep one of the two"

func sayChunk(chunk, frame int) string {
	return fmt.Sprintf("max_chunk is %d, not less than max_frame, which is %d", chunk, frame)
}

const hintChunk = "lower max_chunk, or raise max_frame"

func sayNoObjects(host fleet.HostName) string {
	return fmt.Sprintf("host %s serves the object API, which the registry does not declare", host)
}

const (
	hintNoObjects      = "add objects: {} with the namespaces, or take objects from the host"
	hintExposedObjects = "the object API answers programs of its own host only, who reach it through adapters elsewhere: bind a loopback address or a unix socket"
	hintExposedView    = "bind a loopback address or a unix socket, or say expose: true"
)

func sayNoCertificate(view, bind string) string {
	return fmt.Sprintf("%s is exposed on %s, and the host has no certificate", view, bind)
}

const hintNoCertificate = "set certificate_sha256 of the host, or bind a loopback address"
