package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"stado.internal/stado/reconcile/durable"
)

// SuspendedFile is there while somebody has suspended adoption: as long as it stands, what the store holds does not change.
const SuspendedFile = "suspended.json"

// Suspension says that nothing new is to be held. It is a value.
type Suspension struct {
	Reason string     `json:"reason"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until,omitempty"` // nil: until somebody ends it
}

// Stands reports whether the suspension is in force; nil is none.
func (s *Suspension) Stands(now time.Time) bool {
	return s != nil && (s.Until == nil || now.Before(*s.Until))
}

// ErrSuspended is wrapped by the refusal of [Store.Put] to hold something new while adoption is suspended.
var ErrSuspended = errors.New("adoption is suspended")

// Suspension is the one in force at the last write, [Store.Reload] or [Store.Resume], nil when there is none. One whose end has come is
// none.
func (s *Store) Suspension() *Suspension {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.suspension.Stands(time.Now()) {
		return nil
	}
	return s.suspension
}

// Suspend suspends adoption, durably: when it returns nil, nothing new is held by anybody until [Store.Resume] or the end that it names.
// It takes the place of a suspension that stands.
func (s *Store) Suspend(sus Suspension) (err error) {
	unlock, _, err := s.exclusive()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	data, err := json.MarshalIndent(sus, "", "  ")
	if err != nil {
		return err
	}
	if err := s.folder.Write(SuspendedFile, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return s.lookAtSuspension()
}

// Resume ends a suspension, durably, and gives the one that stood; nil when none did.
func (s *Store) Resume() (was *Suspension, err error) {
	unlock, _, err := s.exclusive()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	was = s.Suspension()
	err = os.Remove(filepath.Join(s.folder.Path, SuspendedFile))
	if err == nil {
		err = durable.SyncDir(s.folder.Path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return was, errors.Join(err, s.lookAtSuspension())
}

// lookAtSuspension reads the file. When that fails, what was known stands.
func (s *Store) lookAtSuspension() error {
	sus, err := ReadSuspension(s.folder.Path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspension = sus
	return nil
}

// ReadSuspension reads the suspension of the store in dir, nil when there is none, whether or not its end has come. A file that is there
// and says nothing suspends as well, since it may have said so.
func ReadSuspension(dir string) (*Suspension, error) {
	path := filepath.Join(dir, SuspendedFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read whether adoption is suspended: %w", err)
	}
	var sus Suspension
	if err := json.Unmarshal(data, &sus); err == nil && sus.Reason != "" && !sus.Since.IsZero() {
		return &sus, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read whether adoption is suspended: %w", err)
	}
	return &Suspension{Reason: saySuspensionDamaged(path), Since: info.ModTime().UTC()}, nil
}
