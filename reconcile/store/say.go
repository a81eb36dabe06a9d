package store

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"stado.internal/stado/fleet"
)

func sayCondition(p part) string {
	switch {
	case p.missing():
		return "is missing"
	case p.foreign:
		return p.cause.Error()
	}
	return fmt.Sprintf("is damaged (%v)", p.cause)
}

func sayForeign(s *fleet.Snapshot, held Held) error {
	if s.Generation() != held.Generation {
		return fmt.Errorf("holds generation %d where %s names generation %d", s.Generation(), HeldFile, held.Generation)
	}
	return fmt.Errorf("holds generation %d with digest %s where %s names digest %s", s.Generation(), s.Digest, HeldFile, held.Digest)
}

func sayCurrentDamaged(r reading, slot string, p part, st state) string {
	path := r.path(slot)
	if other := otherSlot(slot); st.Snapshot == nil {
		return fmt.Sprintf("%s %s and %s %s: nothing is served until the authority answers with generation %d or a higher one, which writes the file anew",
			path, sayCondition(p), r.path(other), sayCondition(r.slots[other]), st.Held.Generation)
	}
	return fmt.Sprintf("%s %s: generation %d from %s is served in its place and nothing below generation %d is admitted; the next answer of the authority writes the file anew",
		path, sayCondition(p), st.Snapshot.Generation(), st.slot, st.Held.Generation)
}

func sayPreviousDamaged(path string, p part, st state) string {
	return fmt.Sprintf("%s, the previous registry, %s: generation %d is served from %s as before; the next answer of the authority writes the file anew",
		path, sayCondition(p), st.Snapshot.Generation(), st.slot)
}

func sayAnchorDamaged(r reading, st state) string {
	fence := "it"
	if st.Held.Generation > st.Snapshot.Generation() {
		fence = fmt.Sprintf("generation %d, which %s names,", st.Held.Generation, r.path(LogFile))
	}
	return fmt.Sprintf("%s %s: the newest whole copy, generation %d from %s, is served and nothing below %s is admitted; the next answer of the authority writes the file anew",
		r.path(HeldFile), sayCondition(r.anchor), st.Snapshot.Generation(), st.slot, fence)
}

func sayNothingWhole(r reading, st state) string {
	var parts []string
	for _, f := range []struct {
		name string
		part part
	}{{HeldFile, r.anchor}, {SlotA, r.slots[SlotA]}, {SlotB, r.slots[SlotB]}} {
		if f.part.cause != nil {
			parts = append(parts, r.path(f.name)+" "+sayCondition(f.part))
		}
	}
	if st.Held.Generation > 0 {
		return fmt.Sprintf("%s: nothing is served until the authority answers with generation %d, which %s names, or a higher one, which writes the files anew",
			strings.Join(parts, ", "), st.Held.Generation, r.path(LogFile))
	}
	return strings.Join(parts, ", ") + ": nothing is held, so the next answer of the authority is admitted whatever its generation; compare it with the generation that other hosts hold"
}

func sayWriteFailed(dir string, cause error, wanted fleet.Generation, st state) string {
	var kept string
	switch g := st.Snapshot.Generation(); g {
	case 0:
		kept = fmt.Sprintf("generation %d is not adopted and nothing is served", wanted)
	case wanted: // the failure came behind a rename, or only the observed commit was to change
		kept = fmt.Sprintf("generation %d is held, and the change of its record may not outlive a power cut", wanted)
	default:
		kept = fmt.Sprintf("generation %d is not adopted and generation %d is held as before", wanted, g)
	}
	return fmt.Sprintf("%v; %s; the write is tried again on every refresh (make room or permission for this host under %s)", cause, kept, dir)
}

func sayLogFailed(path string, cause error, missing int) string {
	return fmt.Sprintf("cannot append to %s: %v; the registry itself is held, and %d admission(s) that the log lacks are added with the next one", path, cause, missing)
}

func sayLinesBad(path string, bad []int) error {
	if len(bad) == 1 {
		return fmt.Errorf("%s: line %d cannot be read", path, bad[0])
	}
	return fmt.Errorf("%s: line %d and %d more cannot be read", path, bad[0], len(bad)-1)
}

func sayUnreadable(path string, cause error) error {
	return fmt.Errorf("this host's last-known-good copy cannot be read: %s: %w", path, cause)
}

func saySuspended(generation fleet.Generation, s Suspension) error {
	until := ""
	if s.Until != nil {
		until = ", until " + s.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Errorf("generation %d is not adopted: %w on this host since %s%s: %s (end it: stado agent resume)",
		generation, ErrSuspended, s.Since.UTC().Format(time.RFC3339), until, s.Reason)
}

func saySuspensionDamaged(path string) string {
	return path + " cannot be read, and may have said so"
}

// ErrOutdated is wrapped by a write that would rest on what is not held any more. Look at what is held now and decide again.
var ErrOutdated = errors.New("another process has written the registry store since")

// ErrFenced is wrapped by every refusal of [Store.Put] to hold less than it holds.
var ErrFenced = errors.New("the store never goes back")

func sayLower(offered, held fleet.Generation) error {
	return fmt.Errorf("service directory rollback rejected: generation %d < %d: %w", offered, held, ErrFenced)
}

func sayReused(generation fleet.Generation, held, offered string) error {
	return fmt.Errorf("generation %d reused: held %s, offered %s: %w", generation, held, offered, ErrFenced)
}
