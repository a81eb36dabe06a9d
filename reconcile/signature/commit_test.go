package signature_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/signature"
)

// The headers of a good commit.
const (
	tree      = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
	parent    = "parent 1111111111111111111111111111111111111111\n"
	author    = "author Ada <ada@example.net> 1777629600 +0200\n"
	committer = "committer Ben <ben@example.net> 1777629601 +0000\n"
	signed    = "gpgsig -----BEGIN SSH SIGNATURE-----\n AAAA\n -----END SSH SIGNATURE-----\n"
)

func TestParseCommit(t *testing.T) {
	raw := tree + parent + parent + author + committer + "encoding UTF-8\n" + signed + "mergetag object 1\n more\n\nsubject\n\nbody\n"
	c, err := signature.ParseCommit([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(raw, signed, "", 1); string(c.Payload) != want {
		t.Errorf("payload %q, want %q", c.Payload, want)
	}
	if want := "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"; string(c.Signature) != want {
		t.Errorf("signature %q, want %q", c.Signature, want)
	}
	if c.Author != "Ada <ada@example.net>" || c.Time.Unix() != 1777629601 || len(c.Parents) != 2 || c.Tree != "4b825dc642cb6eb9a060e54bf8d69288fbee4904" {
		t.Errorf("%+v", c)
	}
	// The header of the other hash signs another object.
	c, err = signature.ParseCommit([]byte(tree + author + committer + strings.Replace(signed, "gpgsig", "gpgsig-sha256", 1) + "\nx\n"))
	if err != nil || c.Signature != nil || string(c.Payload) != tree+author+committer+"\nx\n" {
		t.Errorf("%v: %+v", err, c)
	}
}

func TestMalformedCommit(t *testing.T) {
	for name, c := range map[string]struct{ raw, why string }{
		"empty":                       {"", "its headers do not end"},
		"no message":                  {tree + author + committer, "its headers do not end"},
		"no tree":                     {author + committer + "\nx\n", "author header is doubled or out of place"},
		"no committer":                {tree + author + "\nx\n", "no tree, author or committer"},
		"two trees":                   {tree + tree + author + committer + "\nx\n", "tree header is doubled"},
		"tree at the end":             {tree + author + committer + tree + "\nx\n", "tree header is doubled"},
		"parent behind the author":    {tree + author + parent + committer + "\nx\n", "parent header is out of place"},
		"parent at the end":           {tree + author + committer + parent + "\nx\n", "parent header is out of place"},
		"short parent":                {tree + "parent 1111\n" + author + committer + "\nx\n", "no object id"},
		"two authors":                 {tree + author + author + committer + "\nx\n", "author header is doubled"},
		"two committers":              {tree + author + committer + committer + "\nx\n", "committer header is doubled"},
		"committer first":             {tree + committer + author + "\nx\n", "committer header is doubled or out of place"},
		"something before":            {tree + "note x\n" + author + committer + "\nx\n", "another header stands before its committer"},
		"two signatures":              {tree + author + committer + signed + signed + "\nx\n", "signature header is doubled"},
		"signature first":             {tree + signed + author + committer + "\nx\n", "signature stands before its committer"},
		"empty signature":             {tree + author + committer + "gpgsig \n\nx\n", "signature header is empty"},
		"signature in no words":       {tree + author + committer + "gpgsig\n AAAA\n\nx\n", "signature header is empty"},
		"what looks like a signature": {tree + author + committer + "gpgsig-sha1 x\n\nx\n", "unknown signature header"},
		"author on two lines":         {tree + "author Ada <ada@example.net>\n 1 +0000\n" + committer + "\nx\n", "no time"},
		"committer on two lines":      {tree + author + committer + " x\n\nx\n", "goes on over a second line"},
		"starts in the middle":        {" x\n" + tree + author + committer + "\nx\n", "goes on over a second line"},
		"NUL":                         {tree + author + committer + "note \x00\n\nx\n", "NUL"},
		"no mail":                     {tree + "author Ada 1 +0000\n" + committer + "\nx\n", "not written NAME <MAIL>"},
		"no number":                   {tree + "author Ada <a> x +0000\n" + committer + "\nx\n", "no number of seconds"},
	} {
		_, err := signature.ParseCommit([]byte(c.raw))
		if err == nil || !strings.HasPrefix(err.Error(), "malformed commit: ") || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
		_, refusal, err := signature.Vouch(t.Context(), objects{"c": []byte(c.raw)}, one(fleet.TrustTip, "?"), "", []string{"c"}, 1, now)
		if err != nil {
			t.Fatal(err)
		}
		wantKind(t, refusal, signature.Malformed, c.why)
	}
}

// FuzzCommit holds that a commit which is accepted means the same to the library that walks histories, and that its parts are all there
// is of it. Whatever it is signed with is judged without a crash.
func FuzzCommit(f *testing.F) {
	r := newRepo(f)
	key := r.key("own", "-t", "ed25519")
	plain := r.commit("own", "a")
	f.Add(r.raw(plain))
	f.Add([]byte(tree + parent + author + committer + signed + "\nx\n"))
	f.Add([]byte(tree + author + committer + "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iHUEABYKAB0WIQ==\n -----END PGP SIGNATURE-----\n\nx\n"))
	f.Add([]byte(tree + author + committer + "HG:extra a\nmergetag object\n x\n\nx"))
	_, pgp := pgpKey(f, nil)
	trust := fleet.Trust{Mode: fleet.TrustChain, Signers: map[fleet.SignerName]fleet.Signer{"ada": {Key: key}, "ben": {Key: pgp}}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		n, refusal, err := signature.Vouch(t.Context(), objects{"c": raw}, trust, "", []string{"c"}, 1, now)
		if err != nil || (n == 1) == (refusal != nil) {
			t.Fatal(n, refusal, err)
		}
		c, err := signature.ParseCommit(raw)
		if err != nil {
			return
		}
		o := &plumbing.MemoryObject{}
		o.SetType(plumbing.CommitObject)
		if _, err := o.Write(raw); err != nil {
			t.Fatal(err)
		}
		var other object.Commit
		if err := other.Decode(o); err != nil {
			return
		}
		if len(c.Tree) == 40 {
			var parents []string
			for _, p := range other.ParentHashes {
				parents = append(parents, p.String())
			}
			if other.TreeHash.String() != c.Tree || strings.Join(parents, " ") != strings.Join(c.Parents, " ") {
				t.Fatalf("%q: tree %s with parents %s, and %s with %s", raw, other.TreeHash, parents, c.Tree, c.Parents)
			}
		}
		if c.Signature == nil && !bytes.Contains(raw, []byte("\ngpgsig")) && !bytes.Equal(c.Payload, raw) {
			t.Fatalf("payload %q of %q", c.Payload, raw)
		}
	})
}
