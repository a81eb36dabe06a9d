package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// KeyState is what known_hosts says of a key that a host shows.
type KeyState string

// The states of a shown key.
const (
	KeyKnown      KeyState = "known"      // listed for the host, or certified by an authority that is
	KeyAdditional KeyState = "additional" // not listed, while keys of other types are: nobody has confirmed it yet
	KeyChanged    KeyState = "changed"    // another key of the same type is listed
	KeyRevoked    KeyState = "revoked"    // an @revoked line names it, or its authority
	KeyUnknown    KeyState = "unknown"    // nothing is listed for the host
	KeyRefused    KeyState = "refused"    // a certificate that the listed authorities do not vouch for, or not any more
)

// HostKey is a key, or a certificate, that a host has proved to have.
type HostKey struct {
	Key         ssh.PublicKey
	Type        string // "ssh-ed25519", and for a certificate "ssh-ed25519-cert-v01@openssh.com"
	Fingerprint string // "SHA256:…"; for a certificate that of the certified key
	Authority   string // fingerprint of a certificate's authority; empty for a plain key
	State       KeyState
	Places      []string // file:line of the lines that list it
}

// KnownKey is a line of known_hosts about a host.
type KnownKey struct {
	Key         ssh.PublicKey
	Type        string
	Fingerprint string
	File        string
	Line        int
	Authority   bool // it is a certificate authority
	Shown       bool // the host shows the key, or a certificate of the authority
}

// Place is the line as file:line.
func (k KnownKey) Place() string { return fmt.Sprintf("%s:%d", k.File, k.Line) }

// HostKeys are what a host shows on one path and what known_hosts has for it, as of now.
type HostKeys struct {
	Name    string   // the host as known_hosts writes it: "host" or "[host]:port"
	Files   []string // the known_hosts files that were read
	Shown   []HostKey
	Known   []KnownKey
	Refusal *Error // why a session along this path would be refused for its host key; nil: it is trusted
}

// hostKeyAlgorithms are those by which a host shows a key or a certificate; those of one key stand together, the first is asked for.
var hostKeyAlgorithms = [][]string{
	{ssh.KeyAlgoED25519},
	{ssh.KeyAlgoECDSA256},
	{ssh.KeyAlgoECDSA384},
	{ssh.KeyAlgoECDSA521},
	{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256},
	{ssh.CertAlgoED25519v01},
	{ssh.CertAlgoECDSA256v01},
	{ssh.CertAlgoECDSA384v01},
	{ssh.CertAlgoECDSA521v01},
	{ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01},
}

// ShowHostKeys asks a host which keys it has and compares them with known_hosts. It needs no identity: each connection ends when the host
// has proved a key, one after the other, one for every type of key and one more. A known_hosts file that is not there knows nothing. The
// error is an [*Error].
func ShowHostKeys(ctx context.Context, o Options, p Path) (HostKeys, error) {
	o = o.filled()
	target, err := p.Destination.Parse()
	if err != nil {
		return HostKeys{}, &Error{Phase: PhaseConnect, Host: o.Host, Destination: string(p.Destination), Kind: KindDestination, Cause: err.Error(), Err: err}
	}
	t, missing := loadTrust(o.KnownHosts, target)
	if missing != nil {
		if t, err = emptyTrust(t, o.KnownHosts, missing); err != nil {
			missing.Host, missing.Destination = o.Host, string(p.Destination)
			return HostKeys{}, missing
		}
	}
	s := showing{options: o, path: p, trust: t}
	offered, refused := s.algorithms(ctx)
	if refused != nil {
		return HostKeys{}, refused
	}
	shown := map[string]ssh.PublicKey{}
	keys := HostKeys{Name: t.name, Files: t.files, Known: t.known()}
	for _, group := range hostKeyAlgorithms {
		if !slices.ContainsFunc(group, func(a string) bool { return slices.Contains(offered, a) }) {
			continue
		}
		key, refused := s.key(ctx, group)
		if refused != nil {
			return HostKeys{}, refused
		}
		for _, a := range group {
			shown[a] = key
		}
		keys.Shown = append(keys.Shown, t.judge(key, keys.Known))
	}
	for i, k := range keys.Known {
		keys.Known[i].Shown = slices.ContainsFunc(keys.Shown, func(s HostKey) bool { return k.lists(s.Key) })
	}
	if keys.Refusal = missing; missing == nil {
		keys.Refusal = t.session(offered, shown)
	}
	if r := keys.Refusal; r != nil {
		r.Host, r.Destination, r.Address = o.Host, string(p.Destination), t.address
	}
	return keys, nil
}

// emptyTrust stands in for files that are not there; the error is of files that are.
func emptyTrust(t trust, files []string, missing *Error) (trust, error) {
	if len(files) == 0 {
		files = DefaultKnownHosts()[:1]
	}
	for _, f := range files {
		if _, err := os.Stat(f); !errors.Is(err, os.ErrNotExist) {
			return t, missing
		}
	}
	var err error
	t.files = files
	t.db, err = knownhosts.NewDB()
	return t, err
}

// nobody is a key that no host has: the look-up of it gives all the lines about a host.
type nobody struct{}

