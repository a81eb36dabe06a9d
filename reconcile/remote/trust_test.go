package remote_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
)

// What known_hosts says, against what a server shows. Nothing is ever learned: the file is as it was.
func TestKnownHosts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, start func(remotetest.Config) *remotetest.Host) {
		ed, ec, rsa, other := key(t, "ed25519"), key(t, "ecdsa"), key(t, "rsa"), key(t, "ed25519")
		h := start(remotetest.Config{HostKeys: []remotetest.Key{ed, ec, rsa}})
		line := func(k remotetest.Key) string { return h.Line(k.PublicKey()) + "\n" }
		plain := func(name string, k remotetest.Key) string {
			return name + " " + string(ssh.MarshalAuthorizedKey(k.PublicKey()))
		}
		name, fp := fmt.Sprintf("[%s]:%d", h.Name, h.Port), ssh.FingerprintSHA256
		for _, tc := range []struct {
			name, file string
			kind       remote.Kind // empty: there is a connection
			says       []string
		}{
			{name: "all keys", file: line(ed) + line(ec) + line(rsa)},
			{name: "one of several", file: line(ed)},
			{name: "another of several", file: line(ec)},
			{name: "rsa alone", file: line(rsa)},
			{name: "hashed", file: h.HashedLine(ed.PublicKey()) + "\n"},
			{name: "any port", file: plain("*", ed)},
			{name: "an additional key of the same type, before it", file: line(other) + line(ed)},
			{name: "an additional key of the same type, after it", file: line(ed) + line(other)},
			{name: "a bad line beside a good one", file: "garbage\n" + line(ed)},
			{name: "another key revoked", file: "@revoked " + plain("*", other) + line(ed)},
			{name: "one key revoked, another good", file: "@revoked " + plain("*", ed) + line(ec)},
			{
				name: "changed", file: "# a comment\n" + line(other), kind: remote.KindHostKeyChanged, says: []string{
					"the host key of " + name + " is another one: the server has ssh-ed25519 " + fp(ed.PublicKey()) + ", ",
					"/known_hosts:2 has ssh-ed25519 " + fp(other.PublicKey()) + " (if the host has a new key, add the key of " + name + " there; if not, somebody else answers)",
				},
			},
			{
				name: "revoked", file: line(ed) + "@revoked " + plain("*", ed), kind: remote.KindHostKeyRevoked,
				says: []string{"the host key of " + name + " is revoked: ", "/known_hosts:2 revokes ssh-ed25519 " + fp(ed.PublicKey()), "give the host a new key"},
			},
			{
				name: "unknown", file: plain("elsewhere.example.net", ed), kind: remote.KindHostKeyUnknown,
				says: []string{"the host key of " + name + " is not known: the server has ", "add the key of " + name + " to " + h.KnownHosts},
			},
			{name: "known under the plain name only", file: plain(h.Name, ed), kind: remote.KindHostKeyUnknown},
			{name: "empty", file: "", kind: remote.KindHostKeyUnknown},
			{name: "garbage alone", file: "garbage\n", kind: remote.KindKnownHosts, says: []string{h.KnownHosts, "line 1"}},
		} {
			put(t, h.KnownHosts, tc.file)
			if tc.kind != "" {
				if e := refusal(t, options(h), remote.PhaseHandshake, tc.kind, tc.says...); !e.Stalled() {
					t.Errorf("%s: not stalled", tc.name)
				}
			} else if c, err := remote.Dial(t.Context(), options(h)); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			} else {
				c.Close()
			}
			if now, err := os.ReadFile(h.KnownHosts); err != nil || string(now) != tc.file {
				t.Errorf("%s: the file was written: %q, %v", tc.name, now, err)
			}
		}
	})
}

// A server without a key of a known type has another key, whatever it is.
func TestForeignKeyType(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, start func(remotetest.Config) *remotetest.Host) {
		h := start(remotetest.Config{HostKeys: []remotetest.Key{key(t, "ecdsa")}})
		put(t, h.KnownHosts, h.Line(key(t, "ed25519").PublicKey())+"\n")
		refusal(t, options(h), remote.PhaseHandshake, remote.KindHostKeyChanged,
			"the server has keys for ecdsa-sha2-nistp256 only, "+h.KnownHosts+" one of ssh-ed25519 (if the host has a new key")
	})
}

func TestHostCertificates(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, start func(remotetest.Config) *remotetest.Host) {
		authority, other := key(t, "ed25519"), key(t, "ed25519")
		h := start(remotetest.Config{HostAuthority: &authority})
		c, err := remote.Dial(t.Context(), options(h))
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		listed, err := os.ReadFile(h.KnownHosts)
		if err != nil {
			t.Fatal(err)
		}
		put(t, h.KnownHosts, string(listed)+"@revoked * "+string(ssh.MarshalAuthorizedKey(authority.PublicKey())))
		refusal(t, options(h), remote.PhaseHandshake, remote.KindHostKeyRevoked, "is revoked: ", h.KnownHosts)
		put(t, h.KnownHosts, "@cert-authority "+h.Line(other.PublicKey())+"\n")
		refusal(t, options(h), remote.PhaseHandshake, remote.KindHostCertificate, "no authorities for hostname", "@cert-authority to "+h.KnownHosts)

		h = start(remotetest.Config{HostAuthority: &authority, HostPrincipal: "elsewhere.example.net"})
		refusal(t, options(h), remote.PhaseHandshake, remote.KindHostCertificate, "not in the set of valid principals")
	})
}

