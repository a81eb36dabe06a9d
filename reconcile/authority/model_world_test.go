package authority_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/authority"
)

// message is one on its way.
type message struct {
	from, to *host
	kind     string
	claim    authority.Claim
	answer   authority.Answer
	doc      *doc
	head     authority.Head
	receipt  *authority.PushReceipt
}

// world is a fleet and its network.
type world struct {
	checker
	rules   rules
	hosts   []*host
	network []message
	parts   []int // by host: hosts of one part reach each other
	fuse    int   // writes until the process that makes them dies; below 0: none does
	drawn   int
	lost    bool
	steps   int
	crashed map[authority.Point]int
}

func newWorld(play rules) *world {
	w := &world{
		rules: play, parts: make([]int, play.hosts), fuse: -1, crashed: map[authority.Point]int{},
		checker: checker{
			quorum: play.quorum, hosts: play.hosts, seen: map[string]int{},
			generations: map[fleet.Generation]*doc{}, nonces: map[string]*doc{}, givenUp: map[string]bool{},
		},
	}
	r := &fleet.Registry{Hosts: map[fleet.HostName]fleet.Host{}, Policies: fleet.Policies{Quorum: play.quorum}}
	for i := range play.hosts {
		name := fleet.HostName(fmt.Sprintf("h%d", i))
		r.Hosts[name] = fleet.Host{}
		w.hosts = append(w.hosts, &host{world: w, index: i, name: name, up: true, incarnation: w.token("i")})
	}
	r.Directory = fleet.Directory{Generation: 7, Authority: fleet.Authority{Host: "h0", Epoch: 1, Branch: "main"}}
	first := w.commit(r, authority.Owner{Mover: "h0"})
	for _, h := range w.hosts {
		h.round()
		h.held = first
		w.held(h, nil, first)
	}
	w.hosts[0].repo = first
	return w
}

func (w *world) token(prefix string) string {
	w.drawn++
	return fmt.Sprint(prefix, w.drawn)
}

func (w *world) commit(r *fleet.Registry, o authority.Owner, parents ...*doc) *doc {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	d := &doc{id: len(w.docs), owner: o, snap: &fleet.Snapshot{
		Commit: fmt.Sprintf("%040x", len(w.docs)), Digest: fmt.Sprintf("%064x", len(w.docs)), Document: raw, Registry: r,
	}}
	d.history.add(d.id)
	if len(parents) > 0 {
		d.parent = parents[0]
	}
	if len(parents) == 1 {
		d.line = parents[0].line
	}
	d.line.add(d.id)
	for n, p := range parents {
		w.judge(p, d, []policies.Gap{policies.GapNone, policies.GapMerged}[n])
		for i := range d.history {
			d.history[i] |= p.history[i]
		}
	}
	w.docs = append(w.docs, d)
	return d
}

// changed is a registry with a change by its authority.
func (w *world) changed(r *fleet.Registry) *fleet.Registry {
	next := *r
	next.Directory.Services = map[fleet.ServiceName]fleet.Service{fleet.ServiceName(w.token("s")): {}}
	return &next
}

func (w *world) find(h authority.Head) *doc {
	for _, d := range w.docs {
		if d.snap.Digest == h.Digest {
			return d
		}
	}
	return nil
}

func (w *world) named(name fleet.HostName) *host {
	return w.hosts[slices.IndexFunc(w.hosts, func(h *host) bool { return h.name == name })]
}

func (w *world) logf(format string, args ...any) {
	if w.log != nil {
		fmt.Fprintf(w.log, "    "+format+"\n", args...)
	}
}

func (w *world) reaches(a, b *host) bool { return a.up && b.up && w.parts[a.index] == w.parts[b.index] }

// write makes something durable, unless the process dies before it.
func (w *world) write(h *host, point authority.Point, change func()) bool {
	if !h.up {
		return false
	}
	if w.fuse == 0 {
		w.fuse = -1
		w.crashed[point]++
		w.logf("%s dies before %s", h.name, point)
		h.stop()
		return false
	}
	w.fuse = max(w.fuse-1, -1)
	change()
	return true
}

func (w *world) send(m message) {
	if m.from.up && m.from != m.to {
		w.network = append(w.network, m)
	}
}

func (w *world) broadcast(from *host, m message) {
	for _, to := range w.hosts {
		m.from, m.to = from, to
		w.send(m)
	}
}

// play does one op and reports whether it did anything.
func (w *world) play(o op) bool {
	h := w.hosts[int(o.A)%len(w.hosts)]
	other := w.hosts[int(o.B)%len(w.hosts)]
	w.fuse = -1
	if do, crashes := strings.CutSuffix(o.Do, " into a crash"); crashes {
		w.fuse = int(o.C) % 3
		defer func() { w.fuse = -1 }()
		o.Do = do
	}
	switch o.Do {
	case "deliver", "double", "drop":
		return w.carry(o)
	case "advance":
		return w.advance(o)
	case "poll":
		return w.poll(h, other)
	case "move":
		return w.move(h, other, o.C)
	case "edit":
		return h.edit()
	case "review":
		return h.review()
	case "join":
		return h.join(other, w.hosts[int(o.C)%len(w.hosts)].name)
	case "resume":
		return h.resume()
	case "abandon":
		return h.abandon()
	case "rejoin":
		return h.rejoin()
	case "lapse":
		return h.lapse()
	}
	return w.weather(o, h)
}