func (nobody) Type() string                        { return "nobody" }
func (nobody) Marshal() []byte                     { return []byte("nobody") }
func (nobody) Verify([]byte, *ssh.Signature) error { return errors.New("nobody signs") }

// known are the lines about the host, by file and line.
func (t trust) known() []KnownKey {
	var all *xknownhosts.KeyError
	if err := t.db.HostKeyCallback()(t.address, named(t.address), nobody{}); !errors.As(err, &all) {
		return nil
	}
	authorities := t.db.HostKeys(t.address) // in the order of the files' names and their lines
	slices.SortFunc(all.Want, func(a, b xknownhosts.KnownKey) int {
		if c := strings.Compare(a.Filename, b.Filename); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	var out []KnownKey
	for i, w := range all.Want {
		out = append(out, KnownKey{
			Key: w.Key, Type: w.Key.Type(), Fingerprint: ssh.FingerprintSHA256(w.Key), File: w.Filename, Line: w.Line,
			Authority: authorities[i].Cert,
		})
	}
	return out
}

// lists reports whether a line is about a shown key: names it, or the authority of its certificate.
func (k KnownKey) lists(key ssh.PublicKey) bool {
	cert, certified := key.(*ssh.Certificate)
	if certified {
		key = cert.SignatureKey
	}
	return certified == k.Authority && string(k.Key.Marshal()) == string(key.Marshal())
}

// judge says what known_hosts says of a shown key.
func (t trust) judge(key ssh.PublicKey, known []KnownKey) HostKey {
	shown := HostKey{Key: key, Type: key.Type(), Fingerprint: ssh.FingerprintSHA256(key), State: KeyUnknown}
	cert, certified := key.(*ssh.Certificate)
	if certified {
		shown.Fingerprint, shown.Authority = ssh.FingerprintSHA256(cert.Key), ssh.FingerprintSHA256(cert.SignatureKey)
	}
	other := false // of the same kind is listed
	for _, k := range known {
		if k.lists(key) {
			shown.Places = append(shown.Places, k.Place())
		}
		other = other || k.Authority == certified && (certified || k.Type == shown.Type)
	}
	refused := t.check(key)
	switch {
	case refused != nil && refused.Kind == KindHostKeyRevoked:
		shown.State = KeyRevoked
	case certified && refused == nil, !certified && len(shown.Places) > 0:
		shown.State = KeyKnown
	case certified && other:
		shown.State = KeyRefused
	case other:
		shown.State = KeyChanged
	case len(known) > 0:
		shown.State = KeyAdditional
	}
	return shown
}

// session judges the key that a session would be shown: of those that known_hosts has, in its order, the first that the host has too.
func (t trust) session(offered []string, shown map[string]ssh.PublicKey) *Error {
	ours := t.algorithms()
	if len(ours) == 0 {
		ours = slices.Concat(hostKeyAlgorithms...)
	}
	for _, a := range ours {
		if key := shown[a]; key != nil && slices.Contains(offered, a) {
			return t.check(key)
		}
	}
	return t.foreignTypes(&ssh.AlgorithmNegotiationError{RequestedAlgorithms: offered})
}

// showing asks one path of a host for its keys.
type showing struct {
	options Options
	path    Path
	trust   trust
}

// noAlgorithm is none that any host has: its refusal names those that the host does have.
const noAlgorithm = "none@stado.internal"

func (s showing) algorithms(ctx context.Context) ([]string, *Error) {
	_, refused, err := s.connect(ctx, []string{noAlgorithm})
	var mismatch *ssh.AlgorithmNegotiationError
	if errors.As(err, &mismatch) && mismatch.What == "host key" {
		return mismatch.RequestedAlgorithms, nil
	}
	return nil, refused
}

func (s showing) key(ctx context.Context, algorithms []string) (ssh.PublicKey, *Error) {
	key, refused, _ := s.connect(ctx, algorithms)
	if key != nil {
		return key, nil
	}
	return nil, refused
}

// connect makes a connection that ends when the host has proved a key of one of the algorithms. Without a key there are what
// that means and the library's own error.
func (s showing) connect(ctx context.Context, algorithms []string) (shown ssh.PublicKey, _ *Error, _ error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := newDialing(s.options, s.path, func(p Phase, _ bool) { cancel(&lateError{phase: p, after: s.options.Deadlines.of(p)}) })
	d.trust, d.address = s.trust, s.trust.address
	d.clock.begin(PhaseConnect)
	defer d.clock.stop()
	raw, err := s.options.Dial(ctx, "tcp", d.address)
	if err != nil {
		return nil, d.failed(ctx, err, KindUnreachable), err
	}
	defer func() { _ = raw.Close() }() // nothing is to be said on it any more
	d.clock.begin(PhaseHandshake)
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	_, _, _, err = ssh.NewClientConn(ear{raw, &d.heard}, d.address, &ssh.ClientConfig{
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			shown = key
			return errors.New("the key was all that was asked for")
		},
		HostKeyAlgorithms: algorithms,
	})
	switch {
	case shown != nil:
		return shown, nil, nil
	case cut(err):
		return nil, d.failed(ctx, errors.New(sayCut(PhaseHandshake, d.heard.Load())), KindUnreachable), err
	}
	return nil, d.failed(ctx, err, KindProtocol), err
}
