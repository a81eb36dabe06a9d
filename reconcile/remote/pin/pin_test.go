package pin

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"stado.internal/stado/reconcile/remote/remotetest"
)

func key(t testing.TB) ssh.PublicKey { return remotetest.NewKey(t, "ed25519").PublicKey() }

const name = "[a1.example.net]:2222"

// Whatever is in a file stays there; keys come behind it, and only the named lines go.
func TestApply(t *testing.T) {
	t.Parallel()
	old, fresh, other := key(t), key(t), key(t)
	line := func(name string, k ssh.PublicKey) string { return knownhosts.Line([]string{name}, k) + "\n" }
	hashed := line(knownhosts.HashHostname(name), old)
	for _, tc := range []struct {
		what, file string
		drop       []Line
		want, says string
	}{
		{what: "empty", file: "", want: line(name, fresh)},
		{what: "no newline", file: "# end", want: "# end\n" + line(name, fresh)},
		{what: "strange lines", file: "ssh-future x\r\n\n@revoked * y\n", want: "ssh-future x\r\n\n@revoked * y\n" + line(name, fresh)},
		{what: "there already", file: line(name, fresh) + line("b", old), want: line(name, fresh) + line("b", old)},
		{what: "of another name", file: line("b", fresh), want: line("b", fresh) + line(name, fresh)},
		{what: "replaced", file: line("b", old) + line(name, old) + line(name, other), drop: []Line{{2, Entry{name, old}}}, want: line("b", old) + line(name, other) + line(name, fresh)},
		{what: "a hashed one", file: hashed + line("b", old), drop: []Line{{1, Entry{name, old}}}, want: line("b", old) + line(name, fresh)},
		{what: "another key by now", file: line(name, other), drop: []Line{{1, Entry{name, old}}}, says: "known_hosts:1 does not have the key any more"},
		{what: "shorter by now", file: line(name, old), drop: []Line{{2, Entry{name, old}}}, says: "known_hosts:2 does not have the key any more"},
		{what: "an authority by now", file: "@cert-authority " + line(name, old), drop: []Line{{1, Entry{name, old}}}, says: "known_hosts:1 does not have the key any more"},
		{what: "shared", file: line("b,"+name, old), drop: []Line{{1, Entry{name, old}}}, says: "known_hosts:1 is about b and " + name},
		{what: "a pattern", file: line("*", old), drop: []Line{{1, Entry{name, old}}}, says: "known_hosts:1 is about *"},
		{what: "binary", file: "a\x00b", says: "is no text"},
	} {
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(tc.file), 0o640); err != nil {
			t.Fatal(err)
		}
		added, err := Change{File: file, Add: []Entry{{name, fresh}, {name, fresh}}, Drop: tc.drop}.Apply()
		got, rerr := os.ReadFile(file)
		if rerr != nil {
			t.Fatal(rerr)
		}
		if tc.says != "" {
			if err == nil || !strings.Contains(err.Error(), tc.says) || string(got) != tc.file {
				t.Errorf("%s: %v, file %q", tc.what, err, got)
			}
			continue
		}
		if err != nil || string(got) != tc.want || (len(added) == 1) != (tc.want != tc.file) {
			t.Errorf("%s: %v, added %q, file\n%s\nwant\n%s", tc.what, err, added, got, tc.want)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: mode %v, %v", tc.what, info.Mode(), err)
		}
	}
}

// A file that is not there is made, a link is followed, and what is no file of ours is refused.
func TestPlaces(t *testing.T) {
	t.Parallel()
	dir, k := t.TempDir(), key(t)
	file := filepath.Join(dir, ".ssh", "known_hosts")
	if added, err := (Change{File: file, Add: []Entry{{name, k}}}).Apply(); err != nil || len(added) != 1 {
		t.Fatal(added, err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if _, err := (Change{File: link, Add: []Entry{{name, key(t)}}}).Apply(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || bytes.Count(data, []byte("\n")) != 2 {
		t.Errorf("%q, %v", data, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	if _, err := (Change{File: dir, Add: []Entry{{name, k}}}).Apply(); err == nil || !strings.Contains(err.Error(), "is no plain file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := (Change{File: filepath.Join(dir, "no", "such", "place")}).Apply(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path of nothing: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(file, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := (Change{File: link, Add: []Entry{{name, key(t)}}}).Apply(); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("somebody else's: %v", err)
		}
	}
}

// FuzzEdit appends to arbitrary text: what was there stays, and the new line is one that the reader of known_hosts finds.
func FuzzEdit(f *testing.F) {
	k := key(f)
	for _, seed := range []string{"", "a b c", "# comment\n", "@cert-authority * ssh-ed25519 AAAA\n", knownhosts.Line([]string{name}, k), "|1|x|y ssh-rsa z\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, old []byte) {
		text, added, err := Change{File: "f", Add: []Entry{{name, k}}}.edit(old)
		if err != nil {
			if bytes.IndexByte(old, 0) < 0 {
				t.Fatal(err)
			}
			return
		}
		if !bytes.HasPrefix(text, old) {
			t.Fatalf("%q became %q", old, text)
		}
		if len(added) == 1 && !bytes.HasSuffix(text, []byte("\n"+added[0]+"\n")) && string(text) != added[0]+"\n" {
			t.Fatalf("%q is no line of %q", added[0], text)
		}
		if again, more, err := (Change{File: "f", Add: []Entry{{name, k}}}).edit(text); err != nil || len(more) > 0 || !bytes.Equal(again, text) {
			t.Fatalf("again: %q, %v, %v", again, more, err)
		}
	})
}
