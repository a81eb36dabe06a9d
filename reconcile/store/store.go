// Package store keeps what this host holds of the registry: the anchor, which says below what nothing is admitted, the last-known-good
// copy in two slots, and the journal of admissions. It needs neither git nor CUE, and whatever ends a write in the middle, the next
// start finds a whole document and an anchor that has not fallen.
//
// A write goes to the slot that is not served from, then to the anchor, then to the journal, each durable before the next begins.
package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/durable"
)

// Store writes one folder. An agent has one for as long as it runs, and a command that hands a registry over has another one beside it:
// a write takes the folder's lock and first takes over what somebody else has written since. Reading methods are safe for concurrent use,
// never wait for a write, and say what was there at the last write or [Store.Reload].
type Store struct {
	folder durable.Folder
	fault  func(point string) error

	writing sync.Mutex // one write at a time; guards journal and seen
	journal journal
	seen    []byte // the anchor's bytes that state comes from

	mu    sync.Mutex // guards what follows
	state state
	log   *Blocker // the journal cannot be kept
	// suspension is the content of SuspendedFile, whether or not its end has come.
	suspension *Suspension
}

// Open prepares the folder, sweeps what a killed writer left, reads and verifies. Damage is not an error: it is in [Store.Blockers].
// It fails only when the folder cannot be used at all. fault is for crash tests, see [durable.Folder.Fault]; nil in production.
func Open(dir string, fault func(point string) error) (*Store, error) {
	s := &Store{folder: durable.Folder{Path: dir, Fault: fault}, fault: fault}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot use the registry store: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot use the registry store: %w", err)
	}
	unlock, err := s.folder.Lock()
	if err != nil {
		return nil, fmt.Errorf("cannot use the registry store: %w", err)
	}
	err = s.folder.Sweep()
	if err == nil {
		s.takeOver(load(dir))
		err = s.lookAtSuspension()
	}
	if err := errors.Join(err, unlock()); err != nil {
		return nil, fmt.Errorf("cannot use the registry store %s: %w", dir, err)
	}
	return s, nil
}

// Reload takes over what another process has written, and reports whether there was something. The error names a file that cannot be
// read; what was known before stands.
func (s *Store) Reload() (changed bool, err error) {
	unlock, changed, err := s.exclusive()
	if err != nil {
		return false, sayUnreadable(s.folder.Path, err)
	}
	if r := load(s.folder.Path); !changed && r.anchor.cause != nil && !r.anchor.missing() {
		err = sayUnreadable(r.path(HeldFile), r.anchor.cause)
	}
	return changed, errors.Join(err, unlock())
}

// exclusive begins a write: nobody else writes until unlock, and what was written by others is known.
func (s *Store) exclusive() (unlock func() error, changed bool, err error) {
	s.writing.Lock()
	release, err := s.folder.Lock()
	if err != nil {
		s.writing.Unlock()
		return nil, false, err
	}
	if err := s.lookAtSuspension(); err != nil {
		s.writing.Unlock()
		return nil, false, errors.Join(err, release())
	}
	if raw, err := os.ReadFile(filepath.Join(s.folder.Path, HeldFile)); err == nil && !bytes.Equal(raw, s.seen) {
		// A file that is damaged, or put back, while this runs is found at the next start, and healed by the next write.
		if h, err := decodeHeld(raw); err == nil && !h.below(s.current().Held) {
			s.takeOver(load(s.folder.Path))
			changed = true
		}
	}
	return func() error {
		defer s.writing.Unlock()
		return release()
	}, changed, nil
}

// takeOver makes a reading what this store holds. The caller holds the folder's lock.
func (s *Store) takeOver(r reading) {
	s.seen = r.raw
	s.become(r.decide())
	s.journal = journal{}
	s.journal.open(s.folder, s.fault)
	if h := r.anchor.held; h != nil && (h.Generation > s.journal.last.Generation || h.Reset != nil) {
		s.journal.note(h.admission())
	}
	s.keepLog()
}

// Held is the anchor; ok is false when nothing is held. It may stand above [Store.Snapshot], or without one, when a slot is damaged.
func (s *Store) Held() (held Held, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Held, s.state.Held.Generation > 0
}

// Snapshot is what may be served, nil when nothing is.
func (s *Store) Snapshot() *fleet.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Snapshot
}