// Without a usable file, or a usable key, nobody is asked.
func TestFilesBeforeTheNetwork(t *testing.T) {
	t.Parallel()
	s := remotetest.Memory(t, remotetest.Config{})
	o := options(s.Host)
	o.KnownHosts = []string{s.KnownHosts + ".missing"}
	refusal(t, o, remote.PhaseHandshake, remote.KindKnownHosts, "no such file", s.KnownHosts+".missing")
	o = options(s.Host)
	o.Identity = remote.Identity{}
	refusal(t, o, remote.PhaseAuthentication, remote.KindIdentity, "there is no identity (name a key file")
	if n := s.Conns.Load(); n != 0 {
		t.Errorf("there were %d connections", n)
	}
}

func TestDefaultKnownHosts(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	s := remotetest.Memory(t, remotetest.Config{})
	o := options(s.Host)
	o.KnownHosts = nil
	if _, err := os.Stat("/etc/ssh/ssh_known_hosts"); err != nil {
		refusal(t, o, remote.PhaseHandshake, remote.KindKnownHosts, "there is no known_hosts file (looked for "+home+"/.ssh/known_hosts, ")
	}
	if err := os.Mkdir(home+"/.ssh", 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	put(t, home+"/.ssh/known_hosts2", string(data))
	c, err := remote.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// The name that is looked up has no capitals, as in OpenSSH.
func TestCapitals(t *testing.T) {
	t.Parallel()
	s := remotetest.Memory(t, remotetest.Config{})
	o := options(s.Host)
	o.Paths[0].Destination = "ops@[Authority.Example.NET]:2222"
	asked := ""
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		asked = address
		return s.Dial(ctx, network, address)
	}
	c, err := remote.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if asked != "authority.example.net:2222" {
		t.Errorf("dialled %s", asked)
	}
}

func key(t *testing.T, kind string) remotetest.Key {
	t.Helper()
	return remotetest.NewKey(t, kind)
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, start func(remotetest.Config) *remotetest.Host) {
		h := start(remotetest.Config{})
		with := func(i remote.Identity) remote.Options { o := options(h); o.Identity = i; return o }
		works := func(name string, o remote.Options) {
			t.Helper()
			c, err := remote.Dial(t.Context(), o)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			c.Close()
		}
		wrong := h.Identity + "-wrong"
		key(t, "ed25519").Write(t, wrong, "")
		holder, stranger := remotetest.Agent(t, key(t, "rsa"), h.Key), remotetest.Agent(t, key(t, "ecdsa"))
		works("agent", with(remote.Identity{Agent: holder}))
		e := refusal(t, with(remote.Identity{File: wrong, Agent: holder}), remote.PhaseAuthentication, remote.KindRefused,
			"SSH identity "+wrong+" was refused for "+h.User+"; no unrelated identity was offered")
		if !e.Stalled() {
			t.Error("a refused identity is not stalled")
		}
		refusal(t, with(remote.Identity{Agent: stranger}), remote.PhaseAuthentication, remote.KindRefused,
			"the keys of the ssh-agent on "+stranger+" were refused for "+h.User)
		refusal(t, with(remote.Identity{Agent: remotetest.Agent(t)}), remote.PhaseAuthentication, remote.KindIdentity, "it holds no key (run: ssh-add)")
		refusal(t, with(remote.Identity{Agent: wrong}), remote.PhaseAuthentication, remote.KindIdentity, "cannot ask the ssh-agent: ")

		// A certificate that is not of the key, beside it, is somebody's mistake and is told.
		cert := h.Key.Certify(t, key(t, "ed25519"), ssh.UserCert, h.User, time.Hour)
		remotetest.WritePublic(t, wrong+"-cert.pub", cert)
		refusal(t, with(remote.Identity{File: wrong}), remote.PhaseAuthentication, remote.KindIdentity, "the certificate "+wrong+"-cert.pub is not a user certificate of the key beside it")
		put(t, wrong+"-cert.pub", "garbage")
		refusal(t, with(remote.Identity{File: wrong}), remote.PhaseAuthentication, remote.KindIdentity, "the certificate "+wrong+"-cert.pub cannot be read")
		// One of an authority that the host does not know does not keep the key from being tried.
		remotetest.WritePublic(t, h.Identity+"-cert.pub", cert)
		works("a useless certificate", options(h))

		h.Key.Write(t, wrong+"-locked", "a passphrase")
		refusal(t, with(remote.Identity{File: wrong + "-locked"}), remote.PhaseAuthentication, remote.KindIdentity, "the identity file "+wrong+"-locked is encrypted (")
		put(t, wrong+"-text", "garbage")
		refusal(t, with(remote.Identity{File: wrong + "-text"}), remote.PhaseAuthentication, remote.KindIdentity, "the identity file "+wrong+"-text is not a private key")
		refusal(t, with(remote.Identity{File: wrong + "-gone"}), remote.PhaseAuthentication, remote.KindIdentity, "cannot read the identity file", "no such file")
		if err := os.Chmod(wrong, 0o640); err != nil {
			t.Fatal(err)
		}
		refusal(t, with(remote.Identity{File: wrong}), remote.PhaseAuthentication, remote.KindIdentity,
			"the identity file "+wrong+" can be used by others (mode 0640; run: chmod 0600 "+wrong+")")
	})
}

func TestUserCertificates(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, start func(remotetest.Config) *remotetest.Host) {
		authority := key(t, "ed25519")
		h := start(remotetest.Config{UserAuthority: &authority})
		c, err := remote.Dial(t.Context(), options(h))
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		remotetest.WritePublic(t, h.Identity+"-cert.pub", h.Key.Certify(t, authority, ssh.UserCert, h.User, time.Minute)) // over for long
		e := refusal(t, options(h), remote.PhaseAuthentication, remote.KindRefused)
		if strings.Contains(e.Error(), "PRIVATE") {
			t.Error("the sentence carries a secret")
		}
	})
}
