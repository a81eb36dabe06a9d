package reconcile

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/signature"
	"stado.internal/stado/reconcile/source"
)

// signerKey is the key of a name, the same on every call.
func signerKey(name string) ssh.Signer {
	seed := sha256.Sum256([]byte(name))
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		panic(err)
	}
	return key
}

// by is the commit signed by somebody.
func (c *commit) by(name string) *commit { return c.with(func(n *commit) { n.signer = name }) }

// trusting is the commit with a document that asks for signatures.
func (c *commit) trusting(trust string) *commit { return c.with(func(n *commit) { n.trust = trust }) }

// trusts is the trust of the commit's document; nil when it has none.
func (c *commit) trusts() *fleet.Trust {
	words := strings.Fields(c.trust)
	if len(words) == 0 {
		return nil
	}
	t := &fleet.Trust{Mode: fleet.TrustMode(words[0]), Signers: map[fleet.SignerName]fleet.Signer{}}
	for _, name := range words[1:] {
		t.Signers[fleet.SignerName(name)] = fleet.Signer{Key: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signerKey(name).PublicKey())))}
	}
	return t
}

// object is the commit as git would store it.
func (c *commit) object() []byte {
	text := fmt.Sprintf("tree %s\nauthor A <a@example.net> 1777629600 +0000\ncommitter A <a@example.net> 1777629600 +0000\n", c.id)
	message := "\n" + c.word + "\n"
	if c.signer == "" {
		return []byte(text + message)
	}
	sig, err := sshsig.Sign(bytes.NewReader([]byte(text+message)), signerKey(c.signer), sshsig.HashSHA512, "git")
	if err != nil {
		panic(err)
	}
	return []byte(text + "gpgsig " + strings.ReplaceAll(strings.TrimSpace(string(sshsig.Armor(sig))), "\n", "\n ") + "\n" + message)
}

// Vouch answers as a store would.
func (r *repo) Vouch(ctx context.Context, q source.Question) (int, *signature.Refusal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.policyErr != nil {
		return 0, nil, r.policyErr
	}
	all := r.tip.chain()
	slices.Reverse(all)
	from := slices.IndexFunc(all, func(c *commit) bool { return c.id == q.Since }) + 1
	if q.Since == "" {
		from = len(all) - 1
	}
	var ids []string
	for _, c := range all[from:] {
		ids = append(ids, c.id)
	}
	first, last := slices.Index(ids, q.Commits[0]), slices.Index(ids, q.Commits[len(q.Commits)-1])
	n, refusal, err := signature.Vouch(ctx, history(all), q.Trust, q.Since, ids, last+1, time.Now())
	return max(0, n-first), refusal, err
}

// history has commits that change one file.
type history []*commit

func (h history) Commit(_ context.Context, id string) ([]byte, error) {
	return h[slices.IndexFunc(h, func(c *commit) bool { return c.id == id })].object(), nil
}

func (h history) Changes(_ context.Context, _, _ string, see func(string) bool) error {
	see("hosts/a1.cue")
	return nil
}

// TestSigned holds which commits a host admits by signature. The word "bad" is refused by a judge, a broken commit does not compile.
func TestSigned(t *testing.T) {
	chain := first(41, "base").trusting("chain ada ben")
	tip := first(41, "base").trusting("tip ada")
	stamped := first(41, "base").with(func(n *commit) { n.stamped = true }).trusting("tip ci")
	rotated := chain.then("r").trusting("chain new").by("ada")
	lowered := tip.then("r").trusting("none ada").by("ada")
	for _, c := range []struct {
		name      string
		held, tip *commit
		admitted  []fleet.Generation
		refused   string
		at        *commit // that the refusal names
		pending   bool
	}{
		{name: "signed", held: chain, tip: chain.then("a").by("ada").then("b").by("ben"), admitted: []fleet.Generation{42, 43}},
		{name: "unsigned", held: chain, tip: chain.then("a"), refused: signature.RuleUnsigned, at: chain.then("a")},
		{name: "unsigned below a signed one", held: chain, tip: chain.then("a").then("b").by("ada"), refused: signature.RuleUnsigned, at: chain.then("a")},
		{name: "a stranger", held: chain, tip: chain.then("a").by("ada").then("b").by("eve"), admitted: []fleet.Generation{42}, refused: signature.RuleUnknown, at: chain.then("a").by("ada").then("b").by("eve")},
		{name: "unsigned, and the document as before", held: chain, tip: chain.touched(), refused: signature.RuleUnsigned, at: chain.touched()},
		{name: "a key that admits itself", held: chain, tip: chain.then("a").trusting("chain eve").by("eve"), refused: signature.RuleUnknown, at: chain.then("a").trusting("chain eve").by("eve")},
		{name: "a key rotated", held: chain, tip: rotated.then("a").by("new"), admitted: []fleet.Generation{42, 43}},
		{name: "a key rotated out", held: chain, tip: rotated.then("a").by("ada"), admitted: []fleet.Generation{42}, refused: signature.RuleUnknown, at: rotated.then("a").by("ada")},
		{name: "signed and bad, then good", held: chain, tip: chain.then("bad").by("ada").then("b").by("ada"), admitted: []fleet.Generation{43}},
		{name: "unsigned and broken", held: chain, tip: chain.then("x").with(func(n *commit) { n.broken = true }), refused: signature.RuleUnsigned, at: chain.then("x").with(func(n *commit) { n.broken = true })},
		{name: "the first trust is nobody's to sign", held: first(41, "base"), tip: first(41, "base").then("a").trusting("chain ada").then("b").by("ada"), admitted: []fleet.Generation{42, 43}},

		{name: "tip", held: tip, tip: tip.then("a").then("b").by("eve").then("c").by("ada"), admitted: []fleet.Generation{42, 43, 44}},
		{name: "past the tip", held: tip, tip: tip.then("a").by("ada").then("b").then("c"), admitted: []fleet.Generation{42}, refused: signature.RuleUnsigned, at: tip.then("a").by("ada").then("b")},
		{name: "a rotation in the middle", held: tip, tip: tip.then("r").trusting("tip new").then("b").by("ada"), admitted: []fleet.Generation{42}, refused: signature.RuleUnknown, at: tip.then("r").trusting("tip new").then("b").by("ada")},
		{name: "a rotation in the middle, signed by both", held: tip, tip: tip.then("r").trusting("tip new").by("ada").then("b").then("c").by("new"), admitted: []fleet.Generation{42, 43, 44}},
		{name: "trust taken back", held: tip, tip: lowered.then("b"), admitted: []fleet.Generation{42, 43}},
		{name: "an unstamped change", held: stamped, tip: same(stamped, "a"), refused: signature.RuleUnsigned, at: same(stamped, "a")},
		{name: "a stamp vouches for what it stamps", held: stamped, tip: same(stamped, "a").then("a").by("ci"), admitted: []fleet.Generation{42}},
		{name: "a signed change waits", held: stamped, tip: same(stamped, "a").by("ci"), pending: true},
		{name: "another history", held: chain, tip: first(60, "x").by("ada"), refused: RuleFork, at: first(60, "x").by("ada")},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := admitted(c.held, c.tip)
			var generations []fleet.Generation
			for _, a := range out.admitted {
				generations = append(generations, a.Generation)
			}
			if diff := cmp.Diff(c.admitted, generations); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
			checkRefusal(t, out, c.at, c.refused, "")
			if out.pending != c.pending || out.observed != "" {
				t.Errorf("pending %v, observed %q", out.pending, out.observed)
			}
		})
	}
}

