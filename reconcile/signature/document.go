package signature

import (
	"bytes"

	"stado.internal/stado/fleet"
)

// DocumentNamespace is the purpose that the SSH signature of a document is made for (ssh-keygen -Y sign -n): one made for anything else, a
// commit among it, says nothing of a document.
const DocumentNamespace = "stado-registry"

// VouchDocument gives the reason why a trust does not vouch for a document that no commit holds; nil when it does. file is what was signed,
// byte for byte, and armored its signature as ssh-keygen writes it, nil when there is none. A document does not say which files it changes,
// so only a signer without a scope vouches for one.
func VouchDocument(trust fleet.Trust, file, armored []byte) *Refusal {
	signer, refusal := trusted{}, &Refusal{Kind: Unsigned}
	switch {
	case armored == nil:
	case !bytes.HasPrefix(armored, []byte(beginSSH)):
		refusal = bad(sayFormSSH)
	default:
		signer, refusal = verifySSH(file, armored, DocumentNamespace, signersOf(trust))
	}
	if refusal == nil && len(signer.scope) > 0 {
		refusal = &Refusal{Kind: OutOfScope}
	}
	if refusal != nil {
		refusal.Mode, refusal.Signer = trust.Mode, signer.name
	}
	return refusal
}
