package source

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// one gives the only file of the store that matches.
func one(t *testing.T, store, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(store, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v %v", pattern, found, err)
	}
	return found[0]
}

func put(t *testing.T, file, content string) {
	t.Helper()
	_ = os.Chmod(file, 0o600) // packs are read-only
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, file string, keep func(int64) int64) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(file, 0o600), os.Truncate(file, keep(info.Size()))); err != nil {
		t.Fatal(err)
	}
}

const mirrorRef = "refs/stado/remotes/origin/main"

// Each case damages a copy of one of two stores: one that has all of the remote, so that reading meets the damage, or one that lacks
// the last commit, so that fetching does.
func TestDamagedStoresAreReplaced(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	held := r.commit("1", registry(1))
	behind := poller(t, r.dir)
	poll(t, behind, "")
	next := r.commit("2", generation(2))
	whole := poller(t, r.dir)
	poll(t, whole, "")
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, store string)
		aside  bool // the damaged store is kept for a look
		fetch  bool // the store lacks the last commit
	}{
		{"deleted", func(t *testing.T, s string) { _ = os.RemoveAll(s) }, false, false},
		{"empty directory", func(t *testing.T, s string) { _ = os.RemoveAll(s); _ = os.Mkdir(s, 0o700) }, false, false},
		{"empty ref", func(t *testing.T, s string) { put(t, filepath.Join(s, mirrorRef), "") }, false, true},
		{"garbage in the ref", func(t *testing.T, s string) { put(t, filepath.Join(s, mirrorRef), "nonsense\n") }, true, true},
		{"ref to an absent object", func(t *testing.T, s string) {
			put(t, filepath.Join(s, mirrorRef), strings.Repeat("12", 20)+"\n")
		}, true, true},
		{"ref deleted", func(t *testing.T, s string) { _ = os.Remove(filepath.Join(s, mirrorRef)) }, false, true},
		{"stray lock files", func(t *testing.T, s string) {
			put(t, filepath.Join(s, mirrorRef+".lock"), "")
			put(t, filepath.Join(s, "packed-refs.lock"), "")
			put(t, filepath.Join(s, "objects/pack/tmp_pack_1"), "rest of a killed fetch")
		}, false, true},
		{"empty pack", func(t *testing.T, s string) { cut(t, one(t, s, "objects/pack/*.pack"), func(int64) int64 { return 0 }) }, true, false},
		{"cut pack", func(t *testing.T, s string) {
			cut(t, one(t, s, "objects/pack/*.pack"), func(n int64) int64 { return n / 2 })
		}, true, false},
		{"cut pack, before a fetch", func(t *testing.T, s string) {
			cut(t, one(t, s, "objects/pack/*.pack"), func(n int64) int64 { return n / 2 })
		}, true, true},
		{"flipped bytes", func(t *testing.T, s string) {
			p := one(t, s, "objects/pack/*.pack")
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			for i := 40; i < len(data)-20; i += 7 {
				data[i] ^= 0xff
			}
			put(t, p, string(data))
		}, true, false},
		{"empty index", func(t *testing.T, s string) { cut(t, one(t, s, "objects/pack/*.idx"), func(int64) int64 { return 0 }) }, true, false},
		{"cut index", func(t *testing.T, s string) {
			cut(t, one(t, s, "objects/pack/*.idx"), func(n int64) int64 { return n / 2 })
		}, true, false},
		{"index missing", func(t *testing.T, s string) { _ = os.Remove(one(t, s, "objects/pack/*.idx")) }, true, false},
		{"pack missing", func(t *testing.T, s string) { _ = os.Remove(one(t, s, "objects/pack/*.pack")) }, true, false},
		{"borrowed objects", func(t *testing.T, s string) {
			_ = os.Mkdir(filepath.Join(s, "objects/info"), 0o700)
			put(t, filepath.Join(s, "objects/info/alternates"), "/somewhere/objects\n")
		}, true, true},
		{"a file instead of a store", func(t *testing.T, s string) { _ = os.RemoveAll(s); put(t, s, "x") }, true, false},
		{"planted shallow file", func(t *testing.T, s string) { put(t, filepath.Join(s, "shallow"), strings.Repeat("12", 20)+"\n") }, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			from := whole
			if tc.fetch {
				from = behind
			}
			opts := from.opts
			opts.Store = filepath.Join(t.TempDir(), "registry.git")
			if err := os.CopyFS(opts.Store, os.DirFS(from.opts.Store)); err != nil {
				t.Fatal(err)
			}
			tc.damage(t, opts.Store)
			o := poll(t, New(opts), held)
			if !o.Descends || !slices.Equal(commits(o), []string{next}) || o.Steps[0].Generation != 2 {
				t.Errorf("after the damage: %+v", o)
			}
			_, err := os.Lstat(opts.Store + suffixDamaged)
			if aside := err == nil; aside != tc.aside {
				t.Errorf("moved aside: %v, want %v", aside, tc.aside)
			}
			left, _ := filepath.Glob(filepath.Join(opts.Store, "objects/pack/tmp_*"))
			if len(left) > 0 {
				t.Errorf("left in the store: %v", left)
			}
		})
	}
}

