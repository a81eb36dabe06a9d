package signature

import (
	"bytes"
	"encoding/pem"
	"strings"

	"github.com/hiddeco/sshsig"
)

// namespace is the purpose that git gives its SSH signatures: one made for anything else says nothing of a commit.
const namespace = "git"

// userPresent is the flag of a security key that was touched for the signature.
const userPresent = 1

// verifySSH finds the signer of a payload by an armored signature that was made for a purpose.
func verifySSH(payload, armored []byte, purpose string, signers []trusted) (trusted, *Refusal) {
	block, rest := pem.Decode(armored)
	if block == nil || block.Type != sshsig.PEMType || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return trusted{}, bad(sayFormSSH)
	}
	sig, err := sshsig.ParseSignature(block.Bytes)
	if err != nil {
		return trusted{}, bad(err.Error())
	}
	key := sig.PublicKey.Marshal()
	for _, s := range signers {
		if s.key.SSH == nil || !bytes.Equal(s.key.SSH.Marshal(), key) {
			continue
		}
		if sig.Namespace != purpose {
			return s, bad(sayNamespace(sig.Namespace, purpose))
		}
		if rest := sig.Signature.Rest; strings.HasPrefix(sig.PublicKey.Type(), "sk-") && (len(rest) == 0 || rest[0]&userPresent == 0) {
			return s, bad(sayUntouched)
		}
		if err := sshsig.Verify(bytes.NewReader(payload), sig, s.key.SSH, sig.HashAlgorithm, purpose); err != nil {
			return s, bad(err.Error())
		}
		return s, nil
	}
	return trusted{}, &Refusal{Kind: Unknown, Key: fingerprint(sig.PublicKey)}
}
