package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
)

// damages are what disks, crashes and people do to a file.
var damages = map[string]func(t *testing.T, path string){
	"truncated": func(t *testing.T, path string) { write(t, path, read(t, path)[:len(read(t, path))/2]) },
	"flipped": func(t *testing.T, path string) {
		raw := read(t, path)
		raw[len(raw)/3] ^= 0x10
		write(t, path, raw)
	},
	"empty":   func(t *testing.T, path string) { write(t, path, nil) },
	"zeroed":  func(t *testing.T, path string) { write(t, path, make([]byte, len(read(t, path)))) },
	"garbage": func(t *testing.T, path string) { write(t, path, []byte("\x00\xffnot a record")) },
	"another": func(t *testing.T, path string) { write(t, path, []byte(`{"checksum":""}`)) },
	"missing": func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	},
	"folder": func(t *testing.T, path string) {
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
	},
}

// TestDamage starts on a store that holds generation 42 in slot B above 41 in slot A, damages files in every way, and asks: what is
// served, what is the fence, is it said, and does the confirmed document heal it.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		files  []string
		served fleet.Generation // 0: nothing
		fence  fleet.Generation
		rule   string
		says   string
	}{
		{[]string{HeldFile}, 42, 42, RuleAnchor, "the newest whole copy, generation 42 from slot-b.json, is served and nothing below it is admitted"},
		{[]string{SlotB}, 41, 42, RuleSlot, "generation 41 from slot-a.json is served in its place and nothing below generation 42 is admitted"},
		{[]string{SlotA}, 42, 42, RuleSlot, "generation 42 is served from slot-b.json as before"},
		{[]string{HeldFile, SlotB}, 41, 42, RuleAnchor, "the newest whole copy, generation 41 from slot-a.json, is served and nothing below generation 42, which"},
		{[]string{HeldFile, SlotA}, 42, 42, RuleAnchor, "the newest whole copy, generation 42 from slot-b.json, is served"},
		{[]string{SlotB, SlotA}, 0, 42, RuleSlot, "nothing is served until the authority answers with generation 42"},
		{[]string{HeldFile, SlotA, SlotB}, 0, 42, RuleNothing, "nothing is served until the authority answers with generation 42, which"},
	} {
		for how, damage := range damages {
			t.Run(strings.Join(c.files, "+")+"/"+how, func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, dir)
				put(t, s, snapshot(41, "x"))
				put(t, s, snapshot(42, "x"))
				for _, f := range c.files {
					damage(t, filepath.Join(dir, f))
				}
				s = open(t, dir)
				checkDamaged(t, s, c.served, c.fence, c.rule, filepath.Join(dir, c.files[0]), c.says)
				if v, err := Read(dir); err != nil || v.Snapshot.Generation() != c.served || len(v.Blockers) != 1 {
					t.Errorf("a reader sees %+v, %v", v, err)
				}
				if how == "folder" {
					return // a rename cannot replace a folder: for a person to mend
				}
				put(t, s, snapshot(c.fence, "x"))
				whole(t, s, snapshot(c.fence, "x"))
				put(t, s, snapshot(43, "x"))
				whole(t, s, snapshot(43, "x"))
			})
		}
	}
}

// TestDamagedJournal loses the last witness too: the fence stands as high as anything whole still says.
func TestDamagedJournal(t *testing.T) {
	for name, c := range map[string]struct {
		journal       func(lines []byte) []byte
		files         []string
		served, fence fleet.Generation
		rule, says    string
	}{
		"last line":  {func(b []byte) []byte { return b[:len(b)-9] }, []string{HeldFile, SlotA, SlotB}, 0, 41, RuleNothing, "answers with generation 41, which"},
		"no newline": {func(b []byte) []byte { return b[:len(b)-1] }, []string{HeldFile, SlotB}, 41, 42, RuleAnchor, "nothing below generation 42, which"},
		"behind":     {func(b []byte) []byte { return b[:bytes.IndexByte(b, '\n')+1] }, []string{HeldFile}, 42, 42, RuleAnchor, "generation 42 from slot-b.json, is served and nothing below it"},
		"a slot":     {func([]byte) []byte { return []byte("lost\n") }, []string{HeldFile, SlotB}, 41, 41, RuleAnchor, "generation 41 from slot-a.json, is served and nothing below it"},
		"all":        {func([]byte) []byte { return []byte("lost\n") }, []string{HeldFile, SlotA, SlotB}, 0, 0, RuleNothing, "nothing is held"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			put(t, s, snapshot(41, "x"))
			put(t, s, snapshot(42, "x"))
			write(t, filepath.Join(dir, LogFile), c.journal(read(t, filepath.Join(dir, LogFile))))
			for _, f := range c.files {
				write(t, filepath.Join(dir, f), []byte("lost"))
			}
			s = open(t, dir)
			checkDamaged(t, s, c.served, c.fence, c.rule, filepath.Join(dir, HeldFile), c.says)
			put(t, s, snapshot(max(c.fence, 1), "x"))
			whole(t, s, snapshot(max(c.fence, 1), "x"))
		})
	}
}

