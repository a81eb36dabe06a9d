package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
)

// Files of the folder. Nothing else in it holds a document.
const (
	HeldFile = "held.json"
	SlotA    = "slot-a.json"
	SlotB    = "slot-b.json"
	LogFile  = "admitted.jsonl"
)

// Held is the anchor, the content of [HeldFile]: what this host holds and below which nothing is admitted.
type Held struct {
	Slot        string             `json:"slot"`   // the file that holds the document: [SlotA] or [SlotB]
	Commit      string             `json:"commit"` // newest commit observed with this document; empty for a bare hand-over
	Generation  fleet.Generation   `json:"generation"`
	Epoch       uint64             `json:"epoch"` // of the authority
	Digest      string             `json:"digest"`
	Promised    *authority.Promise `json:"promised"`
	Incarnation string             `json:"incarnation"` // drawn anew whenever the anchor is made from nothing, so that peers see a lost one
	// Recovering says that an anchor was lost, and with it what was promised: no claim is granted until that is known again.
	Recovering bool             `json:"recovering,omitempty"`
	Provenance fleet.Provenance `json:"provenance"`
	UpdatedAt  time.Time        `json:"updated_at"`
	Previous   *Previous        `json:"previous,omitempty"`
	Reset      *Reset           `json:"reset,omitempty"` // how the document came to be held, until another one is
	Checksum   string           `json:"checksum"`        // see sum
}

// Reset says that a person accepted a commit which does not descend from the one that was held.
type Reset struct {
	Commit         string           `json:"commit"`      // that was accepted
	FromCommit     string           `json:"from_commit"` // that was held
	FromGeneration fleet.Generation `json:"from_generation"`
	Reason         string           `json:"reason"`
	At             time.Time        `json:"at"`
}

// same compares two accepted resets; nil is none.
func (r *Reset) same(other *Reset) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.Commit == other.Commit && r.FromCommit == other.FromCommit && r.At.Equal(other.At)
}

// Previous is what the other slot holds: the registry that is served when the current slot is damaged.
type Previous struct {
	Slot       string           `json:"slot"`
	Commit     string           `json:"commit"`
	Generation fleet.Generation `json:"generation"`
	Digest     string           `json:"digest"`
	Provenance fleet.Provenance `json:"provenance"`
}

// envelope is the content of a slot, but for its last member `document`, canonical JSON byte for byte: one document that can be verified
// without any other file.
type envelope struct {
	Commit     string           `json:"commit"`
	Generation fleet.Generation `json:"generation"`
	Digest     string           `json:"digest"` // SHA-256 of the document
	Provenance fleet.Provenance `json:"provenance"`
	AdmittedAt time.Time        `json:"admitted_at"`
	Checksum   string           `json:"checksum"` // of the other members; see sum
}

func digest(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// sum is the checksum of a record: SHA-256 over its members in lexical order, without the checksum itself and without the document,
// which has a digest of its own. It reads members, not a Go type, so that a record of a newer build still verifies.
func sum(raw []byte) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return "", err
	}
	delete(members, "checksum")
	delete(members, "document")
	flat, err := json.Marshal(members)
	if err != nil {
		return "", err
	}
	return digest(flat), nil
}

// verified decodes a record into v after its checksum, which field finds in v, has been compared.
func verified(raw []byte, v any, field *string) error {
	if len(raw) == 0 {
		return errors.New("the file is empty")
	}
	want, err := sum(raw)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return err
	}
	if *field != want {
		return errors.New("the checksum does not match the content")
	}
	return nil
}

// below reports whether an anchor is one that a store which holds other must not fall back to.
func (h Held) below(other Held) bool {
	return h.Generation < other.Generation || h.Generation == other.Generation && h.Digest != other.Digest
}

func (h Held) encode() ([]byte, error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if h.Checksum, err = sum(raw); err != nil {
		return nil, err
	}
	raw, err = json.MarshalIndent(h, "", "  ")
	return append(raw, '\n'), err
}

func decodeHeld(raw []byte) (*Held, error) {
	var h Held
	if err := verified(raw, &h, &h.Checksum); err != nil {
		return nil, err
	}
	if h.Slot != SlotA && h.Slot != SlotB {
		return nil, fmt.Errorf("it names slot %q, which this build does not know", h.Slot)
	}
	if h.Generation == 0 {
		return nil, errors.New("it names no generation")
	}
	return &h, nil
}