func (w *world) weather(o op, h *host) bool {
	switch o.Do {
	case "restart":
		for i := range w.hosts {
			if h := w.hosts[(int(o.A)+i)%len(w.hosts)]; !h.up {
				h.up = true
				return true
			}
		}
		return false
	case "crash":
		was := h.up
		h.stop()
		return was
	case "part":
		for i := range w.parts {
			w.parts[i] = int(o.B) >> i & 1
		}
		return true
	case "unite":
		was := slices.Max(w.parts)
		clear(w.parts)
		return was > 0
	case "lose":
		return w.lose(h)
	}
	panic("no such op: " + o.Do)
}

// lose takes a host's anchor away, and with it what it holds and has promised. Two such losses at once are beyond what the rules survive.
func (w *world) lose(h *host) bool {
	if w.lost {
		return false
	}
	w.lost = true
	h.stop()
	h.held, h.promised, h.incarnation, h.recovering, h.grants = nil, nil, "", true, nil
	w.logf("%s lost its anchor", h.name)
	return true
}

// advance makes a step of a move, if one runs anywhere.
func (w *world) advance(o op) bool {
	for i := range w.hosts {
		if h := w.hosts[(int(o.A)+i)%len(w.hosts)]; h.up && h.running {
			return h.advance()
		}
	}
	return false
}

func (w *world) move(h, other *host, c uint8) bool {
	if !h.up || h.record != nil || len(w.docs) == maxDocs {
		return false
	}
	to := h
	if h.names(h) {
		to = other
	} else if c%8 == 0 { // on the wrong host
		to = other
	}
	return h.begin(authority.Begin(h.situation(to.name)))
}

// poll reads the authority that the host holds, or, when it holds nothing, whichever it was configured with: its own repository perhaps.
func (w *world) poll(h, configured *host) bool {
	a := configured
	if h.held != nil {
		a = w.named(h.held.head().Authority)
	}
	if !w.reaches(h, a) || !a.serves() && (a != h || h.held != nil) || a.repo == h.held {
		return false
	}
	w.network = append(w.network, message{from: a, to: h, kind: "snapshot", doc: a.repo})
	return true
}

// carry delivers, doubles or drops a message.
func (w *world) carry(o op) bool {
	if len(w.network) == 0 {
		return false
	}
	i := (int(o.A)<<8 + int(o.B)) % len(w.network)
	m := w.network[i]
	if o.Do != "double" {
		w.network = slices.Delete(w.network, i, i+1)
	}
	return o.Do == "drop" || w.deliver(m)
}

// deliver hands a message over, if its host runs and is in the sender's part by now.
func (w *world) deliver(m message) bool {
	h := m.to
	if !h.up || w.parts[m.from.index] != w.parts[h.index] {
		return false
	}
	var back *message
	switch m.kind {
	case "claim":
		back = h.claimedBy(m.from, m.claim)
	case "answer":
		if h.running && h.sent {
			h.replies[m.from.name] = authority.Reply{Answer: &m.answer}
		}
	case "release":
		if p := h.promised.Release(m.claim); p != nil {
			w.note("released")
			w.write(h, "", func() { h.promised = p })
		}
	case "push":
		back = h.pushed(m.doc)
	case "mirror":
		back = h.mirrored(m.doc)
	case "pushed":
		h.handedBack(m.from, m)
	case "snapshot":
		h.offer(m.doc, authority.Owner{Mover: m.doc.head().Authority}, "")
	}
	if back != nil {
		back.from, back.to = h, m.from
		w.send(*back)
	}
	return true
}

// calm is the end of a schedule: all hosts run and reach each other, nothing is lost, interrupted moves are finished or given up, and the
// authority that stands makes one more change. Everybody then holds the same.
func (w *world) calm() {
	w.network, w.fuse = nil, -1
	clear(w.parts)
	for _, h := range w.hosts {
		h.up = true
	}
	for range 12 {
		for _, h := range w.hosts {
			h.lapse()
			if !h.running {
				h.resume()
			}
			w.drain(h)
			if h.held == nil {
				for _, a := range w.hosts {
					w.poll(h, a)
				}
			}
			w.poll(h, h)
			w.flush()
			h.review()
			h.rejoin()
			for _, other := range w.hosts {
				h.join(other, min(headOf(h.held).Authority, headOf(other.held).Authority))
				w.drain(h)
			}
		}
		if w.edited() && w.agreed() {
			return
		}
	}
	var state strings.Builder
	for _, h := range w.hosts {
		fmt.Fprintf(&state, "; %s holds %s, promised %+v, record %+v, repo %s", h.name, h.held, h.promised, h.record, h.repo)
	}
	w.fail("(calm) the hosts do not agree%s", state.String())
}

// edited lets the authority that stands write, so that a promise that nobody gives back has an end.
func (w *world) edited() bool {
	did := false
	for _, h := range w.hosts {
		if h.edit() {
			did = true
			w.drain(h)
		}
	}
	if !did { // whoever is named cannot take the role up: a person moves it
		for _, h := range w.hosts {
			if h.begin(authority.Begin(h.situation(h.name))) {
				w.drain(h)
			}
		}
	}
	for _, h := range w.hosts {
		w.poll(h, h)
	}
	w.flush()
	return did
}

func (w *world) drain(h *host) {
	for range 200 {
		w.flush()
		if !h.advance() {
			return
		}
	}
	w.fail("(calm) the move of %s does not end: %+v", h.name, h.record)
}

func (w *world) flush() {
	for len(w.network) > 0 {
		m := w.network[0]
		w.network = w.network[1:]
		w.deliver(m)
	}
}

func (w *world) agreed() bool {
	for _, h := range w.hosts {
		if h.held != w.hosts[0].held || h.recovering {
			return false
		}
	}
	return true
}
