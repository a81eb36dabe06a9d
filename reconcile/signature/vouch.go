package signature

import (
	"context"
	"time"

	"stado.internal/stado/fleet"
)

// History is a repository in which commits are looked up.
type History interface {
	// Commit gives the bytes of a commit as git stores them.
	Commit(ctx context.Context, id string) ([]byte, error)
	// Changes shows the path of every file in which two commits differ, until see returns false. A file that was renamed is two paths.
	Changes(ctx context.Context, from, to string, see func(path string) bool) error
}

// Vouch looks which commits of a chain a trust vouches for. The chain is oldest first, and goes from since, the commit that was admitted
// last under that trust, to the tip of the branch; an empty since means that this is not known, so that only a signer without a scope can
// vouch for anything.
//
// In mode chain each commit is signed for itself. In mode tip a signed commit vouches for itself and those before it, and its signer's
// scope has to cover what all of them change. The result counts the first commits of the chain that are vouched for, as far as count, and
// says why the next one is not when that is fewer.
func Vouch(ctx context.Context, h History, trust fleet.Trust, since string, chain []string, count int, now time.Time) (int, *Refusal, error) {
	v := voucher{history: h, trust: trust, signers: signersOf(trust), since: since, chain: chain, now: now}
	var refusal *Refusal
	var err error
	n := 0
	for n < count && refusal == nil && err == nil {
		var next int
		if next, refusal, err = v.run(ctx, n); next > n {
			n = next
		}
	}
	if err != nil || refusal == nil {
		return min(n, count), nil, err
	}
	refusal.Mode = trust.Mode
	return n, refusal, nil
}

type voucher struct {
	history History
	trust   fleet.Trust
	signers []trusted
	since   string
	chain   []string
	now     time.Time
}

// run finds where the run of commits from first on ends that one signature vouches for; it ends behind that commit. In mode chain a run
// is one commit.
func (v *voucher) run(ctx context.Context, first int) (int, *Refusal, error) {
	last := len(v.chain)
	if v.trust.Mode != fleet.TrustTip {
		last = first + 1
	}
	var why *Refusal // of the first commit, or of the newest one that somebody signed to no effect
	reach := map[fleet.SignerName]*reach{}
	for i := first; i < last; i++ {
		c, signer, refusal, err := v.signer(ctx, i)
		if err == nil && refusal == nil {
			refusal, err = v.scope(ctx, reach, signer, first, i)
		}
		if err != nil {
			return 0, nil, err
		}
		if refusal == nil {
			return i + 1, nil, nil
		}
		refusal.Commit, refusal.Author, refusal.Signer = v.chain[i], c.Author, signer.name
		switch {
		case refusal.Kind == Malformed:
			return 0, refusal, nil // whatever follows would vouch for an object that can be read in two ways
		case why == nil || refusal.Kind != Unsigned:
			why = refusal
		}
	}
	return 0, why, nil
}

// signer reads a commit and finds out who signed it.
func (v *voucher) signer(ctx context.Context, i int) (Commit, trusted, *Refusal, error) {
	raw, err := v.history.Commit(ctx, v.chain[i])
	if err != nil {
		return Commit{}, trusted{}, nil, err
	}
	c, err := ParseCommit(raw)
	if err != nil {
		return Commit{}, trusted{}, &Refusal{Kind: Malformed, Detail: err.Error()}, nil
	}
	signer, refusal := verify(c, v.signers, v.now)
	return c, signer, refusal, nil
}

// reach is how far the changes of a run have been compared with one signer's scope.
type reach struct {
	next    int
	outside string // the first file outside
	found   bool
}

// scope judges what the commits from first to last change by the scope of the last one's signer.
func (v *voucher) scope(ctx context.Context, all map[fleet.SignerName]*reach, signer trusted, first, last int) (*Refusal, error) {
	if len(signer.scope) == 0 {
		return nil, nil
	}
	r := all[signer.name]
	if r == nil {
		r = &reach{next: first}
		all[signer.name] = r
	}
	for ; r.next <= last && !r.found; r.next++ {
		from := v.since
		if r.next > 0 {
			from = v.chain[r.next-1]
		}
		if r.found = from == ""; r.found {
			break
		}
		err := v.history.Changes(ctx, from, v.chain[r.next], func(path string) bool {
			if signer.covers(path) {
				return true
			}
			r.outside, r.found = path, true
			return false
		})
		if err != nil {
			return nil, err
		}
	}
	if !r.found {
		return nil, nil
	}
	return &Refusal{Kind: OutOfScope, File: r.outside}, nil
}
