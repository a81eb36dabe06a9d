package signature_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"golang.org/x/crypto/ssh"
)

// objects is a history of commits that change nothing.
type objects map[string][]byte

func (o objects) Commit(_ context.Context, id string) ([]byte, error) {
	if raw, ok := o[id]; ok {
		return raw, nil
	}
	return nil, errors.New("no commit " + id)
}

func (o objects) Changes(context.Context, string, string, func(string) bool) error { return nil }

// securityKey signs as a FIDO key does, in software, and says in its flags whether it was touched.
type securityKey struct {
	private ed25519.PrivateKey
	public  ssh.PublicKey
	flags   byte
}

const application = "ssh:"

func newSecurityKey(t testing.TB, flags byte) securityKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wire := ssh.Marshal(struct {
		Type        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, public, application})
	key, err := ssh.ParsePublicKey(wire)
	if err != nil {
		t.Fatal(err)
	}
	return securityKey{private, key, flags}
}

func (k securityKey) PublicKey() ssh.PublicKey { return k.public }

func (k securityKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	app, message := sha256.Sum256([]byte(application)), sha256.Sum256(data)
	state := []byte{k.flags, 0, 0, 0, 1}
	blob := append(append(append([]byte(nil), app[:]...), state...), message[:]...)
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(k.private, blob), Rest: state}, nil
}
