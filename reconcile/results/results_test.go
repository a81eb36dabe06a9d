package results

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func key(s string) (k Key) {
	copy(k[:], s)
	return k
}

func save(t testing.TB, c *Cache) {
	t.Helper()
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
}

func holds(c *Cache, k, want string) bool {
	v, ok := c.Get(key(k))
	return ok && string(v) == want
}

// filled is a folder in which a program of version 1 has kept n values.
func filled(t testing.TB, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kept")
	c := Open(dir, "1")
	for i := range n {
		c.Put(key(fmt.Sprint(i)), fmt.Appendf(nil, "value %d", i))
	}
	save(t, c)
	return dir
}

func TestKept(t *testing.T) {
	dir := filled(t, 3)
	c := Open(dir, "1")
	for i := range 3 {
		if !holds(c, fmt.Sprint(i), fmt.Sprintf("value %d", i)) {
			t.Errorf("value %d is lost", i)
		}
	}
	if _, ok := c.Get(key("3")); ok {
		t.Error("a value that nobody put")
	}
	info, err := os.Stat(filepath.Join(dir, File))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestNotTrusted lists what makes a file as good as none.
func TestNotTrusted(t *testing.T) {
	file := func(dir string) string { return filepath.Join(dir, File) }
	for name, change := range map[string]func(dir string) error{
		"nothing":                  func(string) error { return nil },
		"a folder for others":      func(dir string) error { return os.Chmod(dir, 0o755) },
		"a folder for the group":   func(dir string) error { return os.Chmod(dir, 0o710) },
		"a file for others":        func(dir string) error { return os.Chmod(file(dir), 0o644) },
		"a file that is elsewhere": func(dir string) error { return elsewhere(file(dir)) },
		"a folder that is elsewhere": func(dir string) error {
			return elsewhere(dir)
		},
		"no file":        func(dir string) error { return os.Remove(file(dir)) },
		"no folder":      os.RemoveAll,
		"an empty file":  func(dir string) error { return os.Truncate(file(dir), 0) },
		"a huge file":    func(dir string) error { return os.Truncate(file(dir), maxFile+1) },
		"half a header":  func(dir string) error { return os.Truncate(file(dir), 20) },
		"another header": func(dir string) error { return os.WriteFile(file(dir), bytes.Repeat([]byte("x"), 500), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t, 2)
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if got := holds(Open(dir, "1"), "1", "value 1"); got != (name == "nothing") {
				t.Errorf("got the value: %t", got)
			}
		})
	}
	if holds(Open(filled(t, 2), "2"), "1", "value 1") {
		t.Error("a program of version 2 knows what one of version 1 has kept")
	}
}

// elsewhere moves a file or folder and leaves a symbolic link in its place.
func elsewhere(path string) error {
	if err := os.Rename(path, path+"-moved"); err != nil {
		return err
	}
	return os.Symlink(path+"-moved", path)
}

// TestOpenFolderIsLeftAlone writes nothing where others could write too.
func TestOpenFolderIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	c := Open(dir, "1")
	c.Put(key("a"), []byte("a"))
	save(t, c)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestDamage changes bytes, or cuts the file: each value is what it was, or is gone.
func TestDamage(t *testing.T) {
	dir := filled(t, 20)
	whole, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := bytes.Clone(whole)
		for range rapid.IntRange(1, 5).Draw(t, "bytes") {
			raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		}
		raw = raw[:rapid.IntRange(0, len(raw)).Draw(t, "length")]
		if err := os.WriteFile(filepath.Join(dir, File), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		c := Open(dir, "1")
		for i := range 20 {
			if v, ok := c.Get(key(fmt.Sprint(i))); ok && string(v) != fmt.Sprintf("value %d", i) {
				t.Fatalf("value %d is %q", i, v)
			}
		}
	})
}

func FuzzOpen(f *testing.F) {
	raw, err := os.ReadFile(filepath.Join(filled(f, 3), File))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := filled(t, 1)
		if err := os.WriteFile(filepath.Join(dir, File), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		c := Open(dir, "1")
		for k := range c.records {
			c.Get(k)
		}
		c.Put(key("new"), []byte("new"))
		save(t, c)
		if !holds(Open(dir, "1"), "new", "new") {
			t.Error("what was put is lost")
		}
	})
}

// TestUnusedGo uses some values only: the others stay for a while, as far as there is room for them.
func TestUnusedGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	c := Open(dir, "1")
	large := bytes.Repeat([]byte("x"), spare/10)
	for i := range 30 {
		c.Put(key(fmt.Sprint(i)), large)
	}
	save(t, c)
	for round := range 3 {
		c = Open(dir, "1")
		for i := range 5 {
			if !holds(c, fmt.Sprint(i), string(large)) {
				t.Fatalf("a used value is lost in round %d", round)
			}
		}
		c.Put(key("news"), fmt.Append(nil, round))
		save(t, c)
	}
	info, err := os.Stat(filepath.Join(dir, File))
	if err != nil || info.Size() > 5*int64(len(large))+spare+10_000 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	if n := len(Open(dir, "1").records); n < 10 {
		t.Errorf("%d values are left: none of the unused", n)
	}
	for range maxAge + 1 {
		c = Open(dir, "1")
		c.Put(key("news"), nil)
		save(t, c)
	}
	if n := len(Open(dir, "1").records); n != 1 {
		t.Errorf("%d values are left, want the one that is used", n)
	}
}

// TestNoNewsNoWrite leaves the file alone when nothing was put.
func TestNoNewsNoWrite(t *testing.T) {
	dir := filled(t, 2)
	before, err := os.Stat(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	c := Open(dir, "1")
	c.Get(key("1"))
	save(t, c)
	after, err := os.Stat(filepath.Join(dir, File))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced: %v", err)
	}
}

// TestManyAtOnce has several at work in one folder: whoever reads sees whole values.
func TestManyAtOnce(t *testing.T) {
	dir := filled(t, 1)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 50 {
				c := Open(dir, "1")
				if v, ok := c.Get(key("shared")); ok && !bytes.Equal(v, bytes.Repeat(v[:1], 1000)) {
					t.Errorf("torn: %q", v)
				}
				c.Put(key("shared"), bytes.Repeat([]byte{byte('a' + n)}, 1000))
				c.Put(key(fmt.Sprint(n, i)), []byte("x"))
				if err := c.Save(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, ok := Open(dir, "1").Get(key("shared")); !ok {
		t.Error("nothing is left")
	}
}

// TestForgottenFiles removes what a killed writer left, and leaves alone what one may be writing now.
func TestForgottenFiles(t *testing.T) {
	dir := filled(t, 1)
	for name, age := range map[string]time.Duration{".results-old.tmp": 2 * forgotten, ".results-new.tmp": 0} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	c := Open(dir, "1")
	c.Put(key("a"), nil)
	save(t, c)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != ".results-new.tmp" {
		t.Errorf("%v, %v", entries, err)
	}
}
