package remote

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"stado.internal/stado/fleet"
)

// DefaultKnownHosts are the files that OpenSSH reads when nothing else is configured; they need not exist.
func DefaultKnownHosts() []string {
	var out []string
	if home, err := os.UserHomeDir(); err == nil {
		out = append(out, filepath.Join(home, ".ssh", "known_hosts"), filepath.Join(home, ".ssh", "known_hosts2"))
	}
	return append(out, "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
}

// trust is what known_hosts files say about one host, as of now.
type trust struct {
	db      *knownhosts.HostKeyDB
	files   []string
	address string // host:port, in lower case: the name that is looked up
	name    string // as known_hosts writes it
}

func loadTrust(files []string, target fleet.SSHTarget) (trust, *Error) {
	address := net.JoinHostPort(strings.ToLower(target.Host), strconv.Itoa(target.Port))
	t := trust{files: files, address: address, name: xknownhosts.Normalize(address)}
	if len(files) == 0 {
		files = DefaultKnownHosts()
		t.files = slices.DeleteFunc(slices.Clone(files), func(f string) bool { _, err := os.Stat(f); return err != nil })
		if len(t.files) == 0 {
			return t, &Error{Phase: PhaseHandshake, Kind: KindKnownHosts, Cause: sayNoKnownHosts(files, t.name)}
		}
	}
	var err error
	if t.db, err = knownhosts.NewDB(t.files...); err != nil {
		return t, &Error{Phase: PhaseHandshake, Kind: KindKnownHosts, Cause: sayBadKnownHosts(err, t.name), Err: err}
	}
	return t, nil
}

// algorithms are those of the known keys: what else a host has is none of its proofs. Empty for an unknown host, which is refused
// whatever it shows. RSA is used with SHA-2 only.
func (t trust) algorithms() []string {
	return slices.DeleteFunc(t.db.HostKeyAlgorithms(t.address), func(a string) bool {
		return a == ssh.KeyAlgoRSA || a == ssh.CertAlgoRSAv01
	})
}

// check judges the key that a host showed.
func (t trust) check(key ssh.PublicKey) *Error {
	err := t.db.HostKeyCallback()(t.address, named(t.address), key)
	if err == nil {
		return nil
	}
	refused := &Error{Phase: PhaseHandshake, Err: err}
	var revoked *xknownhosts.RevokedError
	var unexpected *xknownhosts.KeyError
	switch {
	case errors.As(err, &revoked):
		refused.Kind, refused.Cause = KindHostKeyRevoked, sayRevoked(t.name, place(revoked.Revoked), show(key), t.files[0])
	case errors.As(err, &unexpected) && len(unexpected.Want) > 0:
		refused.Kind, refused.Cause = KindHostKeyChanged, sayChanged(t.name, show(key), expected(unexpected.Want))
	case errors.As(err, &unexpected):
		refused.Kind, refused.Cause = KindHostKeyUnknown, sayUnknown(t.name, show(key), t.files[0])
	case strings.Contains(err.Error(), "revoked"):
		refused.Kind, refused.Cause = KindHostKeyRevoked, sayRevokedCertificate(t.name, err, t.files)
	default:
		refused.Kind, refused.Cause = KindHostCertificate, sayBadCertificate(t.name, err, t.files[0])
	}
	return refused
}

// foreignTypes is the refusal of a host that has no key of a known type.
func (t trust) foreignTypes(e *ssh.AlgorithmNegotiationError) *Error {
	var known []string
	for _, k := range t.db.HostKeys(t.address) {
		known = append(known, k.Type())
	}
	return &Error{Phase: PhaseHandshake, Kind: KindHostKeyChanged, Err: e, Cause: sayForeignTypes(t.name, e.RequestedAlgorithms, known, t.files)}
}

// named is the address of a connection for the look-up: the destination's, whatever carries the bytes.
type named string

func (n named) Network() string { return "tcp" }
func (n named) String() string  { return string(n) }

func show(key ssh.PublicKey) string {
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert.Type() + " of " + ssh.FingerprintSHA256(cert.SignatureKey)
	}
	return key.Type() + " " + ssh.FingerprintSHA256(key)
}

func place(k xknownhosts.KnownKey) string { return fmt.Sprintf("%s:%d", k.Filename, k.Line) }

// maxShown is how many known keys a sentence names.
const maxShown = 3

func expected(want []xknownhosts.KnownKey) string {
	var out []string
	for i, k := range want {
		if i == maxShown {
			out = append(out, fmt.Sprintf("%d more", len(want)-i))
			break
		}
		out = append(out, place(k)+" has "+show(k.Key))
	}
	return strings.Join(out, ", ")
}
