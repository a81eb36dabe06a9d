package authority_test

import (
	"slices"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
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
}

func (h *host) stop() {
	h.up = false
	h.idle()
	if h.world.rules.forgetful {
		h.promised = nil
	}
}

func (h *host) idle() {
	h.running, h.disputed = false, false
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
func (h *host) serves() bool { return h.up && h.repo != nil && (h.names(h) || h.repo == h.held) }

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
	if h.held != nil && policies.Judge(
		policies.Revision{Registry: h.held.snap.Registry, Digest: h.held.snap.Digest},
		policies.Revision{Registry: d.snap.Registry, Digest: d.snap.Digest},
	).Refuses() {
		w.fail("(judge) %s is refused after %s", d, h.held)
		return false
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
		h.handOver(m, step)
	case authority.DoFinish:
		w.receipt(w, m, h.made)
		h.idle()
		if m.Receipt().Err() == nil {
			if m.Through {
				w.note("moved through")
			}
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
	if authority.OnlyMoves(r, next) != (m.Kind == authority.KindMove) {
		w.fail("(move) %s changes %+v to %+v", m.Kind, r.Directory, next.Directory)
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

func (h *host) handOver(m authority.Move, step authority.Step) {
	if h.handed == nil {
		for _, name := range step.Hosts {
			h.world.send(message{from: h, to: h.world.named(name), kind: "push", doc: h.made})
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

// busy reports whether a document is being made whose fate is open. One that only waits for hosts that missed it may be built on.
func (h *host) busy() bool { return h.record != nil && (h.running || h.record.Phase != authority.PhaseCopied) }

// edit is a change that the authority makes of its own registry.
func (h *host) edit() bool {
	w := h.world
	if !h.up || !h.names(h) || h.disputed || h.busy() || h.repo != h.held || len(w.docs) == maxDocs {
		return false
	}
	if w.rules.quorum == fleet.QuorumMajority && !w.rules.unclaimedEdit {
		return h.begin(authority.BeginEdit(h.situation(h.name)))
	}
	next := *h.held.snap.Registry
	next.Directory.Generation++
	if h.promised.Keeps(next.Directory.Generation, authority.Owner{Mover: h.name}) != nil {
		return false
	}
	d := w.commit(&next, authority.Owner{Mover: h.name}, h.held)
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
	case authority.DutyDispute:
		h.world.note("disputed")
		h.disputed = true
	case authority.DutyServe:
		h.disputed = false
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
	h.world.write(h, "", func() { h.promised, h.recovering = floor, false })
	return true
}

func (h *host) lapse() bool {
	if !h.up {
		return false
	}
	p := h.promised.Lapse(time.Hour, time.Minute, h.world.rules.quorum)
	if p == nil {
		return false
	}
	// Nobody counts on it any more, as far as the checker is concerned.
	h.grants = nil
	return h.world.write(h, "", func() { h.promised = p })
}
