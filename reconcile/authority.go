package reconcile

import "stado.internal/stado/reconcile/authority"

// authorityHost names the authority in sentences, from the document that is held, else as this host was told.
func (r *Reconciler) authorityHost() string {
	if s := r.opts.Store.Snapshot(); s != nil {
		if h := authority.HostOf(s.Registry.Directory.Authority); h != "" {
			return string(h)
		}
	}
	return r.opts.Authority
}
