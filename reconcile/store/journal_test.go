package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
)

// logged is the journal as a list of "generation commit subject".
func logged(t *testing.T, dir string) []string {
	t.Helper()
	list, err := ReadLog(dir)
	if err != nil {
		t.Error(err)
	}
	var out []string
	for _, a := range list {
		out = append(out, strings.TrimSpace(fmt.Sprint(a.Generation, " ", a.Subject)))
	}
	return out
}

func wantLog(t *testing.T, dir string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, logged(t, dir)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func admission(generation fleet.Generation, subject string) Admission {
	s := snapshot(generation, "x")
	return Admission{At: s.AdmittedAt, Generation: generation, Commit: s.Commit, Digest: s.Digest, Provenance: s.Provenance, Author: "A", Subject: subject}
}

func TestJournal(t *testing.T) {
	dir := t.TempDir()
	wantLog(t, dir)
	s := open(t, dir)
	put(t, s, snapshot(1, "x"))
	if err := s.Put(snapshot(4, "x"), admission(2, "two"), admission(3, "three"), admission(4, "four <&>")); err != nil {
		t.Fatal(err)
	}
	put(t, s, snapshot(4, "x"))
	s = open(t, dir)
	put(t, s, snapshot(5, "x"))
	wantLog(t, dir, "1", "2 two", "3 three", "4 four <&>", "5")
	list, err := s.Log()
	if err != nil || cmp.Diff(admission(3, "three"), list[2]) != "" {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestJournalTorn cuts the file at every length: the complete lines stand, the last admission is added again from the anchor, and the
// next goes on its own line.
func TestJournalTorn(t *testing.T) {
	build := func() (string, *Store) {
		dir := t.TempDir()
		s := open(t, dir)
		for g := fleet.Generation(1); g <= 2; g++ {
			if err := s.Put(snapshot(g, "x"), admission(g, "s")); err != nil {
				t.Fatal(err)
			}
		}
		return dir, s
	}
	dir, _ := build()
	raw := read(t, filepath.Join(dir, LogFile))
	first := bytes.IndexByte(raw, '\n') + 1
	for n := range len(raw) + 1 {
		write(t, filepath.Join(dir, LogFile), raw[:n])
		want := []string{"1 s", "2"} // the line is lost, the anchor is the witness
		switch {
		case n < first-1:
			want = want[1:]
		case n >= len(raw)-1:
			want = []string{"1 s", "2 s"}
		}
		open(t, dir)
		wantLog(t, dir, want...)
	}
	write(t, filepath.Join(dir, LogFile), raw[:len(raw)-5])
	put(t, open(t, dir), snapshot(3, "x"))
	wantLog(t, dir, "1 s", "2", "3")
}

func TestJournalUnreadable(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for g := fleet.Generation(1); g <= 3; g++ {
		put(t, s, snapshot(g, "x"))
	}
	path := filepath.Join(dir, LogFile)
	lines := bytes.SplitAfter(read(t, path), []byte{'\n'})
	lines[1][0] ^= 0xff
	write(t, path, bytes.Join(lines, nil))
	if list, err := ReadLog(dir); len(list) != 2 || err == nil || err.Error() != path+": line 2 cannot be read" {
		t.Errorf("%v, %v", list, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	put(t, s, snapshot(4, "x")) // the registry does not depend on the journal
	if b := s.Blockers(); len(b) != 1 || b[0].Rule != RuleLog || !strings.Contains(b[0].Sentence, path) {
		t.Errorf("blockers %v", b)
	}
	if _, err := ReadLog(dir); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a folder was read: %v", err)
	}
}

func TestJournalBounded(t *testing.T) {
	dir := t.TempDir()
	var lines bytes.Buffer
	for g := 1; g <= maxLines; g++ {
		fmt.Fprintf(&lines, "{\"generation\":%d,\"digest\":\"%d\"}\n", g, g)
	}
	write(t, filepath.Join(dir, LogFile), lines.Bytes())
	s := open(t, dir)
	put(t, s, snapshot(maxLines+1, "x"))
	put(t, s, snapshot(maxLines+2, "x"))
	for name, log := range map[string]func() ([]Admission, error){"file": s.Log, "after a start": open(t, dir).Log} {
		list, err := log()
		if err != nil || len(list) != keepLines+1 || list[0].Generation != maxLines+2-keepLines || list[keepLines].Generation != maxLines+2 {
			t.Errorf("%s: %d lines from %v: %v", name, len(list), list[:1], err)
		}
	}
}

// FuzzLog feeds arbitrary bytes: parsing ends, and what stands of the file is no more than the file.
func FuzzLog(f *testing.F) {
	f.Add([]byte("{\"generation\":1}\n{\"gener"))
	f.Add([]byte("\n\n\x00\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if l := parseLog(raw); l.ended > int64(len(raw)) || (l.torn != nil && l.ended == int64(len(raw))) {
			t.Errorf("%+v of %d bytes", l, len(raw))
		}
	})
}
