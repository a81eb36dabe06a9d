package keys

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"io"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"
)

func sshLine(t testing.TB, public any) string {
	t.Helper()
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func block(t testing.TB, serialize ...func(io.Writer) error) string {
	t.Helper()
	var out bytes.Buffer
	w, err := armor.Encode(&out, openpgp.PublicKeyType, nil)
	for _, s := range serialize {
		if err == nil {
			err = s(w)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func entity(t testing.TB, bits int) *openpgp.Entity {
	t.Helper()
	e, err := openpgp.NewEntity("Ada", "", "ada@example.net", &packet.Config{RSABits: bits})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func short(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestParse(t *testing.T) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	line := sshLine(t, public)
	ada, ben := entity(t, 2048), entity(t, 2048)
	one := block(t, ada.Serialize)
	for name, c := range map[string]struct{ text, refused string }{
		"ed25519":             {line, ""},
		"with a comment":      {line + " ada@desk", ""},
		"ecdsa":               {sshLine(t, &curve.PublicKey), ""},
		"PGP":                 {one, ""},
		"PGP with a line end": {one + "\n", ""},
		"nothing":             {"", sayNotSSH},
		"cut":                 {line[:40], sayNotSSH},
		"two lines":           {line + "\n" + line, sayOneLine},
		"options":             {`restrict ` + line, sayOptions},
		"short RSA":           {sshLine(t, &short(t).PublicKey), "the RSA key has 1024 bits, and 2048 are needed"},
		"PGP, two blocks":     {one + "\n" + one, sayOneBlock},
		"PGP, two keys":       {block(t, ada.Serialize, ben.Serialize), sayOneBlock},
		"PGP, not ended":      {one[:len(one)-10], sayOneBlock},
		"PGP, of nothing":     {pgpBegin + "\n\n" + pgpEnd, sayOneBlock},
		"PGP, of words":       {pgpBegin + "\n\nAAAA\n" + pgpEnd, sayNotPGP},
		"PGP, private":        {block(t, func(w io.Writer) error { return ben.SerializePrivate(w, nil) }), sayPrivate},
	} {
		key, err := Parse(c.text)
		switch {
		case c.refused != "":
			if err == nil || !strings.HasPrefix(err.Error(), c.refused) {
				t.Errorf("%s: %v, want %q", name, err, c.refused)
			}
		case err != nil || (key.SSH == nil) == (key.PGP == nil) || key.Fingerprint == "":
			t.Errorf("%s: %+v %v", name, key, err)
		}
	}
}

// TestFingerprint holds that two texts of one key have one fingerprint, and two keys have two.
func TestFingerprint(t *testing.T) {
	ada := entity(t, 2048)
	a, err := Parse(block(t, ada.Serialize))
	if err != nil {
		t.Fatal(err)
	}
	if err := ada.AddSigningSubkey(nil); err != nil {
		t.Fatal(err)
	}
	text := block(t, ada.Serialize)
	b, err := Parse(text)
	if err != nil || a.Fingerprint != b.Fingerprint || len(a.Fingerprint) != 40 {
		t.Errorf("%s and %s: %v", a.Fingerprint, b.Fingerprint, err)
	}
	if other, err := Parse(block(t, entity(t, 2048).Serialize)); err != nil || other.Fingerprint == a.Fingerprint {
		t.Errorf("%s: %v", other.Fingerprint, err)
	}
}

// FuzzParse holds that a key which is accepted can be named.
func FuzzParse(f *testing.F) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sshLine(f, public))
	f.Add(block(f, entity(f, 2048).Serialize))
	f.Fuzz(func(t *testing.T, text string) {
		if key, err := Parse(text); err == nil && ((key.SSH == nil) == (key.PGP == nil) || key.Fingerprint == "") {
			t.Fatalf("%q: %+v", text, key)
		}
	})
}