func checkDamaged(t *testing.T, s *Store, served, fence fleet.Generation, rule, path, says string) {
	t.Helper()
	if g := s.Snapshot().Generation(); g != served {
		t.Errorf("generation %d is served, want %d", g, served)
	}
	held, _ := s.Held()
	if held.Generation != fence {
		t.Errorf("the fence is at %d, want %d", held.Generation, fence)
	}
	b := s.Blockers()
	if len(b) != 1 || b[0].Rule != rule || !strings.Contains(b[0].Sentence, path) || !strings.Contains(b[0].Sentence, says) {
		t.Errorf("blockers %+v, want %s naming %s and saying %q", b, rule, path, says)
	}
	if !s.Damaged() {
		t.Error("a damaged store calls itself whole")
	}
	if fence == 0 {
		return
	}
	for _, snap := range []*fleet.Snapshot{snapshot(fence-1, "x"), snapshot(fence, "y")} {
		if err := s.Put(snap); !errors.Is(err, ErrFenced) {
			t.Errorf("generation %d was put below the fence: %v", snap.Generation(), err)
		}
	}
}

// TestEveryFlip flips every bit of every record: none may read as something else.
func TestEveryFlip(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, snapshot(41, "x"))
	put(t, s, snapshot(42, "x"))
	for name, reads := range map[string]func([]byte) error{
		HeldFile: func(raw []byte) error { _, err := decodeHeld(raw); return err },
		SlotB:    func(raw []byte) error { _, err := decodeSlot(raw); return err },
	} {
		raw := read(t, filepath.Join(dir, name))
		if err := reads(raw); err != nil {
			t.Fatal(err)
		}
		for i := range len(raw) * 8 {
			bad := bytes.Clone(raw)
			bad[i/8] ^= 1 << (i % 8)
			if reads(bad) == nil {
				t.Errorf("%s reads with bit %d of byte %d flipped: %q became %q", name, i%8, i/8, raw[i/8], bad[i/8])
			}
		}
	}
}

// TestRestoredFiles covers a backup put back file by file: each is whole, they do not belong together.
func TestRestoredFiles(t *testing.T) {
	build := func(t *testing.T, upTo fleet.Generation) map[string][]byte {
		dir := t.TempDir()
		s := open(t, dir)
		for g := fleet.Generation(40); g <= upTo; g++ {
			put(t, s, snapshot(g, "x"))
		}
		return map[string][]byte{HeldFile: read(t, filepath.Join(dir, HeldFile)), SlotA: read(t, filepath.Join(dir, SlotA)), SlotB: read(t, filepath.Join(dir, SlotB))}
	}
	for name, c := range map[string]struct {
		old           []string // files of generation 41, the others are of generation 43
		served, fence fleet.Generation
	}{
		"anchor": {[]string{HeldFile}, 43, 43}, // it names generation 41 in slot B, which holds 43 by now
		"slot":   {[]string{SlotB}, 42, 43},    // slot B holds 41, slot A 42
	} {
		t.Run(name, func(t *testing.T) {
			old, now, dir := build(t, 41), build(t, 43), t.TempDir()
			for f := range now {
				raw := now[f]
				if slices.Contains(c.old, f) {
					raw = old[f]
				}
				write(t, filepath.Join(dir, f), raw)
			}
			s := open(t, dir)
			held, _ := s.Held()
			if g := s.Snapshot().Generation(); g != c.served || held.Generation != c.fence || !s.Damaged() {
				t.Errorf("generation %d is served under a fence at %d, want %d and %d", g, held.Generation, c.served, c.fence)
			}
			put(t, s, snapshot(43, "x"))
			whole(t, s, snapshot(43, "x"))
		})
	}
}

// TestContradictingSlot covers a whole slot that would give one generation a second content: it is not served.
func TestContradictingSlot(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, snapshot(41, "x"))
	put(t, s, snapshot(42, "x"))
	other, err := encodeSlot(snapshot(42, "y"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, SlotB), bytes.Join(other, nil))
	s = open(t, dir)
	checkDamaged(t, s, 41, 42, RuleSlot, filepath.Join(dir, SlotB), "holds generation 42 with digest "+snapshot(42, "y").Digest)
	put(t, s, snapshot(42, "x"))
	whole(t, s, snapshot(42, "x"))
}

// FuzzSlot feeds arbitrary bytes: a slot either verifies, and then its document is what its digest says, or is refused.
func FuzzSlot(f *testing.F) {
	parts, err := encodeSlot(snapshot(42, "x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Join(parts, nil))
	f.Add([]byte(`{"document":{},"checksum":""}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := decodeSlot(raw); err == nil && (digest(s.Document) != s.Digest || s.Generation() == 0) {
			t.Errorf("accepted %q", raw)
		}
	})
}
