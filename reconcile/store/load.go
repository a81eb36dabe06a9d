package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"stado.internal/stado/fleet"
)

// Rules of the blockers of a store.
const (
	RuleWrite   = "STADO-STORE-001" // a write failed; what was held still is
	RuleSlot    = "STADO-STORE-002" // a slot is damaged
	RuleAnchor  = "STADO-STORE-003" // held.json is damaged or missing, the newest whole slot stands in for it
	RuleNothing = "STADO-STORE-004" // something was held here and no document of it is whole
	RuleLog     = "STADO-STORE-005" // the journal of admissions cannot be kept
)

// Blocker is something wrong with the store that a person should know of. It stands until the store is whole again.
type Blocker struct {
	Rule     string    `json:"rule"`
	Sentence string    `json:"sentence"`
	Since    time.Time `json:"since"`
}

// View is what a store holds. It is a value: it does not follow later writes.
type View struct {
	Held     Held            // zero when nothing is held
	Snapshot *fleet.Snapshot // what may be served; nil when nothing is whole. Below Held when the current slot is damaged
	Blockers []Blocker
}

// part is one file as it was read. A file that is not there has [fs.ErrNotExist] as its cause.
type part struct {
	held    *Held
	snap    *fleet.Snapshot // nil also for a whole slot that was not decoded
	cause   error           // why it cannot be used
	foreign bool            // it is whole, but not what the anchor names
}

func (p part) missing() bool { return errors.Is(p.cause, fs.ErrNotExist) }

// reading is the whole folder as it was read.
type reading struct {
	dir    string
	raw    []byte // of the anchor
	anchor part
	slots  map[string]part
	logged bool      // the journal is not empty, so an anchor was once there. Read only where the anchor cannot be used, as is floor
	floor  Admission // the newest that the journal names; zero when it names none
	now    time.Time
}

// readAttempts bounds how often [Read] starts again because the agent wrote between two of its reads.
const readAttempts = 10

// Read looks at the store in dir without changing anything, whether or not an agent writes there at the same time. It fails only when
// the folder cannot be read.
func Read(dir string) (View, error) {
	if _, err := os.ReadDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return View{}, fmt.Errorf("cannot read the registry store: %w", err)
	}
	var v View
	for range readAttempts {
		before, _ := os.ReadFile(filepath.Join(dir, HeldFile))
		v = load(dir).decide().View
		if after, _ := os.ReadFile(filepath.Join(dir, HeldFile)); bytes.Equal(before, after) {
			break
		}
	}
	return v, nil
}

func load(dir string) reading {
	r := reading{dir: dir, slots: map[string]part{}, now: time.Now()}
	var err error
	if r.raw, err = os.ReadFile(filepath.Join(dir, HeldFile)); err != nil {
		r.anchor.cause = unwrapPath(err)
	} else {
		r.anchor.held, r.anchor.cause = decodeHeld(r.raw)
	}
	r.loadSlots()
	if r.anchor.held == nil {
		raw, err := os.ReadFile(filepath.Join(dir, LogFile))
		r.logged = len(raw) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
		r.floor = parseLog(raw).last()
	}
	return r
}

// loadSlots reads both slots, and decodes the one that the anchor names; the other one only when it may have to stand in: decoding a large
// registry is most of what a start takes.
func (r *reading) loadSlots() {
	name, other := SlotA, SlotB
	if r.anchor.held != nil {
		name, other = r.anchor.held.Slot, otherSlot(r.anchor.held.Slot)
	}
	var raw []byte
	var p part
	var checking sync.WaitGroup
	checking.Go(func() {
		var err error
		if raw, err = os.ReadFile(r.path(other)); err != nil {
			p.cause = unwrapPath(err)
		} else {
			p.cause = checkSlot(raw)
		}
	})
	if raw, err := os.ReadFile(r.path(name)); err != nil {
		r.slots[name] = part{cause: unwrapPath(err)}
	} else {
		snap, err := decodeSlot(raw)
		r.slots[name] = part{snap: snap, cause: err}
	}
	checking.Wait()
	if p.cause == nil && (r.anchor.held == nil || r.current().cause != nil) {
		p.snap, p.cause = decodeSlot(raw)
	}
	r.slots[other] = p
}

// current is the slot that the anchor names, with a cause when it is not what the anchor says.
func (r reading) current() part {
	p, held := r.slots[r.anchor.held.Slot], *r.anchor.held
	if p.cause == nil && (p.snap.Generation() != held.Generation || p.snap.Digest != held.Digest) {
		p.foreign = true
		p.cause = sayForeign(p.snap, held)
	}
	return p
}