// The damage comes while the agent runs, and only a later commit needs what is broken.
func TestDamageUnderARunningAgent(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	held := r.commit("1", registry(1))
	g := poller(t, r.dir)
	poll(t, g, "")
	cut(t, one(t, g.opts.Store, "objects/pack/*.pack"), func(n int64) int64 { return n / 2 })
	if o := poll(t, g, ""); !o.Unchanged {
		t.Errorf("what is known needs no store: %+v", o)
	}
	next := r.commit("2", generation(2))
	if o := poll(t, g, held); !slices.Equal(commits(o), []string{next}) || o.Steps[0].Findings.Refuses() {
		t.Errorf("%+v", o)
	}
	if err := os.RemoveAll(g.opts.Store); err != nil {
		t.Fatal(err)
	}
	if o := poll(t, g, held); !o.Unchanged {
		t.Errorf("%+v", o)
	}
	if _, err := os.Stat(g.opts.Store); err != nil {
		t.Errorf("a deleted store was not cloned anew: %v", err)
	}
}

func TestOneFetcherPerStore(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("1", registry(1))
	g := poller(t, r.dir)
	unlock, err := New(g.opts).lock()
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Poll(t.Context(), Anchor{})
	if kindOf(err) != KindBusy || !strings.Contains(err.Error(), "another process uses the store "+g.opts.Store) {
		t.Errorf("error is %v", err)
	}
	unlock()
	poll(t, g, "")
}

func TestManyPacksAreReplaced(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	held := r.commit("1", registry(1))
	g := poller(t, r.dir)
	poll(t, g, "")
	for i := range 2 {
		r.commit("n", generation(2+i))
		poll(t, g, held)
	}
	if n := countPacks(g.opts.Store); n != 3 || g.packs != 3 {
		t.Fatalf("%d packs, known %d", n, g.packs)
	}
	g.packs = maxPacks + 1
	if o := poll(t, g, held); !o.Unchanged {
		t.Errorf("%+v", o)
	}
	if n := countPacks(g.opts.Store); n != 1 || g.packs != 1 {
		t.Errorf("%d packs after the replacement, known %d", n, g.packs)
	}

	// With news at every poll it cannot wait for a quiet one.
	before := r.git("rev-parse", "HEAD")
	next := r.commit("n", generation(4))
	g.packs = fullPacks + 1
	if o := poll(t, g, before); strings.Join(commits(o), " ") != next {
		t.Errorf("%+v", o)
	}
	if n := countPacks(g.opts.Store); n != 1 || g.packs != 1 {
		t.Errorf("%d packs after the replacement of a full store, known %d", n, g.packs)
	}
	r.commit("last", generation(9))
	if o := poll(t, g, held); len(o.Steps) != 4 {
		t.Errorf("%d steps", len(o.Steps))
	}
}

// At every point at which the process may die, the next start reads the registry all the same.
func TestCrashesBetweenChanges(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("1", registry(1))
	crash := errors.New("crash")
	for _, point := range []string{FaultClone, FaultPlace, FaultAside, FaultFetch} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			g := poller(t, r.dir)
			if point == FaultAside || point == FaultFetch {
				poll(t, g, "")
				cut(t, one(t, g.opts.Store, "objects/pack/*.pack"), func(n int64) int64 { return n / 2 })
			}
			opts := g.opts
			opts.Fault = func(p string) error {
				if p == point {
					return crash
				}
				return nil
			}
			if _, err := New(opts).Poll(t.Context(), Anchor{}); !errors.Is(err, crash) {
				t.Fatalf("error is %v", err)
			}
			if o := poll(t, New(g.opts), ""); len(o.Steps) != 1 {
				t.Errorf("%+v", o)
			}
			for _, s := range []string{suffixNew, suffixOld} {
				if _, err := os.Lstat(g.opts.Store + s); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("left behind: %s", s)
				}
			}
		})
	}
}

func TestStoreDirectoryErrors(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("1", registry(1))
	g := poller(t, r.dir)
	g.opts.Store = filepath.Join(t.TempDir(), "absent", "registry.git")
	_, err := g.Poll(t.Context(), Anchor{})
	if kindOf(err) != KindPermission || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("error is %v", err)
	}
}

// A full disk leaves nothing behind that would keep it full, and is over as soon as there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	r := newRepo(t)
	held := r.commit("1", registry(1))
	g := poller(t, r.dir)
	g.opts.Store = filepath.Join(disk, "registry.git")
	poll(t, g, "")
	noise := make([]byte, 900<<10) // does not compress, and passes the gates
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	big := r.commit("2", map[string]string{"notes.bin": string(noise), "generation.cue": generation(2)["generation.cue"]})
	_, err := g.Poll(t.Context(), Anchor{Commit: held})
	if kindOf(err) != KindNoSpace || !strings.Contains(err.Error(), "(free space on the disk that holds the store)") {
		t.Fatalf("error is %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(g.opts.Store, "objects/pack/tmp_*"))
	if len(left) > 0 {
		t.Errorf("left in the store: %v", left)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	if o := poll(t, g, held); len(o.Steps) != 1 || o.Steps[0].Commit != big || o.Steps[0].Findings.Refuses() {
		t.Errorf("%+v", o)
	}
	if _, err := os.Lstat(g.opts.Store + suffixDamaged); err == nil {
		t.Error("the store was thrown away")
	}
}
