package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"
)

func TestParseRemote(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ address, branch, url, host, says string }{
		{"/srv/registry", "", "file:///srv/registry", "localhost", ""},
		{"/srv/with space/", "", "file:///srv/with%20space", "localhost", ""},
		{"file:///srv/registry.git", "trunk", "file:///srv/registry.git", "localhost", ""},
		{"file://localhost/srv/registry", "", "file:///srv/registry", "localhost", ""},
		{"https://git.example.net:8443/fleet/registry.git", "", "https://git.example.net:8443/fleet/registry.git", "git.example.net", ""},
		{"https://[2001:db8::1]:8443/r", "", "https://[2001:db8::1]:8443/r", "2001:db8::1", ""},
		{"http://127.0.0.1:8080/r", "", "http://127.0.0.1:8080/r", "127.0.0.1", ""},
		{"http://[::1]/r", "", "http://[::1]/r", "::1", ""},
		{"http://localhost/r", "", "http://localhost/r", "localhost", ""},
		{"http://example.net/r", "", "", "", "would be read in clear text"},
		{"https://user:canary@example.net/r", "", "", "", "repository on example.net carries credentials in its URL (remove them and name a credential file)"},
		{"https://user@example.net/r", "", "", "", "carries credentials"},
		{"https://user:canary@%zz/r", "", "", "", "neither an absolute path nor a URL"},
		{"ssh://git@example.net/r", "", "ssh://git@example.net/r", "example.net", ""},
		{"ssh://example.net:2222/~ops/r.git", "", "ssh://example.net:2222/~ops/r.git", "example.net", ""},
		{"ssh://ops@[2001:db8::1]:2222/srv/r", "", "ssh://ops@[2001:db8::1]:2222/srv/r", "2001:db8::1", ""},
		{"ssh://ops@[2001:db8::1]/srv/a%20b", "", "ssh://ops@[2001:db8::1]/srv/a%20b", "2001:db8::1", ""},
		{"ssh://ops:canary@example.net/r", "", "", "", "carries credentials in its URL"},
		{"ssh://ops:@example.net/r", "", "", "", "carries credentials in its URL"},
		{"ssh://ops@example.net", "", "", "", "repository …@example.net does not name a host and a path (write ssh://user@host/path)"},
		{"ssh:///r", "", "", "", "does not name a host and a path"},
		{"ssh://h/a%0ab", "", "", "", "does not name a host and a path"},
		{"ssh://h:0/r", "", "", "", `repository ssh://h:0/r cannot be reached: SSH destination [h]:0 names port "0", which is not a port`},
		{"ssh://-oProxyCommand=x/r", "", "", "", "cannot be reached: unsafe SSH destination"},
		{"ssh://-x/r", "", "", "", "cannot be reached: SSH destination [-x] names a host that starts with a dash"},
		{"ssh://a;b@h/r", "", "", "", "cannot be reached: unsafe SSH destination"},
		{"ssh://h/r?x", "", "", "", "has a query or a fragment"},
		{"https://h/x?access_token=canary", "", "", "", "repository https://h/x?… has a query or a fragment (remove it)"},
		{"https://h/x#canary", "", "", "", "repository https://h/x#… has a query or a fragment (remove it)"},
		{"h/x?access_token=canary", "", "", "", "repository h/x?… is neither an absolute path nor a URL"},
		{"git://example.net/r", "", "", "", `has scheme "git", which is not read (file://, https://, ssh:// and, from this machine, http:// are)`},
		{"git@example.net:r.git", "", "", "", "neither an absolute path nor a URL"},
		{"registry", "", "", "", "neither an absolute path nor a URL"},
		{"../registry", "", "", "", "neither an absolute path nor a URL"},
		{"file://registry", "", "", "", "does not name an absolute path of this machine"},
		{"file://elsewhere/srv", "", "", "", "does not name an absolute path of this machine"},
		{"https:///r", "", "", "", "names no host"},
		{"https://example.net/r?x=1", "", "", "", "has a query or a fragment"},
		{"https://example.net/r#x", "", "", "", "has a query or a fragment"},
		{"https://example.net/r\n", "", "", "", "control character"},
		{"", "", "", "", "neither an absolute path nor a URL"},
		{"/srv/r", "a..b", "", "", `branch "a..b" is not a branch name`},
		{"/srv/r", "-x", "", "", `branch "-x" is not a branch name`},
	} {
		r, err := ParseRemote(tc.address, tc.branch)
		if tc.says != "" {
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%q: error is %v, want %q", tc.address, err, tc.says)
			}
			continue
		}
		branch := tc.branch
		if branch == "" {
			branch = DefaultBranch
		}
		if err != nil || r.URL != tc.url || r.Host() != tc.host || r.Branch != branch {
			t.Errorf("%q: %+v, host %s, %v", tc.address, r, r.Host(), err)
		}
	}
}

