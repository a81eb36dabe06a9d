package reconcile

import (
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
)

// authorityHost names the authority that is asked, in sentences: the one of what is served, else of what is held, else as this host was told.
func (r *Reconciler) authorityHost(served *fleet.Snapshot) string {
	s := served
	if s == nil {
		s = r.opts.Store.Snapshot()
	}
	if s != nil {
		if h := authority.HostOf(s.Registry.Directory.Authority); h != "" {
			return string(h)
		}
	}
	return r.opts.Authority
}
