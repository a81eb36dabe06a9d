// Package signature says which commits and documents a fleet's trust vouches for: what signature each of them carries, whose it is, and
// whether its signer may change what it changes. It is pure but for a [History], from which commits are read.
package signature

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/fleet/keys"
)

// Kind is why a commit is not vouched for.
type Kind string

// The kinds.
const (
	Unsigned   Kind = "unsigned"
	Malformed  Kind = "malformed"
	Unknown    Kind = "unknown-signer"
	OutOfScope Kind = "out-of-scope"
	Bad        Kind = "bad-signature"
	Expired    Kind = "expired" // or revoked
)

// Refusal is a commit that is not vouched for, or a document when it names no commit.
type Refusal struct {
	Kind   Kind             `json:"kind"`
	Mode   fleet.TrustMode  `json:"mode"` // that asks for a signature
	Commit string           `json:"commit"`
	Author string           `json:"author,omitempty"` // as the author wrote it: not verified
	Signer fleet.SignerName `json:"signer,omitempty"` // whose key it is, when it is a known one
	Key    string           `json:"key,omitempty"`    // fingerprint of a key that is not known
	File   string           `json:"file,omitempty"`   // the first one outside the scope; empty when what is changed is not known
	Detail string           `json:"detail,omitempty"`
}

// trusted is a signer of a trust.
type trusted struct {
	name  fleet.SignerName
	key   keys.Key
	scope []string
}

// signersOf are the signers of a trust, by name. A key that cannot be read signs nothing.
func signersOf(t fleet.Trust) []trusted {
	var out []trusted
	for _, name := range slices.Sorted(maps.Keys(t.Signers)) {
		s := t.Signers[name]
		if key, err := keys.Parse(s.Key); err == nil {
			out = append(out, trusted{name, key, s.Scope})
		}
	}
	return out
}

// covers reports whether a signer may change a file of the repository.
func (t trusted) covers(file string) bool {
	return len(t.scope) == 0 || slices.ContainsFunc(t.scope, func(s string) bool {
		return file == s || strings.HasSuffix(s, "/") && strings.HasPrefix(file, s)
	})
}

// What the armor of each kind of signature begins with, and ends with.
const (
	beginSSH  = "-----BEGIN SSH SIGNATURE-----"
	beginPGP  = "-----BEGIN PGP SIGNATURE-----"
	endPGP    = "-----END PGP SIGNATURE-----"
	beginX509 = "-----BEGIN SIGNED MESSAGE-----"
)

// verify finds the signer of a commit. now bounds the times that a commit claims.
func verify(c Commit, signers []trusted, now time.Time) (trusted, *Refusal) {
	switch s := c.Signature; {
	case s == nil:
		return trusted{}, &Refusal{Kind: Unsigned}
	case bytes.HasPrefix(s, []byte(beginSSH)):
		return verifySSH(c.Payload, s, namespace, signers)
	case bytes.HasPrefix(s, []byte(beginPGP)):
		return verifyPGP(c, signers, now)
	case bytes.HasPrefix(s, []byte(beginX509)):
		return trusted{}, bad(sayX509)
	}
	return trusted{}, bad(sayForm)
}

func bad(detail string) *Refusal {
	return &Refusal{Kind: Bad, Detail: fleet.OneLine(detail, maxDetail)}
}

// maxDetail is how many characters of a library's words are shown.
const maxDetail = 200