// documentField is where the document begins in what encodeSlot writes. No string holds these bytes: there the quotes are escaped.
const documentField = `,"document":`

// encodeSlot makes the content of a slot, in pieces, and reads it back: a slot that would not verify is refused before it replaces anything.
func encodeSlot(s *fleet.Snapshot) ([][]byte, error) {
	e := envelope{
		Commit: s.Commit, Generation: s.Generation(), Digest: s.Digest, Provenance: s.Provenance, AdmittedAt: s.AdmittedAt.UTC(),
	}
	record, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if e.Checksum, err = sum(record); err != nil {
		return nil, err
	}
	if record, err = json.Marshal(e); err != nil {
		return nil, err
	}
	// The document goes in as it is: an encoder would read all of it, and whatever it changed would change the digest. It is not copied
	// either, since it may be large.
	before, behind := append(record[:len(record)-1:len(record)-1], documentField...), []byte("}\n")
	const any = "{}"
	head, document, ok := cutSlot(slices.Concat(before, []byte(any), behind))
	if !ok || string(document) != any || !bytes.HasPrefix(s.Document, []byte("{")) {
		return nil, errors.New("the slot would not hold the document")
	}
	v := verifier{digest, func(document []byte) (*fleet.Registry, error) {
		return fleet.DecodeAfter(s.Registry, s.Document, document)
	}}
	if s.Parts.Are(s.Document, s.Registry) { // what has been worked out of these very bytes
		v = verifier{func([]byte) string { return s.Parts.Digest() }, func([]byte) (*fleet.Registry, error) { return s.Registry, nil }}
	}
	_, err = slotOf(head, s.Document, v)
	return [][]byte{before, s.Document, behind}, err
}

// cutSlot cuts the content of a slot, as encodeSlot writes it, into the record without its document and the document. It looks at no byte
// of the document.
func cutSlot(raw []byte) (head, document []byte, ok bool) {
	i := bytes.Index(raw, []byte(documentField))
	whole := bytes.TrimSuffix(raw, []byte("\n"))
	if i < 0 || !bytes.HasSuffix(whole, []byte("}")) {
		return nil, nil, false
	}
	head = append(bytes.Clone(raw[:i]), '}')
	document = whole[i+len(documentField) : len(whole)-1]
	return head, document, json.Valid(head) && bytes.HasPrefix(document, []byte("{"))
}

// decodeSlot verifies a slot and decodes its document.
func decodeSlot(raw []byte) (*fleet.Snapshot, error) {
	return readSlot(raw, verifier{digest, fleet.Decode})
}

// checkSlot verifies a slot, and leaves its document as it is.
func checkSlot(raw []byte) error {
	_, err := readSlot(raw, verifier{digest: digest})
	return err
}

// readSlot verifies a slot. What the cut does not understand is read as any JSON: another build may write the
// members in another order.
func readSlot(raw []byte, v verifier) (*fleet.Snapshot, error) {
	if head, document, ok := cutSlot(raw); ok {
		if s, err := slotOf(head, document, v); err == nil {
			return s, nil
		}
	}
	var whole struct {
		Document json.RawMessage `json:"document"`
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &whole); err != nil {
			return nil, err
		}
	}
	return slotOf(raw, whole.Document, v)
}

// verifier is how a document is held against its record.
type verifier struct {
	digest func([]byte) string
	decode func([]byte) (*fleet.Registry, error) // nil: not at all
}

// slotOf verifies a record and its document, and decodes the latter; without that there is no snapshot.
func slotOf(record, document []byte, v verifier) (*fleet.Snapshot, error) {
	var e envelope
	if err := verified(record, &e, &e.Checksum); err != nil {
		return nil, err
	}
	if got := v.digest(document); got != e.Digest {
		return nil, fmt.Errorf("the document has digest %s where the slot says %s", got, e.Digest)
	}
	if v.decode == nil {
		return nil, nil
	}
	r, err := v.decode(document)
	if err != nil {
		return nil, err
	}
	if r.Directory.Generation != e.Generation || e.Generation == 0 {
		return nil, fmt.Errorf("the document has generation %d where the slot says %d", r.Directory.Generation, e.Generation)
	}
	return &fleet.Snapshot{
		Commit: e.Commit, Digest: e.Digest, Document: document, Registry: r,
		AdmittedAt: e.AdmittedAt, Provenance: e.Provenance,
	}, nil
}