// TestStrangersText holds that nothing which an unsigned commit says, or which is said of it, is repeated: the refusal is the only finding.
func TestStrangersText(t *testing.T) {
	base := first(41, "base").trusting("chain ada")
	unsigned := base.then("x").with(func(n *commit) { n.unowned = true })
	elsewhere := first(50, "x").with(func(n *commit) { n.broken = true })
	for _, tip := range []*commit{unsigned, elsewhere} {
		out := admitted(base, tip)
		if out.refusal == nil || slices.ContainsFunc(out.refusal.Findings, func(f fleet.Finding) bool { return !strings.HasPrefix(f.Rule, "STADO-SIGN-") }) {
			t.Errorf("%+v", out.refusal)
		}
	}
}

// TestSignedInParts holds that a signed tip vouches for commits of an earlier part, that a part nobody vouches for ends the refresh, and
// that a signature on top then admits all of them, each judged.
func TestSignedInParts(t *testing.T) {
	for _, part := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			base := first(41, "base").trusting("tip ada")
			vouched := base.then("a").then("b").then("c").by("ada")
			open := vouched.then("d").then("e").then("f")
			loopTest(t, base, vouched, func(b *bench) {
				b.repo.part = part
				b.start()
				b.wantAdopted(44)
				b.wantStatus(`serving 0 ""`)
				b.repo.set(func(r *repo) { r.tip = open })
				b.pass(refresh)
				b.wantStatus(fmt.Sprintf(`backing_off 1 %q STADO-SIGN-001`, b.Status().Reason))
				if at := vouched.then("d"); b.Status().Refusals[0].Commit != at.id {
					t.Errorf("names %s, want %s", b.Status().Refusals[0].Commit, at.id)
				}
				since := b.Status().Refusals[0].Since
				b.repo.set(func(r *repo) { r.tip = open.then("g") })
				b.pass(refresh)
				if now := b.Status().Refusals[0].Since; !now.Equal(since) {
					t.Errorf("stands since %s, then since %s", since, now)
				}
				var judged []fleet.Generation
				b.judge = func(previous, next policies.Revision) fleet.Findings {
					judged = append(judged, next.Registry.Directory.Generation)
					return nil
				}
				b.repo.set(func(r *repo) { r.tip = open.then("g").then("h").by("ada") })
				b.pass(refresh)
				b.wantAdopted(49)
				b.wantStatus(`serving 0 ""`)
				if diff := cmp.Diff([]fleet.Generation{45, 46, 47, 48, 49}, judged); diff != "" {
					t.Errorf("judged (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestSignaturesNotRead holds that nothing of an offer counts when its signatures could not be looked at.
func TestSignaturesNotRead(t *testing.T) {
	base := first(41, "base").trusting("tip ada")
	loopTest(t, base, base.then("a").by("ada"), func(b *bench) {
		b.repo.policyErr = errRefused
		b.start()
		b.wantAdopted(41) // what was held
		b.repo.set(func(r *repo) { r.policyErr = nil })
		b.pass(refresh)
		b.wantAdopted(42)
	})
}
