package source

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/remote"
)

// Authority is the repository of the authority that a registry names, as the host self reads it: a path of this machine when it is the
// authority itself, the paths of another host in their order, or a forge. Its SSH options are complete but for identity and known hosts.
// ok is false when the registry names none.
func Authority(r *fleet.Registry, self fleet.HostName) (o Options, ok bool, err error) {
	a := r.Directory.Authority
	switch {
	case a.Remote != "":
		o.Remote, err = ParseRemote(a.Remote, a.Branch)
	case a.Host == "":
		return Options{}, false, nil
	case a.Host == self:
		o.Remote, err = ParseRemote(a.Repository, a.Branch)
	default:
		o, err = overHost(r.Hosts[a.Host], a)
	}
	if err != nil {
		return Options{}, false, fmt.Errorf("the registry's authority cannot be read: %w", err)
	}
	return o, true, nil
}

func overHost(h fleet.Host, a fleet.Authority) (Options, error) {
	target, err := h.SSH.Parse()
	if err != nil {
		return Options{}, err
	}
	u := url.URL{Scheme: "ssh", Path: a.Repository, Host: target.Host}
	if strings.Contains(target.Host, ":") {
		u.Host = "[" + target.Host + "]"
	}
	if target.Port != fleet.SSHPort {
		u.Host += ":" + strconv.Itoa(target.Port)
	}
	if target.User != "" {
		u.User = url.User(target.User)
	}
	o := Options{SSH: remote.Options{Host: string(a.Host), Paths: remote.Paths(h)}}
	o.Remote, err = ParseRemote(u.String(), a.Branch)
	return o, err
}

// Same reports whether two options read the same repository over the same paths.
func (o Options) Same(other Options) bool {
	return o.Remote == other.Remote && o.SSH.Host == other.SSH.Host && slices.Equal(o.SSH.Paths, other.SSH.Paths)
}
