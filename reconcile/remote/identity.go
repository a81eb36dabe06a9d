package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// maxOffered keys of an agent are tried: an OpenSSH server ends a connection at the sixth failure.
const maxOffered = 5

// credentials are the keys of one connection. An agent signs until they are closed.
type credentials struct {
	signers []ssh.Signer
	offered string // what they are, for the sentence of a refusal
	agent   net.Conn
}

func (c credentials) close() {
	if c.agent != nil {
		_ = c.agent.Close()
	}
}

// load reads the keys, or asks the agent for them.
func (i Identity) load(ctx context.Context) (credentials, error) {
	switch {
	case i.File != "":
		signers, err := fileSigners(i.File)
		return credentials{signers: signers, offered: i.File}, err
	case i.Agent != "":
		return agentSigners(ctx, i.Agent)
	}
	return credentials{}, errors.New(sayNoIdentity)
}

// fileSigners are the certificate beside a key, if there is one, and the key.
func fileSigners(file string) ([]ssh.Signer, error) {
	data, err := readSecret(file)
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, errors.New(sayLockedIdentity(file))
	case err != nil:
		return nil, fmt.Errorf("the identity file %s is not a private key: %w", file, err)
	}
	certified, err := certificate(file+"-cert.pub", key)
	if err != nil || certified == nil {
		return []ssh.Signer{key}, err
	}
	return []ssh.Signer{certified, key}, nil
}

func readSecret(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the identity file: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, errors.New(sayOpenIdentity(file, perm))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the identity file: %w", err)
	}
	return data, nil
}

// certificate is nil when there is no file.
func certificate(file string, key ssh.Signer) (ssh.Signer, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate of the identity: %w", err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s cannot be read: %w", file, err)
	}
	cert, ok := public.(*ssh.Certificate)
	if !ok || cert.CertType != ssh.UserCert || !bytes.Equal(cert.Key.Marshal(), key.PublicKey().Marshal()) {
		return nil, errors.New(sayForeignCertificate(file))
	}
	return ssh.NewCertSigner(cert, key)
}

func agentSigners(ctx context.Context, socket string) (credentials, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return credentials{}, fmt.Errorf("cannot ask the ssh-agent: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	signers, err := agent.NewClient(conn).Signers()
	if err == nil && len(signers) == 0 {
		err = errors.New("it holds no key (run: ssh-add)")
	}
	if err != nil {
		_ = conn.Close()
		return credentials{}, fmt.Errorf("cannot use the ssh-agent on %s: %w", socket, err)
	}
	return credentials{signers: signers[:min(len(signers), maxOffered)], offered: "the keys of the ssh-agent on " + socket, agent: conn}, nil
}
