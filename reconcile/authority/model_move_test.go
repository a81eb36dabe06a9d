package authority_test

import (
	"slices"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
)

// begin starts what a decision allows.
func (h *host) begin(m authority.Move, err error) bool {
	if err != nil {
		h.world.logf("%s does not begin: %s", h.name, err)
		return false
	}
	h.idle()
	if h.keep(m) {
		h.running = true
		h.made = nil
	}
	return true
}

// keep writes the record.
func (h *host) keep(m authority.Move) bool {
	return h.world.write(h, m.Point(), func() { h.record = &m })
}

// end gives the record up: the claim is released here and everywhere.
func (h *host) end(c authority.Claim) {
	w := h.world
	h.idle()
	if !w.write(h, "", func() { h.record = nil }) {
		return
	}
	if p := h.promised.Release(c); p != nil {
		w.write(h, "", func() { h.promised = p })
	}
	w.broadcast(h, message{kind: "release", claim: c})
}

// advance makes the next step of the running move.
func (h *host) advance() bool {
	if !h.running || h.record == nil {
		return false
	}
	m, w := *h.record, h.world
	var asked []fleet.HostName
	for name := range h.replies {
		asked = append(asked, name)
	}
	switch step := m.Next(asked, h.granted); step.Do {
	case authority.DoPromise:
		h.promiseOwn(m, step)
	case authority.DoAsk:
		if !h.sent {
			h.sent = true
			for _, name := range step.Hosts {
				w.send(message{from: h, to: w.named(name), kind: "claim", claim: m.Claim()})
			}
			return true
		}
		h.settle(m)
	case authority.DoPromote:
		h.promote(m)
	case authority.DoCopy:
		if !h.offer(h.made, h.made.owner, step.Point) {
			h.stuck(m)
			return true
		}
		w.made(h.made)
		h.keep(m.Copied())
	case authority.DoStore:
		h.store(m, step)
	case authority.DoHandOver:
		h.handOver(m, step, "push")
	case authority.DoMirror:
		h.handOver(m, step, "mirror")
	case authority.DoFinish:
		w.receipt(w, m, h.made)
		h.idle()
		if m.Receipt().Err() == nil {
			w.write(h, "", func() { h.record = nil })
		}
	}
	return true
}

// store pushes the document into this host's repository, without force.
func (h *host) store(m authority.Move, step authority.Step) {
	r := authority.StoreResult{Version: h.made.snap.Commit}
	switch rel := h.made.relation(h.repo); {
	case h.repo == nil || rel == authority.Ahead:
		if !h.world.write(h, step.Point, func() { h.repo = h.made }) {
			return
		}
	case rel == authority.Forked:
		r = authority.StoreResult{Error: "not a fast-forward"}
	}
	h.keep(m.Stored(r))
}

func (h *host) promiseOwn(m authority.Move, step authority.Step) {
	a, p := h.state().Decide(m.Claim(), h.claimed(m.Claim()))
	if p != nil && !h.world.write(h, step.Point, func() { h.promised = p }) {
		return
	}
	if a.Granted {
		h.grants = append(h.grants, grant{m.Claim(), h.index})
	}
	h.replies[h.name] = authority.Reply{Answer: &a}
}

// claimed is how the bases of a claim stand to what this host holds.
func (h *host) claimed(c authority.Claim) authority.Relation {
	rel := h.world.find(c.Base).relation(h.held)
	if c.Joins != nil && rel != authority.Ahead && rel != authority.Equal {
		if other := h.world.find(*c.Joins).relation(h.held); other == authority.Ahead || other == authority.Equal {
			return other
		}
	}
	return rel
}

