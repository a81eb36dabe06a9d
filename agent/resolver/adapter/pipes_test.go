package adapter

import "testing"

func TestPipes(t *testing.T) {
	woken := 0
	p := newPipes(func() { woken++ })
	var out []*pipe
	for range pipesMax {
		x := p.take()
		if x == nil {
			t.Fatal("no pipe below the bound")
		}
		out = append(out, x)
	}
	if p.take() != nil {
		t.Fatal("a pipe above the bound")
	}
	p.give(out[0], false)
	if p.open != pipesMax-1 || woken != 0 {
		t.Error("a pipe with bytes in it was kept")
	}
	for _, x := range out[1:] {
		p.give(x, true)
	}
	if woken != 1 {
		t.Errorf("woken %d times", woken)
	}
	p.trim() // everything was out since the last trim
	if p.open != pipesMax-1 {
		t.Errorf("%d pipes left, though all were needed", p.open)
	}
	busy := p.take()
	p.trim()
	if p.open != 1 || len(p.idle) != 0 {
		t.Errorf("%d pipes open, though one was enough", p.open)
	}
	p.give(busy, true)
	p.trim()
	p.trim()
	if p.open != 0 {
		t.Errorf("%d pipes left after two idle trims", p.open)
	}
	busy = p.take()
	p.close()
	p.give(busy, true)
	if p.open != 0 || p.take() != nil {
		t.Error("a closed pool keeps pipes")
	}
}
