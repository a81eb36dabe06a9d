package adapter

import (
	"slices"
	"sync"
)

// pipesMax bounds the pipes of a process. Directions that find none copy through a buffer, so the bound costs speed and never progress.
const pipesMax = 64

// pipes is a pool of empty pipes. A pipe is out only while bytes are in it, and one that nobody needed between two trims is closed, so
// relays that fell idle leave no descriptor behind.
type pipes struct {
	wake func() // asks for a trim soon

	mu     sync.Mutex
	idle   []*pipe
	open   int // idle or out
	spare  int // the fewest idle since the last trim
	closed bool
}

func newPipes(wake func()) *pipes { return &pipes{wake: wake} }

// take is nil when there is no pipe to be had.
func (p *pipes) take() *pipe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		x := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.spare = min(p.spare, n-1)
		return x
	}
	if p.open == pipesMax || p.closed {
		return nil
	}
	x, err := newPipe()
	if err != nil {
		return nil // most likely out of descriptors: not a place to insist on two more
	}
	p.open++
	return x
}

// give takes a pipe back; one that is not empty is closed.
func (p *pipes) give(x *pipe, empty bool) {
	p.mu.Lock()
	if !empty || p.closed {
		p.open--
		p.mu.Unlock()
		x.close()
		return
	}
	p.idle = append(p.idle, x)
	first := len(p.idle) == 1
	p.mu.Unlock()
	if first {
		p.wake()
	}
}

// trim closes the pipes that nobody took since the last trim, and reports whether any idle one is left.
func (p *pipes) trim() (left bool) {
	p.mu.Lock()
	unused := slices.Clone(p.idle[:p.spare])
	p.idle = slices.Delete(p.idle, 0, p.spare)
	p.open -= len(unused)
	p.spare = len(p.idle)
	left = len(p.idle) > 0
	p.mu.Unlock()
	for _, x := range unused {
		x.close()
	}
	return left
}

// close closes what is idle, and what is out when it comes back.
func (p *pipes) close() {
	p.mu.Lock()
	p.closed = true
	p.spare = len(p.idle)
	p.mu.Unlock()
	p.trim()
}
