package signature_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"stado.internal/stado/fleet"
	"stado.internal/stado/fleet/keys"
	"stado.internal/stado/reconcile/signature"
)

// wantKind fails unless a refusal is of a kind, none for "", and its sentence holds some words.
func wantKind(t *testing.T, got *signature.Refusal, kind signature.Kind, words string) {
	t.Helper()
	switch {
	case got == nil && kind != "":
		t.Fatalf("vouched for, want %s", kind)
	case got != nil && got.Kind != kind:
		t.Fatalf("%s: %s, want %q", got.Kind, got.Finding(), kind)
	case got != nil && !strings.Contains(got.Finding().String(), words):
		t.Fatalf("%s does not say %q", got.Finding(), words)
	case got != nil && got.Finding().Rule != kind.Rule():
		t.Fatalf("rule %s for %s", got.Finding().Rule, kind)
	}
}

// TestGitCommitSSH judges what git and ssh-keygen sign.
func TestGitCommitSSH(t *testing.T) {
	for name, options := range map[string][]string{
		"ed25519": {"-t", "ed25519"}, "ecdsa": {"-t", "ecdsa", "-b", "384"}, "rsa": {"-t", "rsa", "-b", "3072"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			key := r.key("own", options...)
			base := r.commit("", "a")
			r.commit("own", "b")
			if n, refusal := r.vouch(one(fleet.TrustChain, key), base); n != 1 {
				t.Errorf("own: %s", refusal.Finding())
			}
			_, refusal := r.vouch(one(fleet.TrustChain, r.key("other", options...)), base)
			print := strings.Fields(r.run([]byte(key), "ssh-keygen", "-lf", "-"))[1]
			wantKind(t, refusal, signature.Unknown, "commit "+r.git("rev-parse", "HEAD")[:12]+" by Ada <ada@example.net> is signed by an unknown signer: "+print)
		})
	}
}

// TestSSHSignature judges signatures that git would not make.
func TestSSHSignature(t *testing.T) {
	r := newRepo(t)
	key, rsa := r.key("own", "-t", "ed25519"), r.key("rsa", "-t", "rsa", "-b", "2048")
	base := r.commit("", "a")
	plain := r.commit("", "b")
	remade := func(change func(*sshsig.Signature)) func([]byte) []byte {
		return func(payload []byte) []byte {
			sig, err := sshsig.Unarmor(r.sshSign("own", "git")(payload))
			if err != nil {
				t.Fatal(err)
			}
			change(sig)
			return sshsig.Armor(sig)
		}
	}
	for name, c := range map[string]struct {
		sign  func([]byte) []byte
		trust string
		kind  signature.Kind
		words string
	}{
		"sha512":        {sign: r.sshSign("own", "git")},
		"sha256":        {sign: r.sshSign("own", "git", "-O", "hashalg=sha256")},
		"rsa":           {sign: r.sshSign("rsa", "git"), trust: rsa},
		"other purpose": {sign: r.sshSign("own", "file"), kind: signature.Bad, words: `it was made for "file", and a commit's is made for "git"`},
		"other bytes": {
			sign: func(p []byte) []byte { return r.sshSign("own", "git")(append(p, '!')) }, kind: signature.Bad, words: "does not hold: ssh: signature did not verify",
		},
		"sha1": {
			sign: func(p []byte) []byte {
				sig, err := sshsig.Unarmor(r.sshSign("rsa", "git")(p))
				if err != nil {
					t.Fatal(err)
				}
				sig.Signature.Format = ssh.KeyAlgoRSA
				return sshsig.Armor(sig)
			}, trust: rsa, kind: signature.Bad, words: `invalid signature format "ssh-rsa"`,
		},
		"unknown hash":  {sign: remade(func(s *sshsig.Signature) { s.HashAlgorithm = "md5" }), kind: signature.Bad, words: "md5"},
		"later version": {sign: remade(func(s *sshsig.Signature) { s.Version = 2 }), kind: signature.Bad, words: "version"},
		"two blocks": {
			sign: func(p []byte) []byte { s := r.sshSign("own", "git")(p); return append(s, s...) }, kind: signature.Bad, words: "not one SSH signature",
		},
		"cut":   {sign: func(p []byte) []byte { return r.sshSign("own", "git")(p)[:90] }, kind: signature.Bad, words: "not one SSH signature"},
		"words": {sign: func([]byte) []byte { return []byte("signed, Ada") }, kind: signature.Bad, words: "not one SSH or PGP signature"},
		"X.509": {sign: func([]byte) []byte { return []byte("-----BEGIN SIGNED MESSAGE-----\nMII=\n") }, kind: signature.Bad, words: "X.509"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.trust == "" {
				c.trust = key
			}
			r.git("update-ref", "refs/heads/main", r.sign(plain, c.sign))
			_, refusal := r.vouch(one(fleet.TrustChain, c.trust), base)
			wantKind(t, refusal, c.kind, c.words)
		})
	}
}

