package remote

import (
	"strings"

	"stado.internal/stado/fleet"
)

// OpenSSH is the argument by which the ssh program is told where to go: the ssh:// URI for a destination that names a port, user@host
// otherwise. It never looks like an option.
func OpenSSH(d fleet.Destination) (string, error) {
	t, err := d.Parse()
	if err != nil {
		return "", err
	}
	user := ""
	if t.User != "" {
		user = t.User + "@"
	}
	_, port, named := strings.Cut(string(d), "]:")
	if !named {
		return user + t.Host, nil
	}
	host := t.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return "ssh://" + user + host + ":" + port, nil
}
