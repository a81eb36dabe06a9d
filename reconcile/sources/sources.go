// Package sources says where a host reads the registry, in which order: from the authority that its registry names, then from the
// repository that it was started with and from that one's mirrors.
package sources

import (
	"log/slog"
	"slices"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/source"
)

// Options make a [Set]. All are required.
type Options struct {
	Started []source.Remote // the repository that the host was started with, then its mirrors
	// Complete fills in how the host reads: its store, its child, its identity.
	Complete func(source.Options) source.Options
	// Self is this host's name in a registry, empty when that does not tell: such a host is no authority.
	Self func(*fleet.Snapshot) fleet.HostName
	// Own is the host's own repository as it reads that, when a registry names it as the authority.
	Own func(own reconcile.Source, held *fleet.Snapshot) reconcile.Source
	Log *slog.Logger
}

// Set are the sources of one host. Only one goroutine may use it at a time.
type Set struct {
	opts    Options
	started []*source.Git
	// declared is the authority that the held registry names; nil when it names none, or one of the repositories above.
	declared *source.Git
	of       source.Options // that declared was made of
}

// New makes the set. It reads nothing.
func New(o Options) *Set {
	s := &Set{opts: o}
	for _, remote := range o.Started {
		s.started = append(s.started, source.New(o.Complete(source.Options{Remote: remote})))
	}
	return s
}

// Order is the authority that the held registry names, then what the host was started with: it is what leads to the registry before
// anything is held, and perhaps after an authority has gone for good. An authority whose repository is among that is read as that says, with its
// credentials.
func (s *Set) Order(held *fleet.Snapshot) []reconcile.Source {
	var o source.Options
	var named bool
	if held != nil {
		var err error
		if o, named, err = source.Authority(held.Registry, s.opts.Self(held)); err != nil {
			s.opts.Log.Warn(err.Error())
		}
	}
	at := slices.IndexFunc(s.opts.Started, func(r source.Remote) bool { return named && r.URL == o.Remote.URL && r.Branch == o.Remote.Branch })
	if i := slices.IndexFunc(s.opts.Started, func(r source.Remote) bool { return r.URL == o.Remote.URL }); named && i >= 0 { // perhaps another branch of it
		o.Remote.CAFile, o.Remote.CredentialFile = s.opts.Started[i].CAFile, s.opts.Started[i].CredentialFile
	}
	if s.declared != nil && (!named || at >= 0 || !o.Same(s.of)) {
		s.declared.Close()
		s.declared = nil
	}
	if named && at < 0 && s.declared == nil {
		s.of, s.declared = o, source.New(s.opts.Complete(o))
	}
	var order []reconcile.Source
	switch {
	case at >= 0:
		order = append(order, s.opts.Own(s.started[at], held))
	case named:
		order = append(order, s.opts.Own(s.declared, held))
	}
	for i, git := range s.started {
		if i != at {
			order = append(order, git)
		}
	}
	return order
}

// Kind says how the first of [Set.Order] is read: "local" when the registry names this host as the authority, else the scheme of the
// address. It may be called from any goroutine.
func (s *Set) Kind(held *fleet.Snapshot) string {
	first := s.opts.Started[0]
	if held != nil {
		self := s.opts.Self(held)
		if self != "" && held.Registry.Directory.Authority.Host == self {
			return "local"
		}
		if o, named, err := source.Authority(held.Registry, self); named && err == nil {
			first = o.Remote
		}
	}
	return first.Scheme()
}

// Close ends what the sources keep open. No read may stand.
func (s *Set) Close() {
	for _, git := range s.started {
		git.Close()
	}
	if s.declared != nil {
		s.declared.Close()
	}
}
