package authority_test

import (
	"fmt"
	"math/bits"
	"strings"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/authority"
)

// maxDocs bounds the documents of one schedule.
const maxDocs = 512

// set is a set of documents.
type set [maxDocs / 64]uint64

func (s *set) add(id int)      { s[id/64] |= 1 << (id % 64) }
func (s *set) has(id int) bool { return s[id/64]>>(id%64)&1 == 1 }

// doc is one commit: a document with its parents.
type doc struct {
	id      int
	history set // the commit itself and all its ancestors
	line    set // those of them that it continues: itself and all before it, up to a join, which takes one side and hears the other
	snap    *fleet.Snapshot
	parent  *doc // the first one
	owner   authority.Owner
	holders uint64 // hosts that ever held it
	settles uint64 // hosts that held it, or what continues it, and knew all that they had held
}

func (d *doc) head() authority.Head { return authority.HeadOf(d.snap) }

// relation of d to other.
func (d *doc) relation(other *doc) authority.Relation {
	switch {
	case d == nil || other == nil:
		return authority.Unknown
	case d == other:
		return authority.Equal
	case d.history.has(other.id):
		return authority.Ahead
	case other.history.has(d.id):
		return authority.Behind
	}
	return authority.Forked
}

// grant is one that a host answered with.
type grant struct {
	claim authority.Claim
	asker int // the host that makes the document
}

// checker holds the invariants, by their numbers in the design:
//
//	(i)   what a host holds never falls
//	(ii)  a generation has one document, over all hosts and all time, where a majority is required
//	(iii) documents that a majority took form one chain, where a majority is required
//	(iv)  a host moves to descendants only
//	(v)   a host that has granted a generation never takes it or a lower one from somebody else while the claim lives
//
// and beyond them that a receipt says what happened, that a move makes one document however often it is interrupted, and that in calm
// weather everybody comes to hold the same.
type checker struct {
	quorum      fleet.Quorum
	hosts       int
	generations map[fleet.Generation]*doc
	nonces      map[string]*doc
	givenUp     map[string]bool
	settled     []*doc
	docs        []*doc
	violation   string
	hunted      string // the only kind of violation that counts; empty: all do
	log         *strings.Builder
	seen        map[string]int
}

func (c *checker) fail(format string, args ...any) {
	if c.violation == "" && strings.HasPrefix(format, c.hunted) {
		c.violation = fmt.Sprintf(format, args...)
	}
}

func (c *checker) note(what string) { c.seen[what]++ }

// held is called with whatever a host comes to hold.
func (c *checker) held(h *host, was, now *doc) {
	g := now.snap.Generation()
	if was != nil {
		if g < was.snap.Generation() {
			c.fail("(i) host %s fell from generation %d to %d", h.name, was.snap.Generation(), g)
		}
		if !now.history.has(was.id) {
			c.fail("(iv) host %s moved from %s to %s, which does not descend from it", h.name, was, now)
		}
	}
	if c.quorum == fleet.QuorumMajority {
		if other := c.generations[g]; other != nil && other != now {
			c.fail("(ii) generation %d is %s, and %s on host %s", g, other, now, h.name)
		}
	}
	c.generations[g] = now
	for _, gr := range h.grants {
		if g <= gr.claim.Generation && now.owner.Mover != gr.claim.Mover && c.lives(h, gr) {
			c.fail("(v) host %s granted generation %d to %s and took %s", h.name, gr.claim.Generation, gr.claim.Mover, now)
		}
	}
	now.holders |= 1 << h.index
	if !h.recovering { // else it may contradict what it has forgotten, and does not count until it has rejoined
		c.settle(h, now)
	}
}

// lives reports whether a claim that was granted may still become, or has become, a document.
func (c *checker) lives(h *host, g grant) bool {
	if c.givenUp[g.claim.Nonce] {
		return false
	}
	if d := c.nonces[g.claim.Nonce]; d != nil {
		return d.snap.Generation() == g.claim.Generation
	}
	m := h.world.hosts[g.asker].record
	return m != nil && m.Nonce == g.claim.Nonce && m.Generation == g.claim.Generation && m.Phase != authority.PhaseAbandoned
}

// judge asks the judges of every host whether a document may follow another.
func (c *checker) judge(was, now *doc, gap policies.Gap) {
	if f := policies.Judge(
		policies.Revision{Registry: was.snap.Registry, Document: was.snap.Document, Digest: was.snap.Digest},
		policies.Revision{Registry: now.snap.Registry, Document: now.snap.Document, Digest: now.snap.Digest, Gap: gap},
	); f.Refuses() {
		c.fail("(judge) %s after %s: %s", now, was, f[0])
	}
}

// walked judges the way to a document as a host that holds another does: commit by commit along first parents, from where they descend
// from what is held. Each was judged after its first parent when it was made; where the way begins at a join, it is judged once more.
func (c *checker) walked(held, d *doc) {
	for d.parent != held && d.parent != nil && d.parent.history.has(held.id) {
		d = d.parent
	}
	if d.parent != held {
		c.judge(held, d, policies.GapMerged)
	}
}

func (c *checker) settle(h *host, now *doc) {
	for _, d := range c.docs {
		if !now.line.has(d.id) || d.settles>>h.index&1 == 1 {
			continue
		}
		if d.settles |= 1 << h.index; bits.OnesCount64(d.settles) != authority.Majority(c.hosts) {
			continue
		}
		for _, s := range c.settled {
			if c.quorum == fleet.QuorumMajority && !s.history.has(d.id) && !d.history.has(s.id) {
				c.fail("(iii) %s and %s are both settled", s, d)
			}
		}
		c.settled = append(c.settled, d)
	}
}

// made is called when the document of a claim reaches the first copy.
func (c *checker) made(d *doc) {
	if d.owner.Nonce == "" {
		return
	}
	if other := c.nonces[d.owner.Nonce]; other != nil && other != d {
		c.fail("(nonce) one move made %s and %s", other, d)
	}
	c.nonces[d.owner.Nonce] = d
}

// receipt compares what a mover says with what happened.
func (c *checker) receipt(w *world, m authority.Move, d *doc) {
	r := m.Receipt()
	what := string(r.State) + " " + string(m.Kind)
	if m.Through && m.Kind == authority.KindMove {
		what += " through the authority"
	}
	c.note(what)
	if (r.Err() == nil) != (r.State == authority.StateTaken) || r.SplitRisk == r.Quorum {
		c.fail("(receipt) %+v", r)
	}
	for _, h := range r.Hosts {
		if took := w.named(h.Host).took(d); h.Receipt != nil && !took || r.State == authority.StateTaken && !took {
			c.fail("(receipt) %s of %s took %s: %t; %+v", r.State, h.Host, d, took, r)
		}
	}
	if r.State == authority.StateTaken && !w.named(m.To).took(d) {
		c.fail("(receipt) taken and %s does not hold %s", m.To, d)
	}
}

func (h *host) took(d *doc) bool { return d.holders>>h.index&1 == 1 }

func (d *doc) String() string {
	if d == nil {
		return "nothing"
	}
	return fmt.Sprintf("document %d (generation %d by %s)", d.id, d.snap.Generation(), d.owner.Mover)
}
