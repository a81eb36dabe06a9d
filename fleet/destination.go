package fleet

import (
	"fmt"
	"net/netip"
	"os/user"
	"regexp"
	"strconv"
	"strings"
)

// Destination is an SSH destination as the registry writes it: `user@host`, `user@[ipv6]` or, off port 22, `user@[host]:port`. The user
// may be left out; it is then whoever runs the program.
type Destination string

// SSHPort is the port of a destination that names none.
const SSHPort = 22

// Only what can stand in a user, host name or address, so that a destination can never be read as an option or a shell word.
var destinationChars = regexp.MustCompile(`^[A-Za-z0-9_.:@\[\]-]+$`)

// SSHTarget is a parsed [Destination].
type SSHTarget struct {
	User string // empty: the login name of whoever runs the program
	Host string // without brackets
	Port int    // 1 to 65535
}

// Parse reads the destination.
func (d Destination) Parse() (SSHTarget, error) {
	s := string(d)
	if s == "" || strings.HasPrefix(s, "-") || !destinationChars.MatchString(s) {
		return SSHTarget{}, fmt.Errorf("unsafe SSH destination in registry: %q (write user@host, user@[ipv6] or user@[host]:port)", s)
	}
	t := SSHTarget{Port: SSHPort}
	rest := s
	if strings.HasPrefix(strings.TrimPrefix(s[strings.LastIndexByte(s, '@')+1:], "["), "-") {
		return SSHTarget{}, fmt.Errorf("SSH destination %s names a host that starts with a dash (write user@host)", s)
	}
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		t.User, rest = s[:at], s[at+1:]
		if t.User == "" || strings.ContainsAny(t.User, "@[]:") {
			return SSHTarget{}, fmt.Errorf("SSH destination %s has no valid user before the @ (write user@host)", s)
		}
	}
	if !strings.HasPrefix(rest, "[") {
		return t.bare(s, rest)
	}
	host, port, ok := strings.Cut(rest[1:], "]")
	if !ok || host == "" || strings.ContainsAny(host, "[]") {
		return SSHTarget{}, fmt.Errorf("SSH destination %s has an unbalanced bracket (write user@[host]:port)", s)
	}
	t.Host = host
	if port == "" {
		return t, nil
	}
	word, ok := strings.CutPrefix(port, ":")
	if !ok {
		return SSHTarget{}, fmt.Errorf("SSH destination %s has %q after its bracket (write user@[host]:port)", s, port)
	}
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != word {
		return SSHTarget{}, fmt.Errorf("SSH destination %s names port %q, which is not a port", s, word)
	}
	t.Port = n
	return t, nil
}

func (t SSHTarget) bare(destination, host string) (SSHTarget, error) {
	if host == "" || strings.ContainsAny(host, "[]") {
		return SSHTarget{}, fmt.Errorf("SSH destination %s must include a host (write user@host)", destination)
	}
	if strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return SSHTarget{}, fmt.Errorf("SSH destination %s names a port without brackets (write user@[host]:port)", destination)
		}
	}
	t.Host = host
	return t, nil
}

// As is the destination with another user.
func (d Destination) As(user string) (Destination, error) {
	out := Destination(user + "@" + string(d)[strings.LastIndexByte(string(d), '@')+1:])
	_, err := out.Parse()
	return out, err
}

// Login is the user of the target, or the login name of whoever runs the program.
func (t SSHTarget) Login() (string, error) {
	if t.User != "" {
		return t.User, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("the SSH destination of %s names no user and this process has none: %w", t.Host, err)
	}
	return u.Username, nil
}
