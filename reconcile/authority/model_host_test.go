package authority_test

import (
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
)

// host is one host: what its disk holds, and what its process knows.
type host struct {
	world *world
	index int
	name  fleet.HostName

	// durable
	held        *doc
	promised    *authority.Promise
	incarnation string
	recovering  bool
	record      *authority.Move
	made        *doc // of the record
	repo        *doc // the head of its authority repository
	grants      []grant

	// gone with the process
	up       bool
	running  bool // it makes the recorded move
	sent     bool
	granted  bool
	base     *doc
	replies  map[fleet.HostName]authority.Reply
	handed   []fleet.HostName
	disputed bool
	deposed  bool // it knows of its successor, whether or not it may hold that registry yet
}

func (h *host) stop() {
	h.up, h.disputed, h.deposed = false, false, false
	h.idle()
	if h.world.rules.forgetful {
		h.promised = nil
	}
}

func (h *host) idle() {
	h.running = false
	h.round()
}

func (h *host) round() {
	h.sent, h.granted, h.base, h.handed = false, false, nil, nil
	h.replies = map[fleet.HostName]authority.Reply{}
}

func (h *host) snap() *fleet.Snapshot {
	if h.held == nil {
		return nil
	}
	return h.held.snap
}

// names reports whether what the host holds names another, or itself, as the authority.
func (h *host) names(other *host) bool { return h.held != nil && h.held.head().Authority == other.name }

// serves reports whether the host answers reads as the authority: it is, or its last word was to whom the role went.
func (h *host) serves() bool {
	return h.up && !h.deposed && h.repo != nil && (h.names(h) || h.repo == h.held)
}

// state is what the host says of itself to whoever asks.
func (h *host) state() authority.Host {
	s := authority.Host{
		Name: h.name, Incarnation: h.incarnation, Promised: h.promised, Recovering: h.recovering,
	}
	if h.held != nil {
		s.Held, s.Hosts = h.held.head(), h.held.snap.Registry.HostNames()
		_, s.Answers = h.reading().Answers()
	}
	return s
}

// reading is this host's read of the authority that it holds.
func (h *host) reading() authority.Reading {
	a := h.world.named(h.held.head().Authority)
	if !h.world.reaches(h, a) || !a.serves() {
		return authority.Reading{Cause: "no answer"}
	}
	if v := h.fence(a.repo); v.Sentence != "" || v.Kind != reconcile.Adopt {
		return authority.Reading{Refused: v.Sentence}
	}
	if r := h.promised.Keeps(a.repo.snap.Generation(), authority.Owner{Mover: a.repo.head().Authority}); r != nil {
		return authority.Reading{Refused: r.Sentence}
	}
	return authority.Reading{}
}

func standing(d *doc) reconcile.Standing {
	if d == nil {
		return reconcile.Standing{}
	}
	return reconcile.Standing{Commit: d.snap.Commit, Generation: d.snap.Generation(), Digest: d.snap.Digest}
}

func (h *host) fence(d *doc) reconcile.Verdict {
	rel := d.relation(h.held)
	v := reconcile.Fence(standing(h.held), reconcile.Offered{
		Commit: d.snap.Commit, Generation: d.snap.Generation(), Digest: d.snap.Digest,
		Descends: h.held == nil || rel == authority.Ahead || rel == authority.Equal,
	})
	if h.world.rules.numberOnly && v.Kind == reconcile.Fork {
		return reconcile.Verdict{Kind: reconcile.Adopt}
	}
	return v
}

// offer is a document that reaches the host, from wherever. It reports whether the host came to hold it. The write is the caller's point.
func (h *host) offer(d *doc, o authority.Owner, point authority.Point) (took bool) {
	w := h.world
	v := h.fence(d)
	if v.Kind != reconcile.Adopt {
		w.logf("%s refuses %s: %s %s", h.name, d, v.Kind, v.Sentence)
		w.note("refused: " + string(v.Kind))
		return false
	}
	if r := h.promised.Keeps(d.snap.Generation(), o); r != nil && !w.rules.ignored {
		w.logf("%s refuses %s: %s", h.name, d, r)
		w.note("refused: promised")
		return false
	}
	if h.held != nil {
		w.walked(h.held, d)
	}
	return w.write(h, point, func() {
		was := h.held
		h.held = d
		if h.incarnation == "" {
			h.incarnation = w.token("i")
		}
		w.logf("%s holds %s", h.name, d)
		w.held(h, was, d)
	})
}

func (h *host) situation(to fleet.HostName) authority.Situation {
	s := authority.Situation{
		Self: h.name, To: to, Copy: h.snap(), Promised: h.promised, Incarnation: h.incarnation,
		Nonce: h.world.token("n"),
	}
	if h.held != nil && !h.names(h) {
		s.Authority = h.reading()
	}
	return s
}

// pushed is `stado registry push --last-known-good` on this host.
func (h *host) pushed(d *doc) *message {
	w := h.world
	p := authority.Push{
		Path: "-", Self: h.name, Copy: h.snap(), Promised: h.promised,
		Offered: d.snap.Generation(), Owner: d.owner,
	}
	if h.held != nil && !h.names(h) {
		p.Authority = h.reading()
	}
	if w.rules.ignored {
		p.Promised = nil
	}
	answer := &message{kind: "pushed", doc: d, head: headOf(h.held)}
	r, err := p.Decide()
	if err == nil && h.offer(d, d.owner, "") {
		w.note("handed over")
		answer.receipt, answer.head = &r, d.head()
	}
	if !h.up {
		return nil
	}
	return answer
}

