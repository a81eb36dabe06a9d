// Package sources says where a host reads the registry, in which order: from the authority that its registry names, then from the
// repository that it was started with.
package sources

import (
	"log/slog"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/source"
)

// Options make a [Set]. All are required.
type Options struct {
	Started source.Remote // the repository that the host was started with
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
	started *source.Git
	// declared is the authority that the held registry names; nil when it names none, or the repository above.
	declared *source.Git
	of       source.Options // that declared was made of
}

// New makes the set. It reads nothing.
func New(o Options) *Set {
	return &Set{opts: o, started: source.New(o.Complete(source.Options{Remote: o.Started}))}
}

// Order is the authority that the held registry names, then the repository that the host was started with: it is what leads to the
// registry before anything is held, and perhaps after an authority has gone for good.
func (s *Set) Order(held *fleet.Snapshot) []reconcile.Source {
	var o source.Options
	var named bool
	if held != nil {
		var err error
		if o, named, err = source.Authority(held.Registry, s.opts.Self(held)); err != nil {
			s.opts.Log.Warn(err.Error())
		}
	}
	same := o.Remote.URL == s.started.String()
	if s.declared != nil && (!named || same || !o.Same(s.of)) {
		s.declared.Close()
		s.declared = nil
	}
	switch {
	case !named:
		return []reconcile.Source{s.started}
	case same:
		return []reconcile.Source{s.opts.Own(s.started, held)}
	case s.declared == nil:
		s.of, s.declared = o, source.New(s.opts.Complete(o))
	}
	return []reconcile.Source{s.opts.Own(s.declared, held), s.started}
}

// Close ends what the sources keep open. No read may stand.
func (s *Set) Close() {
	s.started.Close()
	if s.declared != nil {
		s.declared.Close()
	}
}
