// Package remotetest gives tests SSH servers: one in this process, which can fall silent or hang up at every stage, and a real OpenSSH.
package remotetest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"os"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Key is a key pair of a host, a user or an authority.
type Key struct {
	ssh.Signer
	private crypto.Signer
}

// NewKey makes a key pair of a type: "ed25519", "ecdsa" or "rsa".
func NewKey(t testing.TB, kind string) Key {
	t.Helper()
	var private crypto.Signer
	var err error
	switch kind {
	case "ed25519":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case "ecdsa":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		t.Fatalf("there is no key type %q", kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return Key{Signer: signer, private: private}
}

// Write puts the private key into a file as ssh-keygen does, encrypted when there is a passphrase.
func (k Key) Write(t testing.TB, file, passphrase string) {
	t.Helper()
	var block *pem.Block
	var err error
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(k.private, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(k.private, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, pem.EncodeToMemory(block))
}

// Certify has an authority sign the key for a host (ssh.HostCert) or a user (ssh.UserCert), from an hour ago for so long.
func (k Key) Certify(t testing.TB, authority Key, kind uint32, principal string, lasting time.Duration) *ssh.Certificate {
	t.Helper()
	from := time.Now().Add(-time.Hour)
	c := &ssh.Certificate{
		Key: k.PublicKey(), CertType: kind, KeyId: principal, ValidPrincipals: []string{principal},
		ValidAfter: uint64(from.Unix()), ValidBefore: uint64(from.Add(lasting).Unix()),
	}
	if err := c.SignCert(rand.Reader, authority.Signer); err != nil {
		t.Fatal(err)
	}
	return c
}

// WritePublic puts a public key or a certificate into a file, as authorized_keys and -cert.pub have it.
func WritePublic(t testing.TB, file string, keys ...ssh.PublicKey) {
	t.Helper()
	var out []byte
	for _, k := range keys {
		out = append(out, ssh.MarshalAuthorizedKey(k)...)
	}
	write(t, file, out)
}

func write(t testing.TB, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
