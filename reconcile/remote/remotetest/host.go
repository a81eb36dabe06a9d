package remotetest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"stado.internal/stado/fleet"
)

// Config is what a server is to be. The zero value has one host key and lets one user in.
type Config struct {
	HostKeys []Key // none: an ed25519 key
	// HostAuthority, when set, vouches for the first host key, under the name of HostPrincipal, or of the host when that is empty.
	HostAuthority *Key
	HostPrincipal string
	// UserAuthority, when set, vouches for users. The user's own key is then not enough.
	UserAuthority *Key
	Address       string // where a real server listens; empty: 127.0.0.1
	// Within is the command, with its arguments, that starts a real server in a network of its own, where every port is free; none: this network.
	Within []string
	// MaxStartups is how many connections a real server has before their authentication, as its configuration says it; empty: 100.
	MaxStartups string
	// Env, NAME=value each, is what a session of a real server has in its environment beside the usual.
	Env []string
}

// Host is a running server and the files by which one may get in.
type Host struct {
	User        string
	Name        string // the host's name or address
	Port        int
	Destination fleet.Destination
	HostKeys    []Key
	KnownHosts  string // a file that knows the host's keys
	Key         Key    // of the user
	Identity    string // the file of that key
	// Dial reaches the server; nil where the network does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	dir string
}

// day is how long certificates last.
const day = 24 * time.Hour

func newHost(t testing.TB, c Config, user, name string, port int) *Host {
	t.Helper()
	h := &Host{User: user, Name: name, Port: port, HostKeys: c.HostKeys, Key: NewKey(t, "ed25519"), dir: t.TempDir()}
	if len(h.HostKeys) == 0 {
		h.HostKeys = []Key{NewKey(t, "ed25519")}
	}
	h.Destination = fleet.Destination(fmt.Sprintf("%s@[%s]:%d", user, name, port))
	h.Identity, h.KnownHosts = filepath.Join(h.dir, "identity"), filepath.Join(h.dir, "known_hosts")
	h.Key.Write(t, h.Identity, "")
	lines := ""
	for _, k := range h.HostKeys {
		lines += h.Line(k.PublicKey()) + "\n"
	}
	if c.HostAuthority != nil {
		lines = "@cert-authority " + h.Line(c.HostAuthority.PublicKey()) + "\n"
	}
	write(t, h.KnownHosts, []byte(lines))
	if c.UserAuthority != nil {
		WritePublic(t, h.Identity+"-cert.pub", h.Key.Certify(t, *c.UserAuthority, ssh.UserCert, user, day))
	}
	return h
}

// Line is a known_hosts line that gives the host a key.
func (h *Host) Line(key ssh.PublicKey) string { return knownhosts.Line([]string{h.address()}, key) }

// HashedLine is the same without the host's name in it.
func (h *Host) HashedLine(key ssh.PublicKey) string {
	return knownhosts.Line([]string{knownhosts.HashHostname(knownhosts.Normalize(h.address()))}, key)
}

func (h *Host) address() string { return net.JoinHostPort(h.Name, strconv.Itoa(h.Port)) }

func (c Config) hostCertificate(t testing.TB, h *Host) *ssh.Certificate {
	t.Helper()
	if c.HostAuthority == nil {
		return nil
	}
	principal := c.HostPrincipal
	if principal == "" {
		principal = h.Name
	}
	return h.HostKeys[0].Certify(t, *c.HostAuthority, ssh.HostCert, principal, day)
}
