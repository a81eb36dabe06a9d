// Package pin writes host keys that a person has confirmed into a known_hosts file. Everything else in the file stays as it is, byte for
// byte, and a reader finds the old file or the new one.
package pin

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"stado.internal/stado/reconcile/durable"
)

// Entry is a key of a host.
type Entry struct {
	Name string // the host as known_hosts writes it: "host" or "[host]:port"
	Key  ssh.PublicKey
}

func (e Entry) id() string { return e.Name + " " + string(e.Key.Marshal()) }

// Line is a line that is to go, and what must still stand on it.
type Line struct {
	Number int // from 1
	Entry
}

// Change is what is to be done to a file. It is a value.
type Change struct {
	File string  // made with mode 0644, in a directory made with mode 0700, when it is not there
	Add  []Entry // appended as lines of their own; one that the file has already, by itself on a line, is left out
	Drop []Line
}

// maxFile bounds a known_hosts file: ten thousand hosts with five keys each.
const maxFile = 32 << 20

// Apply makes the change, all of it or nothing, and gives the lines that it appended. The error names the file, and the line if it is
// about one.
func (c Change) Apply() (added []string, err error) {
	path, mode, err := c.place()
	if err != nil {
		return nil, err
	}
	folder := durable.Folder{Path: filepath.Dir(path)}
	unlock, err := folder.Lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	text, added, err := c.edit(old)
	if err != nil || bytes.Equal(text, old) {
		return nil, err
	}
	return added, folder.Write(filepath.Base(path), text, mode)
}

// place is the file behind symbolic links, and its mode. A file of somebody else is refused: the one that replaces it would be ours, and
// perhaps closed to its owner.
func (c Change) place() (path string, mode os.FileMode, _ error) {
	path, err := filepath.EvalSymlinks(c.File)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.Mkdir(filepath.Dir(c.File), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return "", 0, fmt.Errorf("cannot make the directory of %s: %w", c.File, err)
		}
		return c.File, 0o644, nil
	}
	if err != nil {
		return "", 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return "", 0, sayNoFile(c.File)
	case ok && int(st.Uid) != os.Geteuid():
		return "", 0, sayForeignFile(c.File, st.Uid)
	case info.Size() > maxFile:
		return "", 0, sayTooLarge(c.File, info.Size())
	}
	return path, info.Mode().Perm(), nil
}

// edit is the change of the file's text. It is pure.
func (c Change) edit(old []byte) (text []byte, added []string, _ error) {
	if bytes.IndexByte(old, 0) >= 0 {
		return nil, nil, sayBinary(c.File)
	}
	drop := map[int]Entry{}
	for _, l := range c.Drop {
		drop[l.Number] = l.Entry
	}
	have := map[string]bool{} // what the file keeps
	number := 0
	for line := range bytes.Lines(old) {
		number++
		marker, hosts, key, _, _, err := ssh.ParseKnownHosts(line) // whatever cannot be read is somebody else's and stays
		plain := err == nil && marker == ""
		if want, ok := drop[number]; ok {
			delete(drop, number)
			switch {
			case !plain || !bytes.Equal(key.Marshal(), want.Key.Marshal()):
				return nil, nil, sayMoved(c.File, number)
			case len(hosts) != 1 || hosts[0] != want.Name && hosts[0][0] != '|':
				return nil, nil, sayShared(c.File, number, hosts)
			}
			continue
		}
		if plain && len(hosts) == 1 {
			have[Entry{hosts[0], key}.id()] = true
		}
		text = append(text, line...)
	}
	for number := range drop {
		return nil, nil, sayMoved(c.File, number)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	for _, e := range c.Add {
		if !have[e.id()] {
			have[e.id()] = true
			added = append(added, knownhosts.Line([]string{e.Name}, e.Key))
			text = append(text, added[len(added)-1]+"\n"...)
		}
	}
	return text, added, nil
}
