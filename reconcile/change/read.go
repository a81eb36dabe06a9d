package change

import (
	"context"

	"stado.internal/stado/fleet"
)

// Held is what a registry repository holds, as `stado registry pull` answers it.
type Held struct {
	Location string // the directory, or the URL of the remote
	Commit   string // the store version: what a compare-and-swap expects
	Document []byte
	Registry *fleet.Registry
}

// Read reads the newest registry: that of the remote's branch with Options.Push, else that of the branch here.
func Read(ctx context.Context, o Options) (Held, error) {
	r, err := openRepository(ctx, o.Dir)
	if err != nil {
		return Held{}, err
	}
	out := Held{Location: r.location(ctx, o)}
	if o.Push {
		remote, branch := r.upstream(ctx, o.Remote)
		out.Commit, err = r.fetch(ctx, remote, branch)
	} else {
		out.Commit, err = r.tip(ctx)
	}
	if err != nil {
		return Held{}, err
	}
	d, err := o.draft(ctx, r, out.Commit)
	if err != nil {
		return Held{}, err
	}
	out.Document, out.Registry = d.Document, d.Registry
	return out, nil
}

// Store says where the registry of a repository is kept: at its remote if it has one, else in its own branch.
func Store(ctx context.Context, o Options) (location string, remote bool, err error) {
	r, err := openRepository(ctx, o.Dir)
	if err != nil {
		return "", false, err
	}
	name, _ := r.upstream(ctx, o.Remote)
	o.Push = o.Remote != "" || r.says(ctx, "remote", "get-url", name) != ""
	return r.location(ctx, o), o.Push, nil
}

func (r *repository) location(ctx context.Context, o Options) string {
	if o.Push {
		remote, _ := r.upstream(ctx, o.Remote)
		if url := r.says(ctx, "remote", "get-url", remote); url != "" {
			return url
		}
		return remote
	}
	return r.dir
}
