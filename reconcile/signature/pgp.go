package signature

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgp "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// skew is how far a signer's clock may be from the commit's time, and the commit's time ahead of this host's.
const skew = 24 * time.Hour

func verifyPGP(c Commit, signers []trusted, now time.Time) (trusted, *Refusal) {
	raw, sig, err := readPGP(c.Signature)
	switch {
	case err != nil:
		return trusted{}, bad(err.Error())
	case sig.SigType != packet.SigTypeBinary:
		return trusted{}, bad(sayPurpose)
	case !slices.Contains([]crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256, crypto.SHA3_512}, sig.Hash):
		return trusted{}, bad(sayHash(sig.Hash.String()))
	}
	var ring openpgp.EntityList
	for _, s := range signers {
		if s.key.PGP != nil {
			ring = append(ring, s.key.PGP)
		}
	}
	at := checkTime(c.Time, sig.CreationTime, now)
	config := &packet.Config{Time: func() time.Time { return at }}
	_, entity, err := openpgp.VerifyDetachedSignature(ring, bytes.NewReader(c.Payload), bytes.NewReader(raw), config)
	var who trusted
	if i := slices.IndexFunc(signers, func(s trusted) bool { return entity != nil && s.key.PGP == entity }); i >= 0 {
		who = signers[i]
	}
	switch {
	case err == nil && who.key.PGP != nil:
		return who, nil
	case errors.Is(err, pgp.ErrUnknownIssuer):
		return trusted{}, &Refusal{Kind: Unknown, Key: issuer(sig)}
	case errors.Is(err, pgp.ErrKeyExpired), errors.Is(err, pgp.ErrSignatureExpired), errors.Is(err, pgp.ErrKeyRevoked):
		return who, &Refusal{Kind: Expired, Detail: sayExpired(err, at)}
	case err != nil:
		return who, bad(err.Error())
	}
	return trusted{}, bad(sayForm)
}

// checkTime is when a key has to have been good: at the commit's time, so that old commits stay good when a key ends. That time is the
// committer's own word, and git takes it a moment before the signature is made.
func checkTime(commit, made, now time.Time) time.Time {
	at := commit
	if latest := now.Add(skew); at.After(latest) {
		at = latest
	}
	if made.After(at) && made.Sub(at) <= skew {
		at = made
	}
	return at
}

// readPGP takes the armor off one signature, and nothing but one.
func readPGP(armored []byte) ([]byte, *packet.Signature, error) {
	if bytes.Count(armored, []byte("-----BEGIN ")) != 1 || !bytes.HasSuffix(bytes.TrimSpace(armored), []byte(endPGP)) {
		return nil, nil, errors.New(sayForm)
	}
	block, err := armor.Decode(bytes.NewReader(armored))
	if err != nil || block.Type != openpgp.SignatureType {
		return nil, nil, errors.New(sayForm)
	}
	raw, err := io.ReadAll(block.Body)
	if err != nil {
		return nil, nil, errors.New(sayForm)
	}
	packets := packet.NewReader(bytes.NewReader(raw))
	first, err := packets.Next()
	if err != nil {
		return nil, nil, err
	}
	sig, ok := first.(*packet.Signature)
	if _, err := packets.Next(); !ok || !errors.Is(err, io.EOF) {
		return nil, nil, errors.New(sayForm)
	}
	return raw, sig, nil
}

// issuer names the key that a signature says it was made with.
func issuer(sig *packet.Signature) string {
	switch {
	case len(sig.IssuerFingerprint) > 0:
		return fmt.Sprintf("PGP key %X", sig.IssuerFingerprint)
	case sig.IssuerKeyId != nil:
		return fmt.Sprintf("PGP key %016X", *sig.IssuerKeyId)
	}
	return "PGP key that it does not name"
}
