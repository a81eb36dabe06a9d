package signature_test

import (
	"fmt"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/signature"
)

// TestVouch draws histories, oldest commit first: `ada:services/a` is a commit of ada's that changes a file, `-:x` an unsigned one,
// `eve` is a stranger.
func TestVouch(t *testing.T) {
	r := newRepo(t)
	trust := fleet.Trust{Signers: map[fleet.SignerName]fleet.Signer{
		"ada":  {Key: r.key("ada", "-t", "ed25519")},
		"shop": {Key: r.key("shop", "-t", "ed25519"), Scope: []string{"services/shop.cue", "services/shop/"}},
		"ci":   {Key: r.key("ci", "-t", "ed25519"), Scope: []string{"generation.cue"}},
		"lost": {Key: "ssh-ed25519 AAAA"},
	}}
	r.key("eve", "-t", "ed25519")
	base := r.commit("", "hosts/a", "services/shop.cue", "generation.cue")
	for _, c := range []struct {
		mode    fleet.TrustMode
		history string
		count   int
		kind    signature.Kind
		at      int    // the commit that the refusal is of
		words   string // of its sentence
	}{
		{fleet.TrustChain, "ada:hosts/a ada:hosts/b", 2, "", 0, ""},
		{fleet.TrustChain, "ada:hosts/a -:hosts/b ada:hosts/c", 1, signature.Unsigned, 1, "by Ada <ada@example.net> carries no signature"},
		{fleet.TrustChain, "-:hosts/a", 0, signature.Unsigned, 0, "git merge -S --no-ff main"},
		{fleet.TrustChain, "eve:hosts/a ada:hosts/b", 0, signature.Unknown, 0, "unknown signer: SHA256:"},
		{fleet.TrustChain, "shop:services/shop.cue shop:services/shop/x", 2, "", 0, ""},
		{fleet.TrustChain, "shop:services/shop.cue shop:services/shopping.cue", 1, signature.OutOfScope, 1, "services/shopping.cue: STADO-SIGN-004: "},
		{fleet.TrustChain, "ada:hosts/a shop:services/shop.cue,hosts/a", 1, signature.OutOfScope, 1, "is signed by shop, whose scope does not hold hosts/a"},
		{fleet.TrustChain, "ada:hosts/a ci:generation.cue", 2, "", 0, ""},

		{fleet.TrustTip, "-:hosts/a -:hosts/b ada:hosts/c", 3, "", 0, ""},
		{fleet.TrustTip, "-:hosts/a eve:hosts/b ada:hosts/c", 3, "", 0, ""},
		{fleet.TrustTip, "ada:hosts/a -:hosts/b -:hosts/c", 1, signature.Unsigned, 1, "a signed commit on top vouches for those before it"},
		{fleet.TrustTip, "-:hosts/a eve:hosts/b", 0, signature.Unknown, 1, "unknown signer: SHA256:"},
		{fleet.TrustTip, "-:services/shop.cue shop:services/shop/x", 2, "", 0, ""},
		{fleet.TrustTip, "-:hosts/a shop:services/shop.cue", 0, signature.OutOfScope, 1, "whose scope does not hold hosts/a"},
		{fleet.TrustTip, "-:hosts/a shop:services/shop.cue ada:hosts/b", 3, "", 0, ""},
		{fleet.TrustTip, "ada:hosts/a shop:services/shop.cue -:hosts/b ci:generation.cue", 2, signature.OutOfScope, 3, "is signed by ci, whose scope does not hold hosts/b"},
		{fleet.TrustTip, "-:hosts/a -:hosts/a shop:services/shop.cue", 0, signature.OutOfScope, 2, "hosts/a"},
	} {
		t.Run(fmt.Sprintf("%s %s", c.mode, c.history), func(t *testing.T) {
			r.git("reset", "-q", "--hard", base)
			var ids []string
			for commit := range strings.FieldsSeq(c.history) {
				who, files, _ := strings.Cut(commit, ":")
				ids = append(ids, r.commit(strings.Trim(who, "-"), strings.Split(files, ",")...))
			}
			trust.Mode = c.mode
			n, refusal := r.vouch(trust, base)
			if n != c.count {
				t.Errorf("vouches for %d commits, want %d", n, c.count)
			}
			wantKind(t, refusal, c.kind, c.words)
			if refusal != nil && refusal.Commit != ids[c.at] {
				t.Errorf("the refusal is of %s, want %s", refusal.Commit, ids[c.at])
			}
		})
	}
}

