package sources

import (
	"cmp"
	"fmt"
	"slices"

	"stado.internal/stado/reconcile/source"
)

// Named is a repository as an operator names it.
type Named struct {
	Repository     string // an https, ssh or file URL, or an absolute path
	Branch         string
	CAFile         string // further certificate authorities, in PEM; empty: none
	CredentialFile string // empty: none
}

// Remotes are a repository and its mirrors, none of which may stand there twice. A mirror without a branch or certificate authorities has
// those of the repository; credentials go only where they are meant for.
func Remotes(named []Named) ([]source.Remote, error) {
	var out []source.Remote
	for i, n := range named {
		r, err := source.ParseRemote(n.Repository, cmp.Or(n.Branch, named[0].Branch))
		switch {
		case err != nil && i > 0:
			return nil, fmt.Errorf("mirror %d cannot be read: %w", i, err)
		case err != nil:
			return nil, err
		case slices.ContainsFunc(out, func(other source.Remote) bool { return other.URL == r.URL && other.Branch == r.Branch }):
			return nil, fmt.Errorf("branch %s of %s is named twice as repository or mirror, and a mirror is another copy of the repository (leave one out)", r.Branch, r.URL)
		}
		r.CAFile, r.CredentialFile = cmp.Or(n.CAFile, named[0].CAFile), n.CredentialFile
		out = append(out, r)
	}
	return out, nil
}