func (h *host) settle(m authority.Move) {
	w := h.world
	for {
		base := w.find(m.Base)
		for name, r := range h.replies {
			if r.Answer != nil {
				r.Relation = w.find(r.Answer.Held).relation(base)
				h.replies[name] = r
			}
		}
		if w.rules.withoutOld {
			m.Electorate = slices.DeleteFunc(slices.Clone(m.Electorate), func(n fleet.HostName) bool { return n == headOf(h.held).Authority && n != m.Self })
		}
		next, out := m.Settle(h.replies)
		switch out.Course {
		case authority.Proceed:
			w.logf("%s may make generation %d on %s, granted by %v", h.name, next.Generation, base, next.Granted)
			if h.keep(next) {
				h.granted, h.base = true, base
			}
			return
		case authority.Rebase:
			w.note("rebased")
			d := w.find(out.Head)
			if w.rules.installed {
				h.offerInstalled(d)
			}
			m = next.Rebase(d.snap)
			continue
		case authority.Again:
			w.note("tried again")
			if h.keep(next) {
				h.round()
				h.world.broadcast(h, message{kind: "release", claim: out.Release})
			}
			return
		case authority.Stop:
			w.logf("%s stops: %s", h.name, out.Refusal)
			if out.Refusal.Reason == authority.ReasonNoQuorum {
				w.note("no quorum")
			}
			h.end(out.Release)
			return
		}
	}
}

// offerInstalled breaks a rule: a report is taken as if it had been offered.
func (h *host) offerInstalled(d *doc) {
	if was := h.held; h.fence(d).Kind == reconcile.Adopt {
		h.held = d
		h.world.held(h, was, d)
	}
}

func (h *host) promote(m authority.Move) {
	w := h.world
	if len(w.docs) == maxDocs {
		return
	}
	r := h.base.snap.Registry
	next := m.Document(r, "/usr/bin/stado", "/srv/authority.git")
	parents := []*doc{h.base}
	if m.Joins != nil {
		parents = append(parents, w.find(*m.Joins))
	}
	if m.Kind == authority.KindEdit {
		next = w.changed(next)
	}
	d := w.commit(next, m.Claim().Owner(), parents...)
	if h.keep(m.Promote(d.head())) {
		h.made = d
	}
}

// stuck: the copy was not written, by a crash or because what this host holds has changed meanwhile.
func (h *host) stuck(m authority.Move) {
	if !h.up {
		return
	}
	if next, err := m.Resume(h.situation(m.To)); err == nil && next.Phase == authority.PhaseClaiming {
		h.keep(next)
		h.round()
		return
	}
	h.abandon()
}

func (h *host) abandon() bool {
	if !h.up || h.record == nil {
		return false
	}
	m, err := h.record.Abandon(headOf(h.held), h.incarnation)
	if err != nil {
		return false
	}
	if h.keep(m) {
		h.world.note("abandoned")
		h.world.givenUp[m.Nonce] = true
		h.end(m.Claim())
	}
	return true
}

func headOf(d *doc) authority.Head {
	if d == nil {
		return authority.Head{}
	}
	return d.head()
}

func (h *host) handOver(m authority.Move, step authority.Step, kind string) {
	if h.handed == nil {
		for _, name := range step.Hosts {
			h.world.send(message{from: h, to: h.world.named(name), kind: kind, doc: h.made})
		}
		h.handed = step.Hosts
		return
	}
	for _, name := range step.Hosts { // no answer within the bound
		if !h.keep(m.Handed(name, authority.HandOver{Error: "no answer"})) {
			return
		}
		m = *h.record
	}
}

// handedBack records what a host said to the document.
func (h *host) handedBack(from *host, msg message) {
	if !h.running || h.record == nil || h.made != msg.doc || h.record.Phase != authority.PhaseCopied || h.record.Kind != authority.KindMove {
		return
	}
	m := *h.record
	switch taken, ok := m.Taken(from.name, msg.head); {
	case msg.receipt != nil:
		h.keep(m.Handed(from.name, authority.HandOver{Receipt: msg.receipt}))
	case ok:
		h.keep(taken)
	default:
		h.keep(m.Handed(from.name, authority.HandOver{Error: "refused"}))
	}
}

func (h *host) resume() bool {
	if !h.up || h.running || h.record == nil {
		return false
	}
	m, err := h.record.Resume(h.situation(h.record.To))
	if err != nil {
		return h.abandon()
	}
	if h.keep(m) {
		h.idle()
		h.running = true
		h.world.note("resumed")
	}
	return true
}
