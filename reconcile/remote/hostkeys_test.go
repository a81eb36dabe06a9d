package remote_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
)

// told is what was shown in short: type=state of every key, and whether a session would trust the host.
func told(k remote.HostKeys) string {
	var out []string
	for _, s := range k.Shown {
		out = append(out, s.Type+"="+string(s.State))
	}
	if k.Refusal != nil {
		out = append(out, string(k.Refusal.Kind))
	}
	return strings.Join(out, " ")
}

func show(t *testing.T, o remote.Options) remote.HostKeys {
	t.Helper()
	keys, err := remote.ShowHostKeys(t.Context(), o, o.Paths[0])
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// What a server has beside what known_hosts says, and the verdict on a session is the one that a session comes to.
func TestShowHostKeys(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, start func(remotetest.Config) *remotetest.Host) {
		ed, ec, rsa, other := key(t, "ed25519"), key(t, "ecdsa"), key(t, "rsa"), key(t, "ed25519")
		h := start(remotetest.Config{HostKeys: []remotetest.Key{ed, ec, rsa}})
		line := func(k remotetest.Key) string { return h.Line(k.PublicKey()) + "\n" }
		revoked := func(k remotetest.Key) string {
			return "@revoked * " + string(ssh.MarshalAuthorizedKey(k.PublicKey()))
		}
		for _, tc := range []struct{ name, file, told string }{
			{"all", line(ed) + line(ec) + line(rsa), "ssh-ed25519=known ecdsa-sha2-nistp256=known ssh-rsa=known"},
			{"one", h.HashedLine(ec.PublicKey()) + "\n", "ssh-ed25519=additional ecdsa-sha2-nistp256=known ssh-rsa=additional"},
			{"any port", "* " + string(ssh.MarshalAuthorizedKey(rsa.PublicKey())), "ssh-ed25519=additional ecdsa-sha2-nistp256=additional ssh-rsa=known"},
			{"pinned ahead", line(ed) + line(other), "ssh-ed25519=known ecdsa-sha2-nistp256=additional ssh-rsa=additional"},
			{"changed", line(other), "ssh-ed25519=changed ecdsa-sha2-nistp256=additional ssh-rsa=additional host-key-changed"},
			{"changed behind a good one", line(ec) + line(other), "ssh-ed25519=changed ecdsa-sha2-nistp256=known ssh-rsa=additional"},
			{"changed before a good one", line(other) + line(ec), "ssh-ed25519=changed ecdsa-sha2-nistp256=known ssh-rsa=additional host-key-changed"},
			{"revoked", line(ed) + revoked(ed), "ssh-ed25519=revoked ecdsa-sha2-nistp256=additional ssh-rsa=additional host-key-revoked"},
			{"none", "", "ssh-ed25519=unknown ecdsa-sha2-nistp256=unknown ssh-rsa=unknown host-key-unknown"},
		} {
			put(t, h.KnownHosts, tc.file)
			keys := show(t, options(h))
			if got := told(keys); got != tc.told {
				t.Errorf("%s: %s\nwant %s", tc.name, got, tc.told)
			}
			c, err := remote.Dial(t.Context(), options(h))
			if err == nil {
				c.Close()
			}
			if (err == nil) != (keys.Refusal == nil) || err != nil && err.Error() != keys.Refusal.Error() && tc.name != "none" {
				t.Errorf("%s: a session says %v, the showing %v", tc.name, err, keys.Refusal)
			}
		}
		put(t, h.KnownHosts, "# a comment\n"+line(other)+line(ed))
		keys := show(t, options(h))
		if want := fmt.Sprintf("[%s]:%d", h.Name, h.Port); keys.Name != want || !slices.Equal(keys.Files, []string{h.KnownHosts}) {
			t.Errorf("name %s, files %v", keys.Name, keys.Files)
		}
		if k := keys.Known; len(k) != 2 || k[0].Shown || !k[1].Shown || k[1].Place() != h.KnownHosts+":3" || k[0].Fingerprint != ssh.FingerprintSHA256(other.PublicKey()) {
			t.Errorf("known: %+v", k)
		}
		if s := keys.Shown[0]; s.Fingerprint != ssh.FingerprintSHA256(ed.PublicKey()) || !slices.Equal(s.Places, []string{h.KnownHosts + ":3"}) {
			t.Errorf("shown: %+v", s)
		}
		o := options(h)
		o.KnownHosts = []string{filepath.Join(t.TempDir(), "absent")}
		if keys := show(t, o); keys.Shown[0].State != remote.KeyUnknown || keys.Refusal.Kind != remote.KindKnownHosts {
			t.Errorf("without a file: %s", told(keys))
		}
		put(t, h.KnownHosts, "garbage\n")
		if _, err := remote.ShowHostKeys(t.Context(), options(h), options(h).Paths[0]); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("garbage: %v", err)
		}
	})
}

