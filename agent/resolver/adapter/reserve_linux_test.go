package adapter

import (
	"context"
	"os"
	"testing"
	"time"
)

// Relays that have ended hold no descriptor, the reserve included.
func TestEndedRelaysHoldNothing(t *testing.T) {
	before := descriptors(t, os.Getpid())
	r := NewRelays(RelaysOptions{Log: (&logbook{}).logger(), Interval: time.Minute})
	if held := descriptors(t, os.Getpid()); held < before+reserveSize {
		t.Errorf("%d descriptors before, %d with the reserve", before, held)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if err := r.Run(over); err != nil {
		t.Error(err)
	}
	if after := descriptors(t, os.Getpid()); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
