package source

import (
	"context"
	"fmt"
	"io"
	"time"

	"stado.internal/stado/reconcile/signature"
)

// maxVouched is how many commits of a local branch one question is about.
const maxVouched = 10_000

// Vouch answers as [Git.Vouch] does, of a local repository. A commit of the question that does not lie between Since and Tip is an error.
func (r Repository) Vouch(ctx context.Context, q Question) (int, *signature.Refusal, error) {
	chain := []string{q.Tip}
	if q.Since != "" {
		var more bool
		var err error
		if chain, more, err = r.Chain(ctx, q.Since, q.Tip, maxVouched); err != nil {
			return 0, nil, err
		}
		if more {
			return 0, nil, &Error{Phase: PhaseRead, Remote: r.Dir, Kind: KindHistory, Cause: sayHistory(maxVouched)}
		}
	}
	first, last, err := q.within(chain)
	if err != nil {
		return 0, nil, &Error{Phase: PhaseRead, Remote: r.Dir, Kind: KindRevision, Cause: err.Error(), Err: err}
	}
	n, refusal, err := signature.Vouch(ctx, r, q.Trust, q.Since, chain, last+1, time.Now())
	return max(0, n-first), refusal, err
}

// Commit implements [signature.History].
func (r Repository) Commit(ctx context.Context, id string) ([]byte, error) {
	var raw []byte
	err := r.stream(ctx, nil, func(stdout io.Reader) error {
		var err error
		if raw, err = io.ReadAll(io.LimitReader(stdout, maxCommit+1)); err == nil && len(raw) > maxCommit {
			err = fmt.Errorf("commit %s has more than %s of text", id, sayBytes(maxCommit))
		}
		return err
	}, "cat-file", "commit", id)
	return raw, err
}

// Changes implements [signature.History].
func (r Repository) Changes(ctx context.Context, from, to string, see func(path string) bool) error {
	return r.stream(ctx, nil, func(stdout io.Reader) error {
		names := nulScanner(stdout)
		for names.Scan() {
			if !see(names.Text()) {
				return errEnough
			}
		}
		return names.Err()
	}, "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", from, to)
}
