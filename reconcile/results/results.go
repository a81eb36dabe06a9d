// Package results keeps the results of evaluations between runs of this program: values by key, in one file of a folder that nobody else
// may enter.
//
// The file may be deleted at any time. What is damaged in it, of another version, or in a folder that others can write to, is not there.
// Several processes may use one folder at a time: each replaces the file as a whole, and the one that comes last wins.
package results

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"stado.internal/stado/reconcile/durable"
)

// File is the name of the file in its folder.
const File = "results"

// Key names a value.
type Key = [sha256.Size]byte

const (
	magic = "stado results 1\n"
	// head is a record without its value: key, age, size, checksum.
	head = sha256.Size + 1 + 4 + sumSize
	// sumSize is enough to find damage; nobody is kept from anything by it.
	sumSize = 16
	// maxFile bounds the file: more than the largest registry comes to.
	maxFile = 128 << 20
	// maxAge is how many times others are kept while a value was of no use.
	maxAge = 50
	// spare is how much of the unused is kept at least, in bytes; else as much as was used.
	spare = 1 << 20
	// forgotten is the age of a temporary file whose writer is long dead.
	forgotten = time.Hour
)

// Cache holds the values of one folder. It is not safe for concurrent use.
type Cache struct {
	folder  string
	version [sha256.Size]byte
	records map[Key]*record
	news    bool
}

type record struct {
	key   Key
	value []byte
	sum   [sumSize]byte
	age   byte
	state state
}

type state byte

const (
	unread state = iota // as it lies in the file: nobody has looked at it
	used
)

// Open reads what a program of the same version has kept in a folder. It never fails: what cannot be read is not known.
func Open(folder, version string) *Cache {
	c := &Cache{folder: folder, version: sha256.Sum256([]byte(version)), records: map[Key]*record{}}
	if own(folder, os.ModeDir) {
		c.parse(c.read())
	}
	return c
}

// own reports whether a file or folder is this user's, and closed to everybody else.
func own(path string, kind os.FileMode) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != kind || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(is.Uid) == os.Geteuid()
}

func (c *Cache) read() []byte {
	name := filepath.Join(c.folder, File)
	if !own(name, 0) {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil || info.Size() > maxFile {
		return nil
	}
	raw := make([]byte, info.Size())
	n, _ := io.ReadFull(f, raw)
	return raw[:n]
}

// parse takes records as far as they are whole.
func (c *Cache) parse(raw []byte) {
	start := append([]byte(magic), c.version[:]...)
	if !bytes.HasPrefix(raw, start) {
		return
	}
	for raw = raw[len(start):]; len(raw) >= head; {
		size := binary.BigEndian.Uint32(raw[sha256.Size+1:])
		if uint64(size) > uint64(len(raw)-head) {
			return
		}
		r := &record{key: Key(raw[:sha256.Size]), age: raw[sha256.Size], value: raw[head : head+int(size) : head+int(size)]}
		copy(r.sum[:], raw[head-sumSize:head])
		c.records[r.key] = r
		raw = raw[head+int(size):]
	}
}

// Get is the value of a key, which must not be changed.
func (c *Cache) Get(k Key) ([]byte, bool) {
	r, ok := c.records[k]
	if !ok {
		return nil, false
	}
	if r.state == unread {
		if r.sum != sum(k, r.value) {
			delete(c.records, k)
			return nil, false
		}
		r.state = used
	}
	return r.value, true
}

// Put keeps a value, which must not be changed afterwards.
func (c *Cache) Put(k Key, value []byte) {
	c.records[k] = &record{key: k, value: value, sum: sum(k, value), state: used}
	c.news = true
}

func sum(k Key, value []byte) (out [sumSize]byte) {
	h := sha256.New()
	h.Write(k[:])
	h.Write(value)
	var all [sha256.Size]byte
	copy(out[:], h.Sum(all[:0]))
	return out
}

// Save writes what is kept, if there is news: all that was used, and of the rest what was used last. A folder that others can enter is
// left alone.
func (c *Cache) Save() error {
	if !c.news {
		return nil
	}
	if err := os.MkdirAll(c.folder, 0o700); err != nil {
		return err
	}
	if !own(c.folder, os.ModeDir) {
		return nil
	}
	c.sweep()
	kept := c.kept()
	size := len(magic) + len(c.version)
	for _, r := range kept {
		size += head + len(r.value)
	}
	if size > maxFile {
		return nil
	}
	out := append(append(make([]byte, 0, size), magic...), c.version[:]...)
	for _, r := range kept {
		out = append(append(out, r.key[:]...), r.age)
		out = binary.BigEndian.AppendUint32(out, uint32(len(r.value)))
		out = append(append(out, r.sum[:]...), r.value...)
	}
	c.news = false
	return durable.Folder{Path: c.folder}.Replace(File, out, 0o600)
}

// kept ages the records and lists those that stay, the used ones first.
func (c *Cache) kept() []*record {
	all := make([]*record, 0, len(c.records))
	size := 0
	for _, r := range c.records {
		if r.state == used {
			r.age, size = 0, size+len(r.value)
		} else if r.age++; r.age > maxAge {
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *record) int { return cmp.Or(cmp.Compare(a.age, b.age), bytes.Compare(a.key[:], b.key[:])) })
	room := max(size, spare)
	for i, r := range all {
		if r.age > 0 {
			if room -= len(r.value) + head; room < 0 {
				return all[:i]
			}
		}
	}
	return all
}

// sweep removes what writers that were killed long ago left behind.
func (c *Cache) sweep() {
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.Name() != File && info.Mode().IsRegular() && time.Since(info.ModTime()) > forgotten {
			_ = os.Remove(filepath.Join(c.folder, e.Name())) // the next writer tries again
		}
	}
}
