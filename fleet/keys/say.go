package keys

// Why a text is not a key that can be used.
const (
	sayOneLine     = "a public SSH key is one line"
	sayNotSSH      = "it is not a public SSH key (paste the line of the .pub file)"
	sayOptions     = "it has options before the key (take them away)"
	sayCertificate = "it is an SSH certificate (name the key itself)"
	sayNotPGP      = "it is not a public PGP key block (paste what gpg --armor --export KEY prints)"
	sayOneBlock    = "it is not one PGP key block with one key (export one: gpg --armor --export FINGERPRINT)"
	sayPrivate     = "it holds a private key, which is now known to whoever reads the registry (make a new one)"
	sayDSA         = "DSA keys are too weak (make an Ed25519 key)"
	sayShortRSA    = "the RSA key has %d bits, and %d are needed (make an Ed25519 key)"
)
