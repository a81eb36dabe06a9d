package reconcile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/store"
)

// TestFullDisk holds that a registry which cannot be held is not served, that the file is named, and that room heals it.
func TestFullDisk(t *testing.T) {
	base := first(41, "base")
	for _, file := range []string{store.SlotB, store.HeldFile} {
		for _, step := range []string{"create", "write", "sync", "rename", "sync-dir"} {
			t.Run(file+"/"+step, func(t *testing.T) {
				loopTest(t, base, base, func(b *bench) {
					b.start()
					b.wantAdopted(41)
					b.mu.Lock()
					b.fault = func(point string) error {
						if point == file+":"+step {
							return unix.ENOSPC
						}
						return nil
					}
					b.mu.Unlock()
					b.repo.set(func(r *repo) { r.tip = base.then("a") })
					b.pass(2 * refresh)
					b.wantAdopted()
					s := b.Status()
					if s.Phase != PhaseBackingOff || s.Served.Generation() != 41 || len(s.Refusals) != 1 || s.Refusals[0].Rule != store.RuleWrite ||
						!strings.Contains(s.Reason, filepath.Join(b.dir, file)) || !strings.Contains(s.Reason, "no space left on device") {
						t.Errorf("%+v", s)
					}
					b.mu.Lock()
					b.fault = nil
					b.mu.Unlock()
					b.pass(refresh)
					b.wantAdopted(42)
					b.wantStatus(`serving 0 ""`)
					list, err := b.opts.Store.Log()
					if err != nil || len(list) != 2 || list[1].Generation != 42 {
						t.Errorf("journal %+v, %v", list, err)
					}
				})
			})
		}
	}
}

// TestDamagedStore starts over damaged files. Without the authority the newest whole document is served under a blocker; the first
// answer heals the store, although the authority has nothing new.
func TestDamagedStore(t *testing.T) {
	base := first(41, "base")
	held := base.then("a")
	for _, c := range []struct {
		files  []string
		rule   string
		served fleet.Generation
	}{
		{[]string{store.HeldFile}, store.RuleAnchor, 42},
		{[]string{store.SlotB}, store.RuleSlot, 41},
		{[]string{store.SlotA}, store.RuleSlot, 42},
		{[]string{store.HeldFile, store.SlotB}, store.RuleAnchor, 41},
		{[]string{store.SlotA, store.SlotB}, store.RuleSlot, 0},
		{[]string{store.HeldFile, store.SlotA, store.SlotB}, store.RuleNothing, 0},
	} {
		t.Run(strings.Join(c.files, "+"), func(t *testing.T) {
			loopTest(t, base, held, func(b *bench) {
				if err := b.opts.Store.Put(snapshotOf(held)); err != nil {
					t.Fatal(err)
				}
				for _, f := range c.files {
					if err := os.Truncate(filepath.Join(b.dir, f), 20); err != nil {
						t.Fatal(err)
					}
				}
				b.make()
				b.repo.err = errRefused
				b.start()
				s := b.Status()
				if s.Served.Generation() != c.served || len(s.Refusals) != 1 || s.Refusals[0].Rule != c.rule || !strings.Contains(s.Refusals[0].Sentence, filepath.Join(b.dir, c.files[0])) {
					t.Errorf("%+v", s)
				}
				b.repo.set(func(r *repo) { r.err = nil })
				b.pass(refresh)
				b.wantStatus(`serving 0 ""`)
				if s := b.Status(); s.Served.Generation() != 42 {
					t.Errorf("generation %d is served", s.Served.Generation())
				}
				if v, err := store.Read(b.dir); err != nil || len(v.Blockers) > 0 || v.Held.Commit != held.id {
					t.Errorf("%+v, %v", v, err)
				}
			})
		})
	}
}

// TestFenceOutlivesDamage holds that a damaged document lowers nothing: what is served falls back, the fence does not.
func TestFenceOutlivesDamage(t *testing.T) {
	base := first(41, "base")
	held := base.then("a")
	loopTest(t, base, base, func(b *bench) {
		if err := errors.Join(b.opts.Store.Put(snapshotOf(held)), os.Truncate(filepath.Join(b.dir, store.SlotB), 20)); err != nil {
			t.Fatal(err)
		}
		b.make()
		b.start()
		b.wantAdopted(41)
		b.wantStatus(fmt.Sprintf(`serving 0 "" %s %s`, RuleRollback, store.RuleSlot))
		b.repo.set(func(r *repo) { r.tip = base.then("other") })
		b.pass(refresh)
		if s := b.Status(); s.Refusals[0].Rule != RuleReused {
			t.Errorf("%+v", s)
		}
	})
}
