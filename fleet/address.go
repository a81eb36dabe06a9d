package fleet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Endpoint is a parsed service address: where a service listens, as seen on its own host.
type Endpoint struct {
	URL     string // as declared
	Scheme  string // http, https, tcp or unix
	Network string // "tcp" or "unix", for net.Dial
	Address string // host:port with an IP literal, or an absolute path
}

// Bind is a parsed listener address.
type Bind struct {
	Network string // "tcp" or "unix", for net.Listen
	Address string // host:port with an IP literal, or an absolute path
	Addr    netip.AddrPort
}

// Loopback reports whether only programs of this machine can reach the bind.
func (b Bind) Loopback() bool { return b.Network == "unix" || b.Addr.Addr().IsLoopback() }

// ParseEndpoint reads an endpoint URL: http, https or tcp with an IP literal or localhost and a port, or unix with an absolute path;
// no credentials, query or fragment.
func ParseEndpoint(raw string) (Endpoint, error) {
	fail := func(why string) (Endpoint, error) {
		return Endpoint{}, fmt.Errorf("endpoint %s %s (write http://127.0.0.1:PORT, https://…, tcp://… or unix:///absolute/path)", raw, why)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return fail("is not a URL")
	}
	if u.User != nil {
		return Endpoint{}, fmt.Errorf("endpoint on %s carries credentials (remove them; the registry is readable by every host)", u.Host)
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(raw, "#") {
		return fail("has a query or a fragment")
	}
	switch u.Scheme {
	case "unix":
		if u.Host != "" {
			return fail("does not name a clean absolute path")
		}
		if err := socketPath(u.Path); err != nil {
			return fail(err.Error())
		}
		return Endpoint{URL: raw, Scheme: "unix", Network: "unix", Address: u.Path}, nil
	case "http", "https", "tcp":
	default:
		return fail("has no known scheme")
	}
	if u.Path != "" && u.Path != "/" {
		return fail("has a path")
	}
	addr, err := parseAddrPort(u.Host)
	if err != nil {
		return fail(err.Error())
	}
	return Endpoint{URL: raw, Scheme: u.Scheme, Network: "tcp", Address: addr.String()}, nil
}

// ParseBind reads a listener address: `IP:port`, `[IPv6]:port`, `localhost:port` or `unix:///absolute/path`.
func ParseBind(raw string) (Bind, error) {
	if p, ok := strings.CutPrefix(raw, "unix://"); ok {
		if err := socketPath(p); err != nil {
			return Bind{}, fmt.Errorf("bind %s %w (write unix:///run/app.sock)", raw, err)
		}
		return Bind{Network: "unix", Address: p}, nil
	}
	addr, err := parseAddrPort(raw)
	if err != nil {
		return Bind{}, fmt.Errorf("bind %s %w (write 127.0.0.1:PORT or unix:///absolute/path)", raw, err)
	}
	return Bind{Network: "tcp", Address: addr.String(), Addr: addr}, nil
}

// maxSocketPath is the room that sun_path leaves on Linux (unix(7)), less the closing zero.
const maxSocketPath = 107

func socketPath(p string) error {
	switch {
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.ContainsRune(p, 0):
		return errors.New("does not name a clean absolute path")
	case len(p) > maxSocketPath:
		return fmt.Errorf("names a path of %d bytes, and a socket's may have %d", len(p), maxSocketPath)
	}
	return nil
}

// parseAddrPort accepts an IP literal or localhost. localhost is 127.0.0.1 without a look-up: a look-up can fail, or lie, exactly when
// descriptors run out.
func parseAddrPort(s string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("names no port")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return netip.AddrPort{}, fmt.Errorf("names port %q, which is not a port", port)
	}
	if strings.EqualFold(host, "localhost") {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(n)), nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("names host %q, which is neither an IP literal nor localhost", host)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}
