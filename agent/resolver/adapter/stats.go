package adapter

import "sync/atomic"

// Stats counts what the relays of a process did since it started.
type Stats struct {
	Connections uint64 // accepted
	Refused     uint64 // refused with a sentence
	Relays      int64  // open now
	Bytes       uint64 // relayed, both ways
	Spliced     uint64 // of these, without passing through this process
	Splices     uint64 // pieces of spliced bytes
	Pipes       int    // open now, idle or in use
}

type counters struct {
	connections, refused, bytes, spliced, splices atomic.Uint64
	relays                                        atomic.Int64
}
