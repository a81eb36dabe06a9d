package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
)

// snapshot makes a whole snapshot; two of one generation differ when their words do. The document holds what a careless encoder would
// escape.
func snapshot(generation fleet.Generation, word string) *fleet.Snapshot {
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false)
	err := enc.Encode(map[string]any{
		"hosts":             map[string]any{"a1": map[string]any{"ssh": "stado@a1", "labels": map[string]string{"note": word + " <&>\u2028"}}},
		"service_directory": map[string]any{"generation": generation, "authority": map[string]any{"host": "a1", "epoch": 7}},
	})
	if err != nil {
		panic(err)
	}
	raw := bytes.TrimSpace(doc.Bytes())
	registry, err := fleet.Decode(raw)
	if err != nil {
		panic(err)
	}
	return &fleet.Snapshot{
		Commit: fmt.Sprintf("%040x", generation), Digest: digest(raw), Document: raw, Registry: registry,
		AdmittedAt: time.Unix(1_700_000_000+int64(generation), 0).UTC(), Provenance: fleet.ProvenanceFetched,
	}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, snap *fleet.Snapshot) {
	t.Helper()
	if err := s.Put(snap); err != nil {
		t.Fatal(err)
	}
}

// whole fails unless the store serves want, holds it as the anchor and has no blocker, now and after a start.
func whole(t *testing.T, s *Store, want *fleet.Snapshot) {
	t.Helper()
	for _, s := range []*Store{s, open(t, s.folder.Path)} {
		if diff := cmp.Diff(want, s.Snapshot()); diff != "" {
			t.Errorf("served (-want +got):\n%s", diff)
		}
		held, ok := s.Held()
		if !ok || held.Generation != want.Generation() || held.Digest != want.Digest || held.Commit != want.Commit {
			t.Errorf("held %+v, want generation %d", held, want.Generation())
		}
		if b := s.Blockers(); len(b) > 0 || s.Damaged() {
			t.Errorf("blockers %v", b)
		}
	}
}

func TestEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "registry")
	s := open(t, dir)
	if _, ok := s.Held(); ok || s.Snapshot() != nil || len(s.Blockers()) > 0 {
		t.Errorf("a new store holds %v with blockers %v", s.Snapshot(), s.Blockers())
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v", st, err)
	}
	if err := s.ObserveCommit("c"); err == nil {
		t.Error("a commit was observed with nothing held")
	}
}

func TestOpenUnusable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, nil); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("opened a file as a folder: %v", err)
	}
}

func TestPutAlternates(t *testing.T) {
	s := open(t, t.TempDir())
	var incarnation string
	for g := fleet.Generation(1); g <= 5; g++ {
		snap := snapshot(g, "x")
		put(t, s, snap)
		whole(t, s, snap)
		held, _ := s.Held()
		if want := []string{SlotB, SlotA}[g%2]; held.Slot != want {
			t.Errorf("generation %d is in %s, want %s", g, held.Slot, want)
		}
		if held.Epoch != 7 {
			t.Errorf("epoch %d", held.Epoch)
		}
		if g > 1 && (held.Incarnation != incarnation || held.Previous.Generation != g-1 || held.Previous.Slot == held.Slot) {
			t.Errorf("generation %d: incarnation %s after %s, previous %+v", g, held.Incarnation, incarnation, held.Previous)
		}
		incarnation = held.Incarnation
		for _, name := range []string{HeldFile, held.Slot, LogFile} {
			if st, err := os.Stat(filepath.Join(s.folder.Path, name)); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, st, err)
			}
		}
	}
	if incarnation == "" {
		t.Error("no incarnation")
	}
}

// TestOrder holds the order of a write: slot, anchor, journal, each synced before the next.
func TestOrder(t *testing.T) {
	var points []string
	s, err := Open(t.TempDir(), func(p string) error { points = append(points, p); return nil })
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, snapshot(1, "x"))
	points = nil
	put(t, s, snapshot(2, "x"))
	want := strings.Fields(`slot-b.json:create slot-b.json:write slot-b.json:sync slot-b.json:rename slot-b.json:sync-dir
		held.json:create held.json:write held.json:sync held.json:rename held.json:sync-dir
		admitted.jsonl:create admitted.jsonl:write admitted.jsonl:sync`)
	if diff := cmp.Diff(want, points); diff != "" {
		t.Error(diff)
	}
}

