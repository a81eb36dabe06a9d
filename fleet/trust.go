package fleet

// SignerName names a signer: the key under `trust.signers`.
type SignerName string

// Trust says whose signatures a commit needs. It is judged by the document that is held, so that a key cannot admit itself.
type Trust struct {
	Mode    TrustMode             `json:"mode"`
	Signers map[SignerName]Signer `json:"signers,omitempty"`
}

// TrustMode says which commits carry a signature.
type TrustMode string

// The trust modes: no commit, the newest one, or every one since the held commit.
const (
	TrustNone  TrustMode = "none"
	TrustTip   TrustMode = "tip"
	TrustChain TrustMode = "chain"
)

// Signer is one person or job whose signature counts.
type Signer struct {
	// Key is a public key as in authorized_keys.
	Key string `json:"key"`
	// Scope lists the files and directories (with a final slash) that the signer may change; empty means all.
	Scope []string `json:"scope,omitempty"`
}
