package adapter

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A relay that is put under the sweep while the sweep lets go of it is not forgotten.
func TestSweepForgetsNobody(t *testing.T) {
	r := NewRelays(RelaysOptions{Log: (&logbook{}).logger(), Interval: time.Minute})
	defer r.peers.close()
	defer r.pressure.release()
	mine, theirs := net.Pipe()
	defer mine.Close()
	defer theirs.Close()
	const rounds, many = 300, 2000
	for range rounds {
		r.watched = nil
		relays := make([]*relay, many)
		for i := range relays {
			relays[i] = &relay{relays: r, client: newStream(mine), service: newStream(theirs), phase: answered}
			r.watch(relays[i])
		}
		var sweeping sync.WaitGroup
		sweeping.Go(func() { r.sweep(time.Time{}) })
		for _, m := range relays { // in the order of the sweep, so that they meet often
			m.mu.Lock()
			m.clientEOF = true
			m.mu.Unlock()
			r.watch(m)
		}
		sweeping.Wait()
		if len(r.watched) != many {
			t.Fatalf("%d of %d relays are watched", len(r.watched), many)
		}
	}
}