// TestSecurityKey holds that a signature of a security key counts when it was touched. The key is made of software.
func TestSecurityKey(t *testing.T) {
	for flags, kind := range map[byte]signature.Kind{1: "", 0: signature.Bad} {
		key := newSecurityKey(t, flags)
		payload := []byte("tree " + strings.Repeat("a", 40) + "\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n")
		sig, err := sshsig.Sign(bytes.NewReader(payload), key, sshsig.HashSHA512, "git")
		if err != nil {
			t.Fatal(err)
		}
		h := objects{"c": withSignature(payload, sshsig.Armor(sig))}
		trust := one(fleet.TrustChain, string(ssh.MarshalAuthorizedKey(key.PublicKey()))[:len(ssh.MarshalAuthorizedKey(key.PublicKey()))-1])
		_, refusal, err := signature.Vouch(t.Context(), h, trust, "", []string{"c"}, 1, now)
		if err != nil {
			t.Fatal(err)
		}
		wantKind(t, refusal, kind, "the security key was not touched")
	}
}

// TestGitCommitPGP judges what git and gpg sign.
func TestGitCommitPGP(t *testing.T) {
	r := newRepo(t)
	home, err := os.MkdirTemp("", "gpg") // its sockets' names are short
	if err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "GNUPGHOME="+home)
	t.Cleanup(func() {
		r.run(nil, "gpgconf", "--kill", "all")
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	r.run(nil, "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "ada@example.net", "ed25519", "sign", "never")
	key := r.run(nil, "gpg", "--armor", "--export", "ada@example.net")
	base := r.commit("", "a")
	r.env = append(r.env, "GIT_COMMITTER_DATE=") // now, as the key's
	r.git("-c", "user.signingkey=ada@example.net", "-c", "gpg.format=openpgp", "commit", "-q", "--allow-empty", "-S", "-m", "signed")
	if _, refusal := r.vouch(one(fleet.TrustChain, key), base); refusal != nil {
		t.Error(refusal.Finding())
	}
	gpg := func(options ...string) func([]byte) []byte {
		return func(payload []byte) []byte {
			return []byte(r.run(payload, "gpg", append(options, "--batch", "--quiet", "--local-user", "ada@example.net", "--armor", "--detach-sign")...) + "\n")
		}
	}
	signed := r.git("rev-parse", "HEAD")
	r.git("commit", "-q", "--amend", "--allow-empty", "--no-gpg-sign", "-m", "plain")
	plain := r.git("rev-parse", "HEAD")
	r.git("update-ref", "refs/heads/main", r.sign(plain, gpg("--digest-algo", "SHA1")))
	_, refusal := r.vouch(one(fleet.TrustChain, key), base)
	wantKind(t, refusal, signature.Bad, "its hash SHA-1 is too weak")

	r.run(nil, "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "old@example.net", "dsa1024", "sign", "never")
	if _, err := keys.Parse(r.run(nil, "gpg", "--armor", "--export", "old@example.net")); err == nil || !strings.Contains(err.Error(), "DSA") {
		t.Errorf("a DSA key: %v", err)
	}

	r.git("update-ref", "refs/heads/main", signed)
	_, other := pgpKey(t, nil)
	_, refusal = r.vouch(one(fleet.TrustChain, other), base)
	list := r.run(nil, "gpg", "--with-colons", "--list-keys", "ada@example.net")
	_, after, _ := strings.Cut(list, "\nfpr:::::::::")
	print, _, _ := strings.Cut(after, ":")
	wantKind(t, refusal, signature.Unknown, "unknown signer: PGP key "+print)
}

// TestPGPSignature judges signatures of keys that end, and those that gpg would not make. Commits are of 1 May 2026, 10:00.
func TestPGPSignature(t *testing.T) {
	r := newRepo(t)
	base := r.commit("", "a")
	plain := r.commit("", "b")
	at := func(t time.Time) *packet.Config { return &packet.Config{Time: func() time.Time { return t }} }
	commit := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	good, goodKey := pgpKey(t, at(commit.AddDate(-1, 0, 0)))
	days := func(n uint32) *packet.Config {
		c := at(commit.AddDate(0, 0, -10))
		c.KeyLifetimeSecs = n * 24 * 3600
		return c
	}
	later, laterKey := pgpKey(t, days(20))
	ended, endedKey := pgpKey(t, days(5))
	sign := func(e *openpgp.Entity, c *packet.Config) func([]byte) []byte {
		return func(payload []byte) []byte {
			return []byte(armored(t, openpgp.SignatureType, func(w io.Writer) error { return openpgp.DetachSign(w, e, bytes.NewReader(payload), c) }))
		}
	}
	revoked, _ := pgpKey(t, days(0))
	before := sign(revoked, at(commit.AddDate(0, 0, -9)))(r.raw(plain))
	if err := revoked.RevokeKey(packet.KeyCompromised, "lost", at(commit.AddDate(0, 0, -1))); err != nil {
		t.Fatal(err)
	}
	revokedKey := armored(t, openpgp.PublicKeyType, revoked.Serialize)
	for name, c := range map[string]struct {
		sign  func([]byte) []byte
		key   string
		kind  signature.Kind
		words string
	}{
		"good":                {sign: sign(good, at(commit)), key: goodKey},
		"made a moment later": {sign: sign(good, at(commit.Add(time.Minute))), key: goodKey},
		"made a year later":   {sign: sign(good, at(commit.AddDate(1, 0, 0))), key: goodKey, kind: signature.Expired, words: "2026-05-01T10:00:00Z"},
		"key ended since":     {sign: sign(later, at(commit)), key: laterKey},
		"key had ended":       {sign: sign(ended, at(commit.AddDate(0, 0, -9))), key: endedKey, kind: signature.Expired, words: "signed by ada with a key or a signature that had ended"},
		"key was revoked":     {sign: func([]byte) []byte { return before }, key: revokedKey, kind: signature.Expired, words: "revoked"},
		"over other bytes":    {sign: func(p []byte) []byte { return sign(good, at(commit))(append(p, '!')) }, key: goodKey, kind: signature.Bad, words: "invalid signature"},
		"two signatures in one block": {sign: func(p []byte) []byte {
			return []byte(armored(t, openpgp.SignatureType, func(w io.Writer) error {
				if err := openpgp.DetachSign(w, good, bytes.NewReader(p), at(commit)); err != nil {
					return err
				}
				return openpgp.DetachSign(w, ended, bytes.NewReader(p), at(commit.AddDate(0, 0, -9)))
			}))
		}, key: goodKey, kind: signature.Bad, words: "not one SSH or PGP signature"},
		"two blocks": {sign: func(p []byte) []byte { s := sign(good, at(commit))(p); return append(s, s...) }, key: goodKey, kind: signature.Bad, words: "not one SSH or PGP signature"},
		"of a text": {sign: func(p []byte) []byte {
			return []byte(armored(t, openpgp.SignatureType, func(w io.Writer) error { return openpgp.DetachSignText(w, good, bytes.NewReader(p), at(commit)) }))
		}, key: goodKey, kind: signature.Bad, words: "not made over data"},
		"armored as something else": {sign: func(p []byte) []byte {
			return bytes.ReplaceAll(sign(good, at(commit))(p), []byte("END PGP SIGNATURE"), []byte("END PGP MESSAGE"))
		}, key: goodKey, kind: signature.Bad, words: "not one SSH or PGP signature"},
	} {
		t.Run(name, func(t *testing.T) {
			r.git("update-ref", "refs/heads/main", r.sign(plain, c.sign))
			_, refusal := r.vouch(one(fleet.TrustChain, c.key), base)
			wantKind(t, refusal, c.kind, c.words)
		})
	}
}