// Blockers lists what is wrong with the store, nothing when it is whole.
func (s *Store) Blockers() []Blocker {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := append([]Blocker(nil), s.state.Blockers...)
	if s.log != nil {
		out = append(out, *s.log)
	}
	return out
}

// Damaged reports whether the held registry should be written again, with [Store.Put], as soon as the authority confirms it.
func (s *Store) Damaged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.state.Blockers) > 0
}

// Put holds a snapshot: when it returns nil the snapshot is durable and is what [Store.Snapshot] returns. admitted says, oldest first,
// which generations were admitted on the way; nil stands for the snapshot's alone. A lower generation, or the same one with another
// digest, is refused with [ErrFenced]; the same generation and digest may be written again, which heals a damaged store. When another
// process has written since, nothing is done but to take that over, and the error is [ErrOutdated]: whoever admitted the snapshot did so
// against something else. While adoption is suspended nothing but what is held may be put, and the error is [ErrSuspended].
//
// A failure names the file, leaves what was held whole, and stands in [Store.Blockers] until a write succeeds.
func (s *Store) Put(snap *fleet.Snapshot, admitted ...Admission) error {
	return s.put(snap, nil, admitted)
}

// Accept is [Store.Put] for a snapshot whose commit does not descend from the held one, on a person's word: what is left, and the word, are
// noted in the anchor until another document is held, and in the journal.
func (s *Store) Accept(snap *fleet.Snapshot, reset Reset, admission Admission) error {
	admission.Reset = &reset
	return s.put(snap, &reset, []Admission{admission})
}

