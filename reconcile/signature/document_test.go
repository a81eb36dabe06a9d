package signature_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/signature"
)

// TestDocument judges what ssh-keygen signs beside a document, and what it would not.
func TestDocument(t *testing.T) {
	r := newRepo(t)
	own, ci := r.key("own", "-t", "ed25519"), r.key("ci", "-t", "ed25519")
	r.key("other", "-t", "ed25519")
	trust := fleet.Trust{Mode: fleet.TrustTip, Signers: map[fleet.SignerName]fleet.Signer{
		"ada": {Key: own}, "stamp": {Key: ci, Scope: []string{"generation.cue", "hosts/"}},
	}}
	document := []byte("{\"hosts\": {}}\n")
	by := func(key, purpose string) []byte { return r.sshSign(key, purpose)(document) }
	const purpose = signature.DocumentNamespace
	good := by("own", purpose)
	for name, c := range map[string]struct {
		document, signature []byte
		kind                signature.Kind
		words               string
	}{
		"good":               {signature: good},
		"none":               {kind: signature.Unsigned, words: "the document carries no signature (sign the file as it is handed over, with a key"},
		"of a commit":        {signature: by("own", "git"), kind: signature.Bad, words: `it was made for "git", and a document's is made for "stado-registry"`},
		"of a file":          {signature: by("own", "file"), kind: signature.Bad, words: `it was made for "file"`},
		"an unknown signer":  {signature: by("other", purpose), kind: signature.Unknown, words: "the document is signed by an unknown signer: SHA256:"},
		"a signer's scope":   {signature: by("ci", purpose), kind: signature.OutOfScope, words: "signed by stamp, whose scope is not everything, and what it changes is not known (let a signer without a scope sign it)"},
		"a changed document": {document: bytes.Replace(document, []byte("{}"), []byte("{ }"), 1), signature: good, kind: signature.Bad, words: "signature did not verify"},
		"doubled":            {signature: append(bytes.Clone(good), good...), kind: signature.Bad, words: "it is not one SSH signature"},
		"after other words":  {signature: append([]byte("signed\n"), good...), kind: signature.Bad, words: "it is not one SSH signature in the form of ssh-keygen"},
		"cut":                {signature: good[:len(good)/2], kind: signature.Bad, words: "it is not one SSH"},
		"empty":              {signature: []byte{}, kind: signature.Bad, words: "it is not one SSH signature in the form of ssh-keygen"},
		"PGP":                {signature: []byte("-----BEGIN PGP SIGNATURE-----\n"), kind: signature.Bad, words: "it is not one SSH signature in the form of ssh-keygen"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.document == nil {
				c.document = document
			}
			wantKind(t, signature.VouchDocument(trust, c.document, c.signature), c.kind, c.words)
		})
	}
	none := signature.VouchDocument(trust, document, nil)
	if got := none.Finding().String(); strings.Contains(got, "commit  by") || !strings.Contains(got, "ssh-keygen -Y sign -n stado-registry -f KEY FILE") {
		t.Errorf("it says %s", got)
	}
}

// FuzzDocumentSignature: whatever is given as the signature of a document that nobody signed, it does not vouch for it.
func FuzzDocumentSignature(f *testing.F) {
	key := newSecurityKey(f, 1)
	trust := one(fleet.TrustTip, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey()))))
	document := []byte("{}\n")
	sig, err := sshsig.Sign(bytes.NewReader(document), key, sshsig.HashSHA512, signature.DocumentNamespace)
	if err != nil {
		f.Fatal(err)
	}
	if refusal := signature.VouchDocument(trust, document, sshsig.Armor(sig)); refusal != nil {
		f.Fatal(refusal.Finding())
	}
	f.Add(sshsig.Armor(sig))
	f.Add([]byte("-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n"))
	f.Fuzz(func(t *testing.T, given []byte) {
		if signature.VouchDocument(trust, []byte("{ }\n"), given) == nil {
			t.Errorf("%q vouches for another document", given)
		}
	})
}
