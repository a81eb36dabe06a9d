package signature

import (
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"stado.internal/stado/fleet"
)

// Why a signature does not hold.
const (
	sayX509      = "it is an X.509 signature, and signers have SSH or PGP keys"
	sayForm      = "it is not one SSH or PGP signature"
	sayFormSSH   = "it is not one SSH signature in the form of ssh-keygen"
	sayPurpose   = "it was not made over data"
	sayUntouched = "the security key was not touched for it"
)

// sayNoReason is a defect of whoever answers.
const sayNoReason = "a commit is neither vouched for nor is there a reason why not"

func sayNamespace(given, purpose string) string {
	of := "a commit's"
	if purpose == DocumentNamespace {
		of = "a document's"
	}
	return fmt.Sprintf("it was made for %q, and %s is made for %q", fleet.OneLine(given, maxDetail), of, purpose)
}

func sayHash(name string) string { return "its hash " + name + " is too weak" }

func sayExpired(err error, at time.Time) string {
	return fmt.Sprintf("%v at %s", err, at.UTC().Format(time.RFC3339))
}

func fingerprint(key ssh.PublicKey) string { return ssh.FingerprintSHA256(key) }

// Finding is the refusal in the form in which every judge speaks.
func (r Refusal) Finding() fleet.Finding {
	f := fleet.Finding{Rule: r.Kind.Rule(), Severity: fleet.SeverityError, File: r.File, Message: r.say(), Hint: r.hint()}
	return fleet.Findings{f}.Clean()[0]
}

func (r Refusal) say() string {
	commit := fmt.Sprintf("commit %.12s by %s", r.Commit, r.Author)
	if r.Commit == "" {
		commit = "the document"
	}
	switch r.Kind {
	case Unsigned:
		return commit + " carries no signature"
	case Malformed:
		return fmt.Sprintf("commit %.12s: %s", r.Commit, r.Detail)
	case Unknown:
		return commit + " is signed by an unknown signer: " + r.Key
	case OutOfScope:
		if r.File == "" {
			return fmt.Sprintf("%s is signed by %s, whose scope is not everything, and what it changes is not known", commit, r.Signer)
		}
		return fmt.Sprintf("%s is signed by %s, whose scope does not hold %s", commit, r.Signer, r.File)
	case Expired:
		return fmt.Sprintf("%s is signed by %s with a key or a signature that had ended: %s", commit, r.Signer, r.Detail)
	case Bad:
	}
	return commit + " has a signature that does not hold: " + r.Detail
}

func (r Refusal) hint() string {
	if r.Commit == "" {
		return r.documentHint()
	}
	switch r.Kind {
	case OutOfScope:
		return fmt.Sprintf("let a signer sign whose scope holds it, or widen trust.signers.%s.scope in a commit of another signer first", r.Signer)
	case Unknown:
		return "sign with a key that trust.signers of the held registry names; a new key is added in a commit that a known one signs" + r.passed()
	case Malformed:
		return "write the commit with git itself" + r.passed()
	case Unsigned, Bad, Expired:
	}
	return "sign with a key that trust.signers of the held registry names" + r.passed()
}

func (r Refusal) documentHint() string {
	if r.Kind == OutOfScope {
		return "let a signer without a scope sign it"
	}
	return "sign the file as it is handed over, with a key that trust.signers of the held registry names: ssh-keygen -Y sign -n " + DocumentNamespace +
		" -f KEY FILE, and give --signature FILE.sig; or hand over a bundle of signed commits: stado registry bundle create"
}

// passed is how a branch gets on that holds such a commit already, without being rewound.
func (r Refusal) passed() string {
	if r.Mode == fleet.TrustTip && r.Kind != Malformed {
		return ": a signed commit on top vouches for those before it"
	}
	return fmt.Sprintf("; when it is published, pass it by with a signed merge into the commit before it: git checkout %.12s^ && git merge -S --no-ff main && git push origin HEAD:main",
		r.Commit)
}