func (s *Store) put(snap *fleet.Snapshot, reset *Reset, admitted []Admission) (err error) {
	unlock, changed, err := s.exclusive()
	if err != nil {
		return s.failed(err, snap.Generation())
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if changed {
		return fmt.Errorf("cannot hold commit %s: %w", snap.Commit, ErrOutdated)
	}
	st := s.current()
	if err := fenced(st.Held, snap); err != nil {
		return err
	}
	if sus := s.Suspension(); sus != nil && (snap.Digest != st.Held.Digest || reset != nil) {
		return saySuspended(snap.Generation(), *sus)
	}
	slot := SlotA
	if st.slot != "" {
		slot = otherSlot(st.slot)
	}
	held := anchorOf(snap, slot)
	held.Promised, held.Incarnation, held.Recovering = st.Held.Promised, st.Held.Incarnation, st.Held.Recovering || st.lost
	if held.Reset = reset; reset == nil && snap.Digest == st.Held.Digest {
		held.Reset = st.Held.Reset
	}
	if p := st.Snapshot; p != nil {
		held.Previous = &Previous{Slot: st.slot, Commit: p.Commit, Generation: p.Generation(), Digest: p.Digest, Provenance: p.Provenance}
	}
	parts, err := encodeSlot(snap)
	if err != nil {
		return fmt.Errorf("cannot hold commit %s: %w", snap.Commit, err)
	}
	if err := s.folder.WriteParts(slot, parts, 0o600); err != nil {
		return s.failed(err, snap.Generation())
	}
	if err := s.anchor(&held); err != nil {
		return s.failed(err, snap.Generation())
	}
	s.become(state{View: View{Held: held, Snapshot: snap}, slot: slot})
	s.journal.note(admitted...)
	s.journal.note(held.admission())
	s.keepLog()
	return nil
}

// ObserveCommit moves the anchor to a descendant commit that carries the held document unchanged. Generation and digest stay.
func (s *Store) ObserveCommit(commit string) (err error) {
	if s.Damaged() {
		if snap := s.Snapshot(); snap != nil {
			moved := *snap
			moved.Commit, moved.Provenance = commit, fleet.ProvenanceFetched
			return s.Put(&moved) // refused when the snapshot is not the held document
		}
	}
	unlock, changed, err := s.exclusive()
	if err != nil {
		return s.failed(err, s.current().Held.Generation)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	st := s.current()
	if changed {
		return fmt.Errorf("cannot observe commit %s: %w", commit, ErrOutdated)
	}
	if st.Snapshot == nil {
		return errors.New("cannot observe a commit: nothing is held")
	}
	held := st.Held
	held.Commit, held.Provenance = commit, fleet.ProvenanceFetched
	if err := s.anchor(&held); err != nil {
		return s.failed(err, held.Generation)
	}
	s.become(state{View: View{Held: held, Snapshot: observed(st.Snapshot, held)}, slot: st.slot})
	return nil
}

// Promise keeps what was promised of a claim, or what it has come to. It is durable when the error is nil, and must be before anybody is
// told. A promise cannot be kept where nothing is held, nor by an anchor that does not know what it has promised before.
func (s *Store) Promise(p *authority.Promise) (err error) {
	unlock, changed, err := s.exclusive()
	if err != nil {
		return s.failed(err, s.current().Held.Generation)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	st := s.current()
	switch {
	case changed:
		return fmt.Errorf("cannot keep a promise: %w", ErrOutdated)
	case st.Held.Generation == 0 || st.lost || st.Held.Recovering:
		return errors.New("cannot keep a promise: this host has lost what it had promised")
	}
	held := st.Held
	held.Promised = p
	if err := s.anchor(&held); err != nil {
		return s.failed(err, held.Generation)
	}
	st.Held = held
	s.become(st)
	return nil
}

// Rejoin ends the recovery of a lost anchor: floor bounds what it had promised. It is durable when the error is nil.
func (s *Store) Rejoin(floor *authority.Promise) (err error) {
	unlock, changed, err := s.exclusive()
	if err != nil {
		return s.failed(err, s.current().Held.Generation)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	st := s.current()
	switch {
	case changed:
		return fmt.Errorf("cannot end the recovery: %w", ErrOutdated)
	case !st.Held.Recovering || st.lost:
		return errors.New("cannot end the recovery: this host holds nothing yet, or has lost nothing")
	}
	st.Held.Promised, st.Held.Recovering = floor, false
	if err := s.anchor(&st.Held); err != nil {
		return s.failed(err, st.Held.Generation)
	}
	s.become(st)
	return nil
}

// fenced is the belt below the fence: whatever a caller thinks it may adopt, the store does not go back.
func fenced(held Held, snap *fleet.Snapshot) error {
	switch g := snap.Generation(); {
	case g == 0:
		return fmt.Errorf("cannot hold commit %s: it has no generation: %w", snap.Commit, ErrFenced)
	case g < held.Generation:
		return sayLower(g, held.Generation)
	case g == held.Generation && snap.Digest != held.Digest:
		return sayReused(g, held.Digest, snap.Digest)
	}
	return nil
}

// anchor writes held.json.
func (s *Store) anchor(held *Held) error {
	if held.Incarnation == "" {
		held.Incarnation = rand.Text()
	}
	held.UpdatedAt = time.Now().UTC()
	raw, err := held.encode()
	if err != nil {
		return err
	}
	if err := s.folder.Write(HeldFile, raw, 0o600); err != nil {
		return err
	}
	s.seen = raw
	return nil
}

// failed takes the truth from the disk after a write that failed: a failure behind a rename leaves the new content in place, and the
// next write must not go to the slot that the anchor names by then.
func (s *Store) failed(cause error, wanted fleet.Generation) error {
	r := load(s.folder.Path)
	st := r.decide()
	s.seen = r.raw
	sentence := sayWriteFailed(s.folder.Path, cause, wanted, st)
	since := r.now.UTC()
	for _, b := range s.current().Blockers {
		if b.Rule == RuleWrite {
			since = b.Since
		}
	}
	st.Blockers = append(st.Blockers, Blocker{Rule: RuleWrite, Sentence: sentence, Since: since})
	s.become(st)
	return &WriteError{Sentence: sentence, Err: cause}
}

// WriteError is a write that failed: a full disk, a folder without permission. Sentence says what stands and what to do.
type WriteError struct {
	Sentence string
	Err      error
}

// Error is the sentence.
func (e *WriteError) Error() string { return e.Sentence }

// Unwrap is the failure of the file system.
func (e *WriteError) Unwrap() error { return e.Err }

func (s *Store) current() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Store) become(st state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = st
}

// keepLog brings the journal up to the anchor. A journal that cannot be written takes nothing back: it is a blocker, and the missing
// lines are tried again with the next.
func (s *Store) keepLog() {
	err := s.journal.keep()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.log = nil
		return
	}
	since := time.Now().UTC()
	if s.log != nil {
		since = s.log.Since
	}
	s.log = &Blocker{Rule: RuleLog, Sentence: sayLogFailed(s.journal.path(), err, len(s.journal.pending)), Since: since}
}
