package authority

import (
	"stado.internal/stado/fleet"
)

// State is how a move ended.
type State string

// The states of receipts. A move that is not taken by the store and by every host is partial, which is a failure of the command.
const (
	StateTaken      State = "taken"
	StatePartial    State = "partial"
	StateHandedOver State = "handed-over"
)

// Receipt is the JSON answer of `stado placement move --authority`.
type Receipt struct {
	State      State            `json:"state"`
	Authority  fleet.HostName   `json:"authority"`
	Fenced     fleet.HostName   `json:"fenced"`
	Generation fleet.Generation `json:"directory_generation"`
	Unanswered string           `json:"authority_unanswered,omitempty"` // empty when the role moved through the authority
	Quorum     bool             `json:"quorum"`                         // a majority of all registered hosts granted the claim
	SplitRisk  bool             `json:"split_risk"`                     // another mover may have been granted the same generation by the other hosts
	Store      StoreResult      `json:"store"`
	Hosts      []HandOver       `json:"hosts"`
}

// StoreResult is what became of the store of the host that made the move: of its repository, as the new authority or as the old one. It is
// one of the two.
type StoreResult struct {
	Version string `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`
}

// HandOver is what one host said to the registry it was handed: one of the two.
type HandOver struct {
	Host    fleet.HostName `json:"host"`
	Receipt *PushReceipt   `json:"receipt,omitempty"`
	Error   string         `json:"error,omitempty"`
}

// PushReceipt is the JSON answer of `stado registry push --last-known-good`.
type PushReceipt struct {
	State      State            `json:"state"`
	Generation fleet.Generation `json:"directory_generation"`
	Unanswered string           `json:"authority_unanswered,omitempty"` // empty when the authority gave the registry itself
}

// Receipt is what the move has come to. Hosts are in the order of their names.
func (m Move) Receipt() Receipt {
	quorum := len(m.Granted) >= Majority(len(m.Electorate))
	r := Receipt{
		State: StateTaken, Authority: m.To, Fenced: m.Fenced, Generation: m.Generation, Unanswered: m.Unanswered,
		Quorum: quorum, SplitRisk: !quorum, Store: StoreResult{Error: sayNotWritten}, Hosts: []HandOver{},
	}
	if m.Store != nil {
		r.Store = *m.Store
	}
	if r.Store.Error != "" {
		r.State = StatePartial
	}
	for _, host := range m.receivers() {
		h, ok := m.Hosts[host]
		if !ok {
			h = HandOver{Host: host, Error: sayNotHanded}
		}
		if h.Receipt == nil {
			r.State = StatePartial
		}
		r.Hosts = append(r.Hosts, h)
	}
	return r
}

// Say is the line for a role that was taken.
func (r Receipt) Say() string { return sayTaken(r) }

// SayRisk is the warning that goes with SplitRisk.
func (r Receipt) SayRisk() string { return saySplitRisk(r) }

// Err is nil for a role that was taken. Otherwise it names the store's result and every host that was not handed the registry.
func (r Receipt) Err() error {
	if r.State == StateTaken {
		return nil
	}
	return sayPartial(r)
}