// A certificate is known by its authority, and refused for another one's, or another host's.
func TestShowHostCertificate(t *testing.T) {
	t.Parallel()
	ca, other := key(t, "ed25519"), key(t, "ed25519")
	onBoth(t, func(t *testing.T, start func(remotetest.Config) *remotetest.Host) {
		h := start(remotetest.Config{HostAuthority: &ca})
		authority := func(k remotetest.Key) string { return "@cert-authority " + h.Line(k.PublicKey()) + "\n" }
		const plain, cert = "ssh-ed25519", "ssh-ed25519-cert-v01@openssh.com"
		for _, tc := range []struct{ file, told string }{
			{authority(ca), plain + "=additional " + cert + "=known"},
			{authority(other), plain + "=additional " + cert + "=refused host-certificate"},
			{h.Line(h.HostKeys[0].PublicKey()) + "\n", plain + "=known " + cert + "=additional"},
			{"", plain + "=unknown " + cert + "=unknown host-key-unknown"},
			{authority(ca) + "@revoked * " + string(ssh.MarshalAuthorizedKey(ca.PublicKey())), plain + "=additional " + cert + "=revoked host-key-revoked"},
		} {
			put(t, h.KnownHosts, tc.file)
			keys := show(t, options(h))
			if got := told(keys); got != tc.told {
				t.Errorf("%q: %s\nwant %s", tc.file, got, tc.told)
			}
			if s := keys.Shown[1]; s.Authority != ssh.FingerprintSHA256(ca.PublicKey()) || s.Fingerprint != ssh.FingerprintSHA256(h.HostKeys[0].PublicKey()) {
				t.Errorf("certificate: %+v", s)
			}
		}
		wrong := start(remotetest.Config{HostAuthority: &ca, HostPrincipal: "another"})
		if got := told(show(t, options(wrong))); got != plain+"=additional "+cert+"=refused host-certificate" {
			t.Errorf("another host's: %s", got)
		}
	})
}

// A server that is silent, or not there, ends the showing in its phase.
func TestShowSilentHost(t *testing.T) {
	t.Parallel()
	d := remotetest.SSHD(t, remotetest.Config{})
	d.Freeze()
	o := options(d.Host)
	o.Deadlines.Handshake = 100 * time.Millisecond
	_, err := remote.ShowHostKeys(t.Context(), o, o.Paths[0])
	if e, ok := errors.AsType[*remote.Error](err); !ok || e.Kind != remote.KindTimeout || e.Phase != remote.PhaseHandshake || !strings.Contains(e.Error(), "sent no SSH greeting") {
		t.Errorf("silent: %v", err)
	}
	o.Paths[0].Destination = "ops@[127.0.0.1]:1"
	if _, err := remote.ShowHostKeys(t.Context(), o, o.Paths[0]); err == nil || err.(*remote.Error).Kind != remote.KindUnreachable {
		t.Errorf("nobody: %v", err)
	}
	o.Paths[0].Destination = "ops@[127.0.0.1]:x"
	if _, err := remote.ShowHostKeys(t.Context(), o, o.Paths[0]); err == nil || !strings.Contains(err.Error(), `names port "x", which is not a port`) {
		t.Errorf("no port: %v", err)
	}
}