// unfinished reports that the only trace is one slot: the very first admission ended before it was anchored. It was never served, so
// nothing is lost when it is offered again.
func (r reading) unfinished() bool {
	return r.anchor.missing() && !r.logged && r.slots[SlotA].missing() != r.slots[SlotB].missing()
}

// unwrapPath drops the path from an error of the file system: the sentence around it names the file already.
func unwrapPath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// state is what a reading amounts to.
type state struct {
	View
	slot string // the file that Snapshot was read from; empty when there is none
	lost bool   // there was an anchor once and there is none: what it promised is not known
}

// decide is the rule of what may be served and what is the fence. It is pure.
func (r reading) decide() state {
	if r.anchor.held == nil {
		return r.withoutAnchor()
	}
	held := *r.anchor.held
	st := state{View: View{Held: held}}
	current := r.current()
	if current.cause == nil {
		st.slot, st.Snapshot = held.Slot, observed(current.snap, held)
		if other := otherSlot(held.Slot); held.Previous != nil && r.slots[other].cause != nil {
			st.block(r, RuleSlot, sayPreviousDamaged(r.path(other), r.slots[other], st))
		}
		return st
	}
	// Whatever slot verifies was admitted once. One above the anchor was written by an admission that ended before the anchor was.
	if name := r.newest(held); name != "" {
		st.slot, st.Snapshot = name, r.slots[name].snap
		switch {
		case st.Snapshot.Generation() > held.Generation:
			st.Held = anchorOf(st.Snapshot, name)
			st.Held.Promised, st.Held.Incarnation, st.Held.Recovering = held.Promised, held.Incarnation, held.Recovering
		case st.Snapshot.Digest == held.Digest:
			st.Snapshot = observed(st.Snapshot, held)
		}
	}
	st.block(r, RuleSlot, sayCurrentDamaged(r, held.Slot, current, st))
	return st
}

// withoutAnchor stands the fence at the newest whole document, or above it where the journal names what this host admitted later. A
// whole slot is verified and a line of the journal is not, so at one generation the slot is believed.
func (r reading) withoutAnchor() state {
	st := state{}
	if r.unfinished() {
		return st
	}
	name := r.newest(Held{})
	if name != "" {
		st.slot, st.Snapshot = name, r.slots[name].snap
		st.Held = anchorOf(st.Snapshot, name)
	}
	if f := r.floor; f.Generation > st.Held.Generation {
		st.Held = Held{
			Slot: otherSlot(name), Commit: f.Commit, Generation: f.Generation, Epoch: st.Held.Epoch,
			Digest: f.Digest, Provenance: f.Provenance, UpdatedAt: f.At,
		}
	}
	switch {
	case name != "":
		st.block(r, RuleAnchor, sayAnchorDamaged(r, st))
	case r.logged || !r.anchor.missing() || !r.slots[SlotA].missing() || !r.slots[SlotB].missing():
		st.block(r, RuleNothing, sayNothingWhole(r, st))
	default:
		return st
	}
	st.lost, st.Held.Recovering = true, st.Held.Generation > 0
	return st
}

// newest is the name of the slot with the highest generation, empty when none verifies. A document that contradicts the anchor, the
// same generation with another digest, is none.
func (r reading) newest(held Held) string {
	best := ""
	for _, name := range []string{SlotA, SlotB} {
		s := r.slots[name].snap
		if s == nil || (s.Generation() == held.Generation && s.Digest != held.Digest) {
			continue
		}
		if best == "" || s.Generation() > r.slots[best].snap.Generation() ||
			(s.Generation() == r.slots[best].snap.Generation() && s.AdmittedAt.After(r.slots[best].snap.AdmittedAt)) {
			best = name
		}
	}
	return best
}

func (r reading) path(name string) string { return filepath.Join(r.dir, name) }

func (st *state) block(r reading, rule, sentence string) {
	st.Blockers = append(st.Blockers, Blocker{Rule: rule, Sentence: sentence, Since: r.now.UTC()})
}

// observed is the snapshot under the commit and provenance of the anchor, which may have moved on since the slot was written.
func observed(s *fleet.Snapshot, held Held) *fleet.Snapshot {
	moved := *s
	moved.Commit, moved.Provenance = held.Commit, held.Provenance
	return &moved
}

func anchorOf(s *fleet.Snapshot, slot string) Held {
	return Held{
		Slot: slot, Commit: s.Commit, Generation: s.Generation(), Epoch: s.Registry.Directory.Authority.Epoch,
		Digest: s.Digest, Provenance: s.Provenance, UpdatedAt: s.AdmittedAt,
	}
}

func otherSlot(name string) string {
	if name == SlotA {
		return SlotB
	}
	return SlotA
}
