package adapter

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/agent/resolver/wait"
)

// reserveSize is how many descriptors are held back for the moment when they run out: one session and whatever else opens something need
// a few while relays are being shed. The published documents need none.
const reserveSize = 16

// settling is how long what was shed may take to give its descriptors back: each goes when the last goroutine that reads from it has run,
// which a busy machine delays.
const settling = time.Second

// pressure is what a process does about descriptors. Only one adapter relieves it at a time.
type pressure struct {
	epoch atomic.Uint64 // reliefs so far

	mu       sync.Mutex
	reserve  []int
	relieved time.Time // of the last relief
}

// exhausted reports whether an error means that the process, or the machine, has no descriptor left to give. Errors are told by number:
// their texts differ between systems and versions.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// hold fills the reserve as far as it can, and reports whether it is full.
func (p *pressure) hold() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.reserve) < reserveSize {
		fd, err := spareDescriptor()
		if err != nil {
			return false
		}
		p.reserve = append(p.reserve, fd)
	}
	return true
}

// release gives the reserve up.
func (p *pressure) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseLocked()
}

func (p *pressure) releaseLocked() {
	for _, fd := range p.reserve {
		_ = syscall.Close(fd)
	}
	p.reserve = p.reserve[:0]
}

// spareDescriptor opens something that costs the kernel next to nothing.
func spareDescriptor() (int, error) {
	return syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
}

// relieve ends every held relay of the process, and every upload that stands although its client is gone, after cause at the adapter.
// relief is the epoch from before the failed call: when somebody has relieved the pressure since, or just before, trying again is all there is to do. The
// error is the sentence when nothing could be shed.
func (r *Relays) relieve(at route.Key, relief uint64, cause error) error {
	p := &r.pressure
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch.Load() != relief {
		return nil
	}
	interval, now := r.ledger.Interval(), r.now()
	shed, opening := r.ledger.Shed(now)
	orphans := r.endOrphans()
	if len(shed) == 0 && orphans == 0 {
		if now.Sub(p.relieved) < settling {
			return nil
		}
		return sayNothingShed(at.Bind, cause, interval, opening) // the reserve is not for one more relay
	}
	p.releaseLocked() // comes back with the housekeeping, when there is room
	defer r.stir()
	body := sayShed(at.Bind, cause, interval)
	lines := make([]string, 0, len(shed)+2)
	for _, w := range shed {
		lines = append(lines, sayShedWait(w))
		w.Shed(body)
	}
	p.relieved = now
	p.epoch.Add(1)
	if orphans > 0 {
		lines = append(lines, sayOrphansEnded(at, orphans, cause))
	}
	if len(shed) > 0 {
		lines = append(lines, sayShedCount(at, len(shed), cause, opening))
	}
	r.touch(func() {
		for _, line := range lines {
			r.log.Warn(line)
		}
	})
	return nil
}

func (r *Relays) endOrphans() (ended int) {
	r.mu.Lock()
	var orphans []*relay
	for m := range r.members {
		if m.idleOrphan() {
			orphans = append(orphans, m)
		}
	}
	r.mu.Unlock()
	for _, m := range orphans {
		m.end(wait.ClientGone, nil)
	}
	return len(orphans)
}
