package reconcile

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/source"
)

// tally is a source without news that counts the polls of each second.
type tally struct {
	*repo
	mu     sync.Mutex
	began  time.Time
	counts map[int]int
}

func (c *tally) Poll(_ context.Context, held source.Anchor) (source.Offer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[int(time.Since(c.began)/time.Second)]++
	return source.Offer{Tip: held.Commit, Descends: true, Unchanged: true}, nil
}

// A fleet whose hosts all start at the same instant asks its authority at once that one time, and from then on never in step: in no second
// does more than a fiftieth of it ask.
func TestFleetAsksOutOfStep(t *testing.T) {
	const hosts, interval = 1000, 300 * time.Second
	rounds := 5 // the start is the worst
	if os.Getenv("STADO_SOAK") != "" {
		rounds = 100
	}
	base := first(41, "base")
	loopTest(t, base, base, func(b *bench) {
		held := b.open() // nothing is written, so one store does for all of them
		all := &tally{repo: b.repo, began: time.Now(), counts: map[int]int{}}
		ctx, stop := context.WithCancel(context.Background())
		var fleetwide sync.WaitGroup
		for host := range hosts {
			r := New(Options{
				Store: held, Sources: From(all), Refresh: interval, Adopt: func(*fleet.Snapshot) {},
				Log: slog.New(slog.DiscardHandler), Rand: rand.New(rand.NewPCG(uint64(host), 4)).Float64,
			})
			fleetwide.Go(func() {
				if err := r.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		b.pass(time.Duration(rounds) * interval)
		stop()
		fleetwide.Wait()
		synctest.Wait()
		if all.counts[0] < hosts {
			t.Errorf("%d of %d hosts asked when they started", all.counts[0], hosts)
		}
		polls, worst, at := 0, 0, 0
		for second, n := range all.counts {
			polls += n
			if second > 0 && n > worst {
				worst, at = n, second
			}
		}
		if polls < hosts*rounds {
			t.Errorf("%d polls in %d rounds of %d hosts", polls, rounds, hosts)
		}
		t.Logf("%d of %d hosts asked in the worst second, %d s after the start", worst, hosts, at)
		if worst > hosts/50 {
			t.Errorf("%d of %d hosts asked in one second, %d s after the start", worst, hosts, at)
		}
	})
}
