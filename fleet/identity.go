package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// NormalizeIdentity is the form in which host identities are compared: trimmed, lower case, without a trailing dot.
func NormalizeIdentity(s string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), ".")
}

// Identities is the set of names a host answers to: its own, its host names and the host part of its SSH destination, normalized, in
// that order and without repetition.
func (h Host) Identities(name HostName) []string {
	out := []string{NormalizeIdentity(string(name))}
	add := func(s string) {
		if s = NormalizeIdentity(s); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, n := range h.Hostnames {
		add(n)
	}
	if h.SSH != "" {
		if t, err := h.SSH.Parse(); err == nil {
			add(t.Host)
		}
	}
	return out
}

// HostByIdentity finds the host that a system host name stands for. The comparison is on the whole name first, then on its first
// label, so that `a1` and `a1.example.net` find the same host. It fails when none or more than one matches.
func (r *Registry) HostByIdentity(hostname string) (HostName, error) {
	full := NormalizeIdentity(hostname)
	short, _, _ := strings.Cut(full, ".")
	for _, id := range slices.Compact([]string{full, short}) {
		var found []string
		for _, name := range r.HostNames() {
			if slices.Contains(r.Hosts[name].Identities(name), id) {
				found = append(found, string(name))
			}
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return HostName(found[0]), nil
		}
		return "", fmt.Errorf("hostname '%s' matches multiple registry targets: %s", id, strings.Join(found, ", "))
	}
	return "", fmt.Errorf("resolver host %q has no registry target identity (name the host with --host, or add the name to its hostnames)", hostname)
}
