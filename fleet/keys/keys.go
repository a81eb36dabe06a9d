// Package keys reads the public keys that a registry names as text: SSH keys as in authorized_keys, and PGP keys as armored blocks.
package keys

import (
	"crypto/rsa"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"
)

// MinRSABits is the length that an RSA key has at least.
const MinRSABits = 2048

// Key is one public key: exactly one of SSH and PGP is set.
type Key struct {
	SSH ssh.PublicKey
	PGP *openpgp.Entity // a primary key with its subkeys
	// Fingerprint names the key to people, and two texts of one key have one: `SHA256:…` of an SSH key, the primary key's in hexadecimal
	// of a PGP key.
	Fingerprint string
}

// Line is an SSH key as authorized_keys has it, type and base64; empty for a PGP key.
func (k Key) Line() string {
	if k.SSH == nil {
		return ""
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.SSH)))
}

// The lines around a PGP key.
const (
	pgpBegin = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
	pgpEnd   = "-----END PGP PUBLIC KEY BLOCK-----"
)

// Parse reads a key. It refuses what could never verify a signature: text that is not one key, and keys that are too weak.
func Parse(text string) (Key, error) {
	if strings.HasPrefix(text, pgpBegin) {
		return parsePGP(text)
	}
	return parseSSH(text)
}

func parseSSH(text string) (Key, error) {
	if strings.ContainsAny(text, "\r\n") {
		return Key{}, errors.New(sayOneLine)
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(text))
	switch {
	case err != nil:
		return Key{}, errors.New(sayNotSSH)
	case len(options) > 0:
		return Key{}, errors.New(sayOptions)
	}
	if _, isCertificate := key.(*ssh.Certificate); isCertificate {
		return Key{}, errors.New(sayCertificate)
	}
	if public, ok := key.(ssh.CryptoPublicKey); ok {
		if err := strong(public.CryptoPublicKey()); err != nil {
			return Key{}, err
		}
	}
	return Key{SSH: key, Fingerprint: ssh.FingerprintSHA256(key)}, nil
}

func strong(key any) error {
	if k, ok := key.(*rsa.PublicKey); ok && k.N.BitLen() < MinRSABits {
		return fmt.Errorf(sayShortRSA, k.N.BitLen(), MinRSABits)
	}
	return nil
}

func parsePGP(text string) (Key, error) {
	if strings.Count(text, "-----BEGIN ") != 1 || !strings.HasSuffix(strings.TrimSpace(text), pgpEnd) {
		return Key{}, errors.New(sayOneBlock)
	}
	ring, err := openpgp.ReadArmoredKeyRing(strings.NewReader(text))
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", sayNotPGP, err)
	}
	if len(ring) != 1 {
		return Key{}, errors.New(sayOneBlock)
	}
	entity := ring[0]
	if entity.PrivateKey != nil { // in a block that says it is public
		return Key{}, errors.New(sayPrivate)
	}
	for _, key := range append([]*packet.PublicKey{entity.PrimaryKey}, subkeys(entity)...) {
		if key.PubKeyAlgo == packet.PubKeyAlgoDSA {
			return Key{}, errors.New(sayDSA)
		}
		if err := strong(key.PublicKey); err != nil {
			return Key{}, err
		}
	}
	return Key{PGP: entity, Fingerprint: strings.ToUpper(hex.EncodeToString(entity.PrimaryKey.Fingerprint))}, nil
}

// subkeys are those that may sign.
func subkeys(entity *openpgp.Entity) []*packet.PublicKey {
	var out []*packet.PublicKey
	for _, sub := range entity.Subkeys {
		if sub.Sig != nil && sub.Sig.FlagsValid && sub.Sig.FlagSign {
			out = append(out, sub.PublicKey)
		}
	}
	return out
}
