package duty

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/durable"
)

// File is the name of the record in a state directory. Whoever may push here may read it.
const File = "authority-duty.json"

// Rule marks a history of this host that nobody else has, in the status of its agent.
const Rule = "STADO-AUTHORITY-001"

// Record is why a host does not take changes as the registry authority. There is none while it does, and on hosts that never were it.
type Record struct {
	Duty       authority.Duty `json:"duty"`       // step-down or dispute
	Host       fleet.HostName `json:"host"`       // this one
	Repository string         `json:"repository"` // its own, in which nothing is taken
	Sentence   string         `json:"sentence"`
	Since      time.Time      `json:"since"`
	// Forked: the history of this host and the other one have both gone on, until a person joins them.
	Forked bool           `json:"forked"`
	From   fleet.HostName `json:"from,omitempty"` // who held the other registry; empty when this host holds it itself
	Other  authority.Head `json:"other"`          // what it is
}

// Load reads the record of a state directory, nil when there is none.
func Load(home string) (*Record, error) {
	var r Record
	file := filepath.Join(home, File)
	switch err := durable.ReadJSON(file, &r); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w (%s)", err, sayRemove)
	case r.Duty != authority.DutyStepDown && r.Duty != authority.DutyDispute || r.Sentence == "" || r.Host == "":
		return nil, sayDamaged(file)
	}
	return &r, nil
}

// Write replaces the record of a state directory; nil removes it. It is durable when the error is nil.
func Write(home durable.Folder, r *Record) error {
	if r == nil {
		err := os.Remove(filepath.Join(home.Path, File))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, durable.SyncDir(home.Path))
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return home.Write(File, append(data, '\n'), 0o644)
}

// Admits reports whether a commit may be pushed here all the same: one that has the other registry among its ancestors, and that either
// joins what is disputed, or leaves the role where it went, or gives it to this host once more. a is the authority that it names.
func (r Record) Admits(descends bool, a fleet.Authority) bool {
	return descends && (r.Duty == authority.DutyDispute || a.Host != r.Host || a.Epoch > r.Other.Epoch)
}

// Deposed reports whether the record says that this host, which still holds a registry that names it, is the authority no more.
func (r *Record) Deposed() bool { return r != nil && r.Duty == authority.DutyStepDown }

// same reports whether two records say the same to a person.
func (r *Record) same(other *Record) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.Duty == other.Duty && r.Forked == other.Forked && r.Other.Authority == other.Other.Authority && r.Repository == other.Repository
}
