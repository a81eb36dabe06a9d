package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/durable"
)

// Bounds of the journal: past maxLines the oldest go, so that what is left is keepLines long and a trim is rare.
const (
	maxLines  = 10_000
	keepLines = 8_000
)

// Admission is one line of the journal: a generation that this host admitted.
type Admission struct {
	At         time.Time        `json:"at"`
	Generation fleet.Generation `json:"generation"`
	Commit     string           `json:"commit"`
	Digest     string           `json:"digest"`
	Provenance fleet.Provenance `json:"provenance"`
	Author     string           `json:"author,omitempty"`
	Subject    string           `json:"subject,omitempty"`
	Reset      *Reset           `json:"reset,omitempty"` // a person's word admitted it
}

// ReadLog reads the journal of the store in dir, oldest first; none is an empty one. Lines that cannot be read are left out and named
// in the error, beside which the others are returned.
func ReadLog(dir string) ([]Admission, error) {
	raw, err := os.ReadFile(filepath.Join(dir, LogFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the journal of admissions: %w", err)
	}
	lines := parseLog(raw)
	list := lines.list
	if lines.torn != nil {
		list = append(list, *lines.torn)
	}
	if len(lines.bad) > 0 {
		return list, sayLinesBad(filepath.Join(dir, LogFile), lines.bad)
	}
	return list, nil
}

// Log is [ReadLog] on the store's own folder.
func (s *Store) Log() ([]Admission, error) { return ReadLog(s.folder.Path) }

// logLines is a journal as it was read. A last line without its newline is what a crash left: it stands if it is whole otherwise.
type logLines struct {
	list  []Admission
	bad   []int // numbers of complete lines that cannot be read
	torn  *Admission
	ended int64 // length up to the last newline
}

func parseLog(raw []byte) logLines {
	var l logLines
	for number := 1; len(raw) > 0; number++ {
		line, rest, complete := bytes.Cut(raw, []byte{'\n'})
		var a Admission
		err := json.Unmarshal(line, &a)
		switch {
		case !complete && err == nil:
			l.torn = &a
		case complete && err == nil:
			l.list = append(l.list, a)
		case complete:
			l.bad = append(l.bad, number)
		}
		if complete {
			l.ended += int64(len(line)) + 1
		}
		raw = rest
	}
	return l
}

// last is the newest admission that can be read; zero when there is none.
func (l logLines) last() Admission {
	switch {
	case l.torn != nil:
		return *l.torn
	case len(l.list) > 0:
		return l.list[len(l.list)-1]
	}
	return Admission{}
}

// journal appends to [LogFile].
type journal struct {
	folder  durable.Folder
	fault   func(point string) error
	lines   int
	ended   int64 // length of the file as far as it is known to be whole
	last    Admission
	pending []Admission // lines that are not in the file yet
	cause   error       // why the file cannot be read
}

func (j *journal) open(folder durable.Folder, fault func(string) error) {
	j.folder, j.fault = folder, fault
	raw, err := os.ReadFile(j.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.cause = unwrapPath(err)
		return
	}
	l := parseLog(raw)
	j.lines, j.ended = len(l.list)+len(l.bad), l.ended
	if len(l.list) > 0 {
		j.last = l.list[len(l.list)-1]
	}
	if l.torn != nil {
		j.note(*l.torn)
	}
}

func (j *journal) path() string { return filepath.Join(j.folder.Path, LogFile) }

// note takes admissions that the file should have. One that equals the last line is there already.
func (j *journal) note(list ...Admission) {
	for _, a := range list {
		if a.Generation != j.last.Generation || a.Digest != j.last.Digest || a.Reset != nil && !a.Reset.same(j.last.Reset) {
			j.pending = append(j.pending, a)
			j.last = a
		}
	}
}

// keep brings the file up to what was noted, and within its bound.
func (j *journal) keep() error {
	if j.cause != nil {
		return j.cause
	}
	if len(j.pending) == 0 {
		return nil
	}
	if err := j.flush(); err != nil {
		return unwrapPath(err)
	}
	return j.trim()
}

// admission is the journal's line for the anchor, which is the only witness after a crash between the two writes.
func (h Held) admission() Admission {
	return Admission{At: h.UpdatedAt, Generation: h.Generation, Commit: h.Commit, Digest: h.Digest, Provenance: h.Provenance, Reset: h.Reset}
}

// flush appends the pending lines behind the last whole one; whatever a torn write left there is cut off first.
func (j *journal) flush() (err error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, a := range j.pending {
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
	if err := j.step(durable.StepCreate); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(j.ended); err != nil {
		return err
	}
	if err := j.step(durable.StepWrite); err != nil {
		return err
	}
	if _, err := f.WriteAt(buf.Bytes(), j.ended); err != nil {
		return err
	}
	if err := j.step(durable.StepSync); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if j.ended == 0 {
		if err := durable.SyncDir(j.folder.Path); err != nil {
			return err
		}
	}
	j.lines, j.ended = j.lines+len(j.pending), j.ended+int64(buf.Len())
	j.pending = nil
	return nil
}

func (j *journal) step(name string) error {
	if j.fault == nil {
		return nil
	}
	return j.fault(LogFile + ":" + name)
}

func (j *journal) trim() error {
	if j.lines <= maxLines {
		return nil
	}
	raw, err := os.ReadFile(j.path())
	if err != nil {
		return unwrapPath(err)
	}
	for drop := bytes.Count(raw, []byte{'\n'}) - keepLines; drop > 0; drop-- {
		raw = raw[bytes.IndexByte(raw, '\n')+1:]
	}
	if err := j.folder.Write(LogFile, raw, 0o600); err != nil {
		return err
	}
	j.lines, j.ended = keepLines, int64(len(raw))
	return nil
}
