package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// signatureHeaders are where forges put the HMAC-SHA256 of a post's body, in hexadecimal, and what they write before it. The first one that a
// post has counts: some send several of one meaning.
var signatureHeaders = []struct{ name, prefix string }{
	{"X-Hub-Signature-256", "sha256="},
	{"X-Forgejo-Signature", ""},
	{"X-Gitea-Signature", ""},
	{"X-Gogs-Signature", ""},
}

// signatureOf finds the code that a post claims. It is pure.
func signatureOf(header http.Header) (mac []byte, _ error) {
	for _, h := range signatureHeaders {
		values := header.Values(h.name)
		if len(values) == 0 {
			continue
		}
		word, ok := strings.CutPrefix(values[0], h.prefix)
		mac, err := hex.DecodeString(word)
		if len(values) > 1 || !ok || err != nil || len(mac) != sha256.Size {
			return nil, sayMalformed(h.name, h.prefix)
		}
		return mac, nil
	}
	return nil, errUnsigned
}

// signed reports whether a code is that of a body under a secret, in a time that says nothing of either.
func signed(secret, body, mac []byte) bool {
	sum := hmac.New(sha256.New, secret)
	sum.Write(body)
	return hmac.Equal(sum.Sum(nil), mac)
}

// leastSecret is the length, in bytes, below which a secret could be guessed.
const leastSecret = 16

// readSecret reads the secret, which must be nobody else's to read. It never appears in an error.
func readSecret(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the secret of the webhook: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, sayOpenSecret(file, perm)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the secret of the webhook: %w", err)
	}
	line := strings.TrimRight(string(data), "\r\n")
	if strings.ContainsAny(line, "\r\n") || len(line) < leastSecret {
		return nil, sayBadSecret(file)
	}
	return []byte(line), nil
}
