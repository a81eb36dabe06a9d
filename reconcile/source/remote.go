package source

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// DefaultBranch is the branch that is the registry when none is named.
const DefaultBranch = "main"

// Remote is a registry repository to read: made by [ParseRemote], then completed with the optional files. It is a value.
type Remote struct {
	URL    string `json:"url"`    // file:///absolute/path, https://…, ssh://[user@]host… or, on loopback only, http://…; never with a secret
	Branch string `json:"branch"` // without refs/heads/
	// CAFile holds further certificate authorities for https, PEM; empty means the system's only.
	CAFile string `json:"ca_file,omitempty"`
	// CredentialFile holds `user:password` or a token on its one line, readable by nobody else; it is read at every poll. Empty means
	// no credentials.
	CredentialFile string `json:"credential_file,omitempty"`
}

// ParseRemote reads a repository address and a branch name; an empty branch is [DefaultBranch]. The address is an absolute path or a
// URL of a scheme that this build reads: file, https, ssh, and http where the host is loopback.
func ParseRemote(address, branch string) (Remote, error) {
	if branch == "" {
		branch = DefaultBranch
	}
	if err := plumbing.NewBranchReferenceName(branch).Validate(); err != nil || strings.HasPrefix(branch, "-") {
		return Remote{}, fmt.Errorf("branch %q is not a branch name (write it without refs/heads/, such as main)", branch)
	}
	if strings.ContainsFunc(address, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return Remote{}, fmt.Errorf("repository %q has a control character (remove it)", address)
	}
	if filepath.IsAbs(address) {
		return Remote{URL: (&url.URL{Scheme: "file", Path: filepath.Clean(address)}).String(), Branch: branch}, nil
	}
	u, err := parseRemoteURL(address)
	if err != nil {
		return Remote{}, err
	}
	return Remote{URL: u.String(), Branch: branch}, nil
}

func parseRemoteURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || !strings.Contains(address, "://") {
		return nil, fmt.Errorf("repository %s is neither an absolute path nor a URL (write /absolute/path, file:///path, https://host/path or ssh://user@host/path)", redact(address))
	}
	switch u.Scheme { // before the parts of the address, so that one which is never read is told so
	case "file", "https", "http", "ssh":
	default:
		return nil, fmt.Errorf("repository %s has scheme %q, which is not read (file://, https://, ssh:// and, from this machine, http:// are)", redact(address), u.Scheme)
	}
	if _, secret := u.User.Password(); secret || u.User != nil && u.Scheme != "ssh" {
		return nil, fmt.Errorf("repository on %s carries credentials in its URL (remove them and name a credential file)", u.Host)
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(address, "#") {
		return nil, fmt.Errorf("repository %s has a query or a fragment (remove it)", redact(address))
	}
	if u.Scheme == "file" {
		if u.Host != "" && u.Host != "localhost" || !path.IsAbs(u.Path) {
			return nil, fmt.Errorf("repository %s does not name an absolute path of this machine (write file:///absolute/path)", address)
		}
		return &url.URL{Scheme: "file", Path: path.Clean(u.Path)}, nil
	}
	if u.Scheme == "ssh" {
		return parseSSH(u, address)
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, fmt.Errorf("repository %s would be read in clear text (write https://; http:// is read from this machine only)", address)
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("repository %s names no host (write %s://host/path)", address, u.Scheme)
	}
	return u, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// redact drops the parts of an address that may be a secret: what stands before its last @, and its query and fragment. The address
// need not be one that can be parsed.
func redact(address string) string {
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		address = "…" + address[at:]
	}
	if i := strings.IndexAny(address, "?#"); i >= 0 {
		address = address[:i+1] + "…"
	}
	return address
}

// Host is the remote's host for sentences: the URL's host name, "localhost" for a path of this machine.
func (r Remote) Host() string {
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" {
		return "localhost"
	}
	if host, port, err := net.SplitHostPort(u.Host); err == nil && port != "" {
		return host
	}
	return u.Hostname()
}

// Scheme is how the remote is read: file, https, http, ssh or bundle.
func (r Remote) Scheme() string {
	scheme, _, _ := strings.Cut(r.URL, "://")
	return scheme
}

// String is the remote's URL.
func (r Remote) String() string { return r.URL }

// path is the directory of a file remote; empty for others.
func (r Remote) path() string {
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != "file" {
		return ""
	}
	return u.Path
}

// reference is the branch's full name at the remote.
func (r Remote) reference() plumbing.ReferenceName { return plumbing.NewBranchReferenceName(r.Branch) }

// mirror is where the store keeps what the remote's branch was: a name of our own, so that no library default ever moves it.
func (r Remote) mirror() plumbing.ReferenceName {
	return plumbing.ReferenceName("refs/stado/remotes/origin/" + r.Branch)
}