func TestPutNeverLowers(t *testing.T) {
	s := open(t, t.TempDir())
	held := snapshot(5, "x")
	put(t, s, held)
	for name, c := range map[string]struct {
		snap *fleet.Snapshot
		want string
	}{
		"lower":         {snapshot(4, "x"), "service directory rollback rejected: generation 4 < 5"},
		"reused":        {snapshot(5, "y"), "generation 5 reused: held " + held.Digest + ", offered " + snapshot(5, "y").Digest},
		"no generation": {snapshot(0, "x"), "has no generation"},
	} {
		err := s.Put(c.snap)
		if !errors.Is(err, ErrFenced) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	whole(t, s, held)
	put(t, s, held) // the same again is no step back
	whole(t, s, held)
}

// TestPutRefusesWhatWouldNotVerify covers a caller whose snapshot contradicts itself: it must not reach the disk.
func TestPutRefusesWhatWouldNotVerify(t *testing.T) {
	s := open(t, t.TempDir())
	held := snapshot(5, "x")
	put(t, s, held)
	wrongDigest, spaced, other := *snapshot(6, "x"), *snapshot(6, "x"), *snapshot(6, "x")
	wrongDigest.Digest = held.Digest
	spaced.Document = append([]byte(" "), spaced.Document...)
	spaced.Digest = digest(spaced.Document)
	other.Document, other.Digest = held.Document, held.Digest
	for name, snap := range map[string]*fleet.Snapshot{"digest": &wrongDigest, "not canonical": &spaced, "generation": &other} {
		if err := s.Put(snap); err == nil || !strings.Contains(err.Error(), snap.Commit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole(t, s, held)
}

func TestObserveCommit(t *testing.T) {
	s := open(t, t.TempDir())
	snap := snapshot(5, "x")
	handed := *snap
	handed.Commit, handed.Provenance = "", fleet.ProvenanceHandedOver
	put(t, s, &handed)
	if err := s.ObserveCommit("beef"); err != nil {
		t.Fatal(err)
	}
	moved := *snap
	moved.Commit = "beef" // and fetched, since the commit has arrived
	whole(t, s, &moved)
	if handed.Commit != "" {
		t.Error("a snapshot that was handed out has changed")
	}
	if list, err := s.Log(); err != nil || len(list) != 1 {
		t.Errorf("journal %v, %v", list, err)
	}
}

// TestPromiseOutlivesWrites holds that an admission does not forget what was promised to a mover.
func TestPromiseOutlivesWrites(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, snapshot(1, "x"))
	held, _ := s.Held()
	held.Promised = &authority.Promise{Generation: 9, Mover: "b2", Nonce: "n"}
	raw, err := held.encode()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, HeldFile), raw)
	s = open(t, dir)
	put(t, s, snapshot(2, "x"))
	if err := s.ObserveCommit("beef"); err != nil {
		t.Fatal(err)
	}
	now, _ := open(t, dir).Held()
	if diff := cmp.Diff(held.Promised, now.Promised); diff != "" || now.Incarnation != held.Incarnation {
		t.Error(diff, now.Incarnation)
	}
}

// TestNewerBuild holds that members which this build does not know do not look like damage.
func TestNewerBuild(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir), snapshot(3, "x"))
	for _, name := range []string{HeldFile, SlotA} {
		path := filepath.Join(dir, name)
		var members map[string]any
		if err := json.Unmarshal(read(t, path), &members); err != nil {
			t.Fatal(err)
		}
		members["invented_later"] = []int{1, 2}
		raw, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		if members["checksum"], err = sum(raw); err != nil {
			t.Fatal(err)
		}
		delete(members, "document")
		head, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		if name == SlotA { // the document goes in byte for byte
			head = slices.Concat(head[:len(head)-1], []byte(`,"document":`), snapshot(3, "x").Document, []byte("}"))
		}
		write(t, path, head)
	}
	whole(t, open(t, dir), snapshot(3, "x"))
}

func TestRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "registry")
	if v, err := Read(dir); err != nil || v.Snapshot != nil || len(v.Blockers) > 0 {
		t.Errorf("no folder: %+v, %v", v, err)
	}
	s := open(t, dir)
	put(t, s, snapshot(1, "x"))
	write(t, filepath.Join(dir, ".held.json.123.tmp"), []byte("being written"))
	v, err := Read(dir)
	if err != nil || cmp.Diff(v.Snapshot, snapshot(1, "x")) != "" || v.Held.Generation != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".held.json.123.tmp")); err != nil {
		t.Error("a reader removed what the writer is writing")
	}
}

// TestReadWhileWriting holds that a reader beside a writer never sees damage and never a generation fall.
func TestReadWhileWriting(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, snapshot(1, "x"))
	done := make(chan error, 1)
	go func() {
		for g := fleet.Generation(2); g <= 60; g++ {
			if err := s.Put(snapshot(g, "x")); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	var last fleet.Generation
	for {
		v, err := Read(dir)
		if err != nil || len(v.Blockers) > 0 || v.Snapshot.Generation() < last || v.Snapshot.Generation() != v.Held.Generation {
			t.Errorf("after generation %d: %+v, %v", last, v, err)
		}
		last = v.Snapshot.Generation()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func write(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