// mirrored is `stado authority take`: the commit by which the role moves through the authority, arriving at the new one.
func (h *host) mirrored(d *doc) *message {
	take := authority.Take{Self: h.name, Copy: h.snap(), Promised: h.promised, Offered: d.snap.Generation(), Owner: d.owner}
	if _, err := take.Decide(); h.held != d && (err != nil || !h.offer(d, d.owner, "")) {
		return &message{kind: "pushed", doc: d, head: headOf(h.held)}
	}
	if h.repo == nil || d.relation(h.repo) == authority.Ahead {
		h.world.write(h, "", func() { h.repo = d })
	}
	return &message{kind: "pushed", doc: d, receipt: &authority.PushReceipt{State: authority.StateHandedOver, Generation: d.snap.Generation()}}
}

// claimedBy answers a claim.
func (h *host) claimedBy(from *host, c authority.Claim) *message {
	w := h.world
	a, p := h.state().Decide(c, h.claimed(c))
	if p != nil && !w.write(h, "", func() { h.promised = p }) {
		return nil
	}
	if a.Granted {
		w.note(map[bool]string{true: "granted", false: "regranted"}[p != nil])
		w.logf("%s grants generation %d to %s, holding %s", h.name, c.Generation, c.Mover, h.held)
		h.grants = append(h.grants, grant{c, from.index})
	}
	return &message{kind: "answer", answer: a}
}

// busy reports whether a document is being made whose fate is open. One that only waits for hosts that missed it may be built on.
func (h *host) busy() bool {
	return h.record != nil && (h.running || h.record.Phase != authority.PhaseCopied)
}

// edit is a change that the authority makes of its own registry.
func (h *host) edit() bool {
	w := h.world
	if !h.up || !h.names(h) || h.disputed || h.deposed || h.busy() || h.repo != h.held || len(w.docs) == maxDocs {
		return false
	}
	if w.rules.quorum == fleet.QuorumMajority && !w.rules.unclaimedEdit {
		return h.begin(authority.BeginEdit(h.situation(h.name)))
	}
	next := w.changed(h.held.snap.Registry)
	next.Directory.Generation++
	if h.promised.Keeps(next.Directory.Generation, authority.Owner{Mover: h.name}) != nil {
		return false
	}
	d := w.commit(next, authority.Owner{Mover: h.name}, h.held)
	if w.write(h, "", func() { h.repo = d }) {
		h.offer(d, d.owner, "")
	}
	return true
}

// review is what a host that believes it is the authority asks of all others.
func (h *host) review() bool {
	if !h.up || !h.names(h) {
		return false
	}
	var peers []authority.Peer
	for _, p := range h.world.hosts {
		if p != h && p.held != nil && h.world.reaches(h, p) {
			a := p.state().Report()
			peers = append(peers, authority.Peer{Host: p.name, Held: a.Held, Relation: p.held.relation(h.held)})
		}
	}
	switch r := authority.ReviewPeers(h.held.head(), peers); r.Duty {
	case authority.DutyAdopt:
		h.offer(h.world.find(r.Head), authority.Owner{Mover: r.Head.Authority}, "")
	case authority.DutyStepDown:
		if h.offer(h.world.find(r.Head), authority.Owner{Mover: r.Head.Authority}, "") {
			h.world.note("stepped down")
		}
		h.deposed = h.names(h)
	case authority.DutyDispute:
		h.world.note("disputed")
		h.disputed = true
	case authority.DutyServe:
		h.disputed, h.deposed = false, false
		// the store of a host that serves is what it holds, however it came to it
		if h.repo != h.held && h.record == nil && (h.repo == nil || h.held.history.has(h.repo.id)) {
			h.world.write(h, "", func() { h.repo = h.held })
		}
	}
	return true
}

// join brings the histories of this host and another together.
func (h *host) join(other *host, prefer fleet.HostName) bool {
	w := h.world
	theirs := other.held
	if other == h {
		theirs = h.repo // what it wrote as the authority and has not seen admitted
	}
	if !h.up || !w.reaches(h, other) || h.held == nil || theirs == nil || h.busy() {
		return false
	}
	j, err := authority.PlanJoin(h.held.head(), theirs.head(), theirs.relation(h.held), prefer)
	if err != nil {
		return false
	}
	switch j.Kind {
	case authority.JoinMerge:
		if j.Authority != h.name || len(w.docs) == maxDocs {
			return false
		}
		w.note("joined")
		return h.begin(authority.BeginJoin(h.situation(h.name), j, w.find(j.Parents[0]).snap))
	case authority.JoinAdopt:
		return h.offer(theirs, authority.Owner{Mover: theirs.head().Authority}, "")
	case authority.JoinNothing, authority.JoinPush:
	}
	return false
}

// rejoin asks all others after the anchor was lost.
func (h *host) rejoin() bool {
	if !h.up || !h.recovering || h.held == nil {
		return false
	}
	answers := map[fleet.HostName]authority.Answer{}
	for _, p := range h.world.hosts {
		if h.world.reaches(h, p) {
			answers[p.name] = p.state().Report()
		}
	}
	floor, wanting := authority.Rejoin(h.name, h.held.head(), h.held.snap.Registry, answers)
	if wanting != nil {
		return false
	}
	h.world.note("rejoined")
	h.world.write(h, "", func() {
		h.promised, h.recovering = floor, false
		h.world.settle(h, h.held)
	})
	return true
}

func (h *host) lapse() bool {
	if !h.up {
		return false
	}
	p := h.promised.Lapse(h.snap().Generation(), time.Hour, time.Minute, h.world.rules.quorum)
	if p == nil {
		return false
	}
	// Nobody counts on it any more, as far as the checker is concerned.
	h.grants = nil
	return h.world.write(h, "", func() { h.promised = p })
}
