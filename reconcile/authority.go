package reconcile

import (
	"net/url"
	"strings"

	"stado.internal/stado/fleet"
)

// authorityHost names the authority in sentences, from the document that is held, else as this host was told.
func (r *Reconciler) authorityHost() string {
	if s := r.opts.Store.Snapshot(); s != nil {
		if h := hostOf(s.Registry.Directory.Authority); h != "" {
			return h
		}
	}
	return r.opts.Authority
}

// hostOf is the host of an authority: its name in the fleet, or the host of its URL; empty when it has neither.
func hostOf(a fleet.Authority) string {
	if a.Host != "" {
		return string(a.Host)
	}
	if strings.Contains(a.Remote, "://") {
		u, err := url.Parse(a.Remote)
		if err != nil {
			return ""
		}
		return u.Hostname()
	}
	// git's short form, user@host:path
	if before, _, ok := strings.Cut(a.Remote, ":"); ok && !strings.Contains(before, "/") {
		return before[strings.LastIndexByte(before, '@')+1:]
	}
	return ""
}
