package remote

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"stado.internal/stado/fleet"
)

func sayError(e *Error) string {
	host := e.Destination
	if host == "" {
		host = e.Host
	}
	return "SSH to " + host + ": " + string(e.Phase) + ": " + fleet.OneLine(e.Cause, fleet.MaxText)
}

func sayNoDestination(host string) string {
	return "the registry gives " + host + " no SSH destination (declare ssh: \"user@host\" for it)"
}

func sayNoPath(host, causes string) string {
	return "no SSH path of " + host + " answered (" + causes + ")"
}

func sayLate(p Phase, after time.Duration, heard bool) string {
	switch {
	case p == PhaseHandshake && !heard:
		return "the server took the connection and sent no SSH greeting within " + after.String()
	case p == PhaseHandshake:
		return "the server began to speak and did not finish the key exchange within " + after.String()
	}
	return "no answer within " + after.String()
}

func sayCut(p Phase, heard bool) string {
	switch {
	case p == PhaseHandshake && !heard:
		return "the server closed the connection before its SSH greeting; a busy OpenSSH does that, and one that was left in many handshakes"
	case p == PhaseHandshake:
		return "the server closed the connection in the key exchange"
	}
	return "the server closed the connection"
}

func sayDead(misses int, within time.Duration) string {
	return fmt.Sprintf("no answer to %d keepalives, in %s", misses, within)
}

func sayEnded(why string) string { return "the SSH session is over: " + why }

const sayNoStatus = "the host closed the channel of the command without a word on how it ended; the session is still open"

func sayDied(destination, why string) string {
	return "the SSH session to " + destination + " is over and is opened anew: " + why
}

// The sentences about host keys name what to write where, and never do it.

func sayNoKnownHosts(looked []string, name string) string {
	return "there is no known_hosts file (looked for " + strings.Join(looked, ", ") + "; add the key of " + name + " to one of them)"
}

func sayBadKnownHosts(err error, name string) string {
	return "known_hosts cannot be used: " + strings.TrimPrefix(err.Error(), "knownhosts: ") + " (correct the file; it must have the key of " + name + ")"
}

func sayUnknown(name, offered, file string) string {
	return "the host key of " + name + " is not known: the server has " + offered + " (compare that with the host's own key and add the key of " +
		name + " to " + file + ")"
}

func sayChanged(name, offered, expected string) string {
	return "the host key of " + name + " is another one: the server has " + offered + ", " + expected +
		" (if the host has a new key, add the key of " + name + " there; if not, somebody else answers)"
}

func sayForeignTypes(name string, offered, known, files []string) string {
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	return "the host key of " + name + " is another one: the server has keys for " + strings.Join(offered, ", ") + " only, " +
		strings.Join(files, " and ") + " one of " + strings.Join(known, ", ") + " (if the host has a new key, add the key of " + name +
		" there; if not, somebody else answers)"
}

func sayRevoked(name, place, key, file string) string {
	return "the host key of " + name + " is revoked: " + place + " revokes " + key + " (give the host a new key and add the key of " + name +
		" to " + file + ")"
}

func sayRevokedCertificate(name string, err error, files []string) string {
	return "the host key of " + name + " is revoked: " + err.Error() + ", by " + strings.Join(files, " or ") +
		" (give the host a new certificate of an authority that is not revoked)"
}

func sayBadCertificate(name string, err error, file string) string {
	return "the host certificate of " + name + " is refused: " + strings.TrimPrefix(err.Error(), "ssh: ") +
		" (give the host a certificate for that name, or add its authority with @cert-authority to " + file + ")"
}

const sayNoIdentity = "there is no identity (name a key file, or start with the SSH_AUTH_SOCK of an ssh-agent)"

func sayLockedIdentity(file string) string {
	return "the identity file " + file + " is encrypted (name a key without a passphrase that its owner alone can read, or use an ssh-agent)"
}

func sayOpenIdentity(file string, perm fs.FileMode) string {
	return fmt.Sprintf("the identity file %s can be used by others (mode %04o; run: chmod 0600 %s)", file, perm, file)
}

func sayForeignCertificate(file string) string {
	return "the certificate " + file + " is not a user certificate of the key beside it (have that key signed again, or remove the file)"
}

func sayRefusedIdentity(offered, login string, exclusive bool) string {
	if exclusive {
		return "SSH identity " + offered + " was refused for " + login + "; no unrelated identity was offered"
	}
	return offered + " were refused for " + login + " (add one of them to the authorized keys there)"
}