// TestVouchUndone holds that a file outside the scope counts although a later commit undoes the change: hosts serve each commit.
func TestVouchUndone(t *testing.T) {
	r := newRepo(t)
	trust := one(fleet.TrustTip, r.key("own", "-t", "ed25519"), "services/")
	base := r.commit("", "hosts/a")
	r.commit("", "hosts/a")
	r.git("revert", "--no-edit", "HEAD")
	r.commit("own", "services/a")
	_, refusal := r.vouch(trust, base)
	wantKind(t, refusal, signature.OutOfScope, "hosts/a")
}

// TestVouchRenamed holds that a file which leaves the scope, or comes into it, is a file outside.
func TestVouchRenamed(t *testing.T) {
	r := newRepo(t)
	trust := one(fleet.TrustChain, r.key("own", "-t", "ed25519"), "services/")
	base := r.commit("", "hosts/a", "services/a")
	for _, names := range [][]string{{"hosts/a", "services/b"}, {"services/a", "hosts/b"}} {
		r.git("reset", "-q", "--hard", base)
		r.git(append([]string{"mv"}, names...)...)
		r.commit("own")
		_, refusal := r.vouch(trust, base)
		wantKind(t, refusal, signature.OutOfScope, "hosts/")
	}
}

// TestVouchPassedBy holds the way out of a chain with a commit that nobody signed: a signed merge whose first parent is the commit before
// it. The branch goes on, and its first-parent chain passes the commit by.
func TestVouchPassedBy(t *testing.T) {
	r := newRepo(t)
	trust := one(fleet.TrustChain, r.key("own", "-t", "ed25519"))
	base := r.commit("", "a")
	bad := r.commit("", "b")
	_, refusal := r.vouch(trust, base)
	wantKind(t, refusal, signature.Unsigned, "git checkout "+bad[:12]+"^ && git merge -S --no-ff main && git push origin HEAD:main")
	r.git("checkout", "-q", bad+"^")
	r.git("-c", "gpg.format=ssh", "-c", "user.signingkey="+r.git("config", "stado.own"), "merge", "-q", "-S", "--no-ff", "--no-edit", "main")
	r.git("push", "-q", ".", "HEAD:main") // no force
	if n, refusal := r.vouch(trust, base); n != 1 {
		t.Error(refusal.Finding())
	}
}

// TestVouchCount holds that what is asked about a part of the chain is answered with the whole chain in view, and no further.
func TestVouchCount(t *testing.T) {
	r := newRepo(t)
	trust := one(fleet.TrustTip, r.key("own", "-t", "ed25519"))
	base := r.commit("", "a")
	chain := []string{r.commit("", "b"), r.commit("", "c"), r.commit("own", "d"), r.commit("", "e")}
	for count, want := range []int{0, 1, 2, 3, 3} {
		n, refusal, err := signature.Vouch(t.Context(), r, trust, base, chain, count, now)
		if err != nil || n != want || (refusal != nil) != (count == 4) {
			t.Errorf("%d of %d: %+v %v", n, count, refusal, err)
		}
	}
	trust = one(fleet.TrustChain, r.key("scoped", "-t", "ed25519"), "f")
	tip := r.commit("scoped", "f")
	_, refusal, err := signature.Vouch(t.Context(), r, trust, "", []string{tip}, 1, now)
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, refusal, signature.OutOfScope, "what it changes is not known")
}

// TestGuard follows walks whose documents change the trust.
func TestGuard(t *testing.T) {
	none, old, rotated := &fleet.Trust{Mode: fleet.TrustNone}, one(fleet.TrustChain, "old"), one(fleet.TrustChain, "new")
	asked := ""
	g := signature.Guard{
		Since: "0", Commits: []string{"1", "2", "3", "4", "5", "6"},
		Ask: func(since string, commits []string, trust fleet.Trust) (int, *signature.Refusal, error) {
			asked += fmt.Sprintf("%s %s by %s, ", since, strings.Join(commits, ""), trust.Signers["ada"].Key)
			if trust.Signers["ada"].Key == "old" {
				return len(commits), nil, nil
			}
			return 1, &signature.Refusal{Commit: commits[1]}, nil
		},
	}
	for i, trust := range []*fleet.Trust{nil, none, &old, &old, &rotated, &rotated} {
		refusal, err := g.Pass(i, trust)
		if err != nil || (refusal != nil) != (i == 5) {
			t.Errorf("%d: %+v %v", i, refusal, err)
		}
	}
	if want := "2 3456 by old, 4 56 by new, "; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	held := signature.Guard{Since: "1", Commits: []string{"1"}}
	if refusal, err := held.Pass(0, &old); refusal != nil || err != nil {
		t.Errorf("the held commit itself: %+v %v", refusal, err)
	}
	short := signature.Guard{Commits: []string{"1"}, Ask: func(string, []string, fleet.Trust) (int, *signature.Refusal, error) { return 0, nil, nil }}
	if _, err := short.Pass(0, &old); err == nil {
		t.Error("no reason, and no error")
	}
}