func FuzzParseRemote(f *testing.F) {
	for _, s := range []string{"/srv/r", "https://u:p@h/r", "file:///x/../y", "http://127.0.0.1:1/", "git@h:r", "https://[::1]:8/r?x", "\x00", "ssh://u@h:2/~r", "ssh://u:p@[::1]/r"} {
		f.Add(s, "main")
	}
	f.Fuzz(func(t *testing.T, address, branch string) {
		r, err := ParseRemote(address, branch)
		if err != nil {
			return
		}
		again, err := ParseRemote(r.URL, r.Branch)
		if err != nil || again != r {
			t.Errorf("%q gives %+v, which gives %+v, %v", address, r, again, err)
		}
		if ssh := strings.HasPrefix(r.URL, "ssh://"); ssh && strings.Contains(strings.SplitN(r.URL, "@", 2)[0][6:], ":") && strings.Contains(r.URL[:strings.IndexByte(r.URL[6:], '/')+6], "@") {
			t.Errorf("a password stays in %s", r.URL)
		} else if !ssh && strings.Contains(r.URL, "@") && strings.Contains(address, "://") && strings.Contains(strings.SplitN(r.URL, "/", 4)[2], "@") {
			t.Errorf("credentials stay in %s", r.URL)
		}
	})
}

func TestTrailers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		message string
		want    map[string]string
	}{
		{"subject", nil},
		{"Key: value", nil},
		{"subject\n\nbody only\n", nil},
		{"subject\n\nbody\n\nStado-Kind: move\nSigned-off-by: Ada <a@b>\n", map[string]string{"Stado-Kind": "move", "Signed-off-by": "Ada <a@b>"}},
		{"subject\n\nKey: value\nand prose\n", nil},
		{"subject\r\n\r\nStado-Base: abc\r\n", map[string]string{"Stado-Base": "abc"}},
		{"subject\n\nKey: a\x1b[2Jb\n", map[string]string{"Key": "a[2Jb"}},
		{"subject\n\n" + strings.Repeat("K: v\n", 40), map[string]string{"K": "v"}},
	} {
		if got := trailers(tc.message); !cmp.Equal(got, tc.want) {
			t.Errorf("%q: got %v, want %v", tc.message, got, tc.want)
		}
	}
	var many strings.Builder
	for i := range maxTrailers + 1 {
		fmt.Fprintf(&many, "K%d: v\n", i)
	}
	if got := trailers("subject\n\n" + many.String()); got != nil {
		t.Errorf("got %d trailers", len(got))
	}
}

// What the operating system refuses is not damage: a full disk must not make the agent throw its store away.
func TestStoreFailures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want Kind
	}{
		{&fs.PathError{Op: "write", Path: "tmp_pack_1", Err: syscall.ENOSPC}, KindNoSpace},
		{errors.New("write tmp_pack_1: no space left on device"), KindNoSpace},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, KindPermission},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}, KindPermission},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, KindInternal},
		{plumbing.ErrObjectNotFound, KindDamaged},
		{fmt.Errorf("cannot read: %w", os.ErrNotExist), KindDamaged},
		{failure(KindHistory, PhaseRead, "", "long"), KindHistory},
	} {
		failed, ok := taskFailure(storeFailure(t.Context(), tc.err, PhaseRead))
		if !ok || Kind(failed.Kind) != tc.want {
			t.Errorf("%v: got %+v, want %s", tc.err, failed, tc.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := storeFailure(ended, plumbing.ErrObjectNotFound, PhaseRead); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func TestRulesAreListed(t *testing.T) {
	t.Parallel()
	before := ""
	for _, r := range Rules() {
		if r.ID <= before || r.Title == "" || r.Explanation == "" {
			t.Errorf("rule %+v after %s", r, before)
		}
		before = r.ID
	}
}
