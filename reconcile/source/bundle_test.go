package source

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"stado.internal/stado/reconcile/sandbox"
)

func bundlePoller(t *testing.T, file, store string) *Git {
	t.Helper()
	remote, err := BundleRemote(file, "")
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Store: store, Remote: remote, Runner: runner(t)})
}

// TestBundles: git reads ours, we read git's, whole and in parts, and both say what the repository itself says.
func TestBundles(t *testing.T) {
	r := newRepo(t)
	base := r.commit("one", registry(1))
	tip := r.commit("two", generation(2))
	e := Evaluator{Runner: runner(t)}
	want := poll(t, poller(t, r.dir), "").Steps[0].Digest
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	r.git("bundle", "create", "-q", file("git-whole"), "main")
	r.git("bundle", "create", "-q", file("git-part"), base+"..main")
	whole, err := e.Bundle(t.Context(), r.dir, "main", "", "main", file("our-whole"))
	if err != nil || whole.Commit != tip || whole.Since != "" || whole.Objects == 0 {
		t.Fatalf("%+v %v", whole, err)
	}
	part, err := e.Bundle(t.Context(), r.dir, tip, base, "main", file("our-part"))
	if err != nil || part.Since != base || part.Objects >= whole.Objects {
		t.Fatalf("%+v %v", part, err)
	}
	for _, name := range []string{"our-whole", "our-part"} {
		r.git("bundle", "verify", "-q", file(name))
	}
	r.git("clone", "-q", "--branch", "main", file("our-whole"), file("clone"))
	if head := r.git("-C", file("clone"), "rev-parse", "HEAD"); head != tip {
		t.Errorf("git clones %s", head)
	}
	for _, name := range []string{"git-whole", "our-whole"} {
		o := poll(t, bundlePoller(t, file(name), file(name+".git")), "")
		if o.Tip != tip || len(o.Steps) != 1 || o.Steps[0].Digest != want {
			t.Errorf("%s: %+v", name, o)
		}
	}
	for _, name := range []string{"git-part", "our-part"} {
		_, err := bundlePoller(t, file(name), file(name+"-new.git")).Poll(t.Context(), Anchor{})
		if err == nil || kindOf(err) != KindIncomplete || !strings.HasSuffix(err.Error(), "builds on commit "+base+", which this host does not have ("+furtherBack+")") {
			t.Errorf("%s without its base: %v", name, err)
		}
		store := file(name + ".git")
		r.git("reset", "-q", "--hard", base)
		remote, err := ParseRemote(r.dir, "")
		if err != nil {
			t.Fatal(err)
		}
		poll(t, New(Options{Store: store, Remote: remote, Runner: runner(t)}), "")
		o := poll(t, bundlePoller(t, file(name), store), base)
		if !o.Descends || o.Tip != tip || len(o.Steps) != 1 || o.Steps[0].Digest != want {
			t.Errorf("%s on its base: %+v", name, o)
		}
		r.git("reset", "-q", "--hard", tip)
	}
}

// TestBundleKilled: a child that is ended in the middle leaves the old file, and nothing beside it.
func TestBundleKilled(t *testing.T) {
	r := newRepo(t)
	r.commit("one", registry(1))
	dir := t.TempDir()
	file := filepath.Join(dir, "b")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := runner(t)
	run.Limits = sandbox.DefaultLimits()
	run.Limits.File = 64
	if b, err := (Evaluator{Runner: run}).Bundle(t.Context(), r.dir, "main", "", "main", file); err == nil {
		t.Errorf("wrote %+v", b)
	}
	entries, err := os.ReadDir(dir)
	if data, _ := os.ReadFile(file); err != nil || len(entries) != 1 || string(data) != "old" {
		t.Errorf("%v %v %q", entries, err, data)
	}
}

// furtherBack is the hint of a bundle that lacks what it builds on.
const furtherBack = "make one that goes further back, or the whole: stado registry bundle create without --since"

// TestBundlesThatAreNone are refused whole, by name.
func TestBundlesThatAreNone(t *testing.T) {
	r := newRepo(t)
	r.commit("one", registry(1))
	file := filepath.Join(t.TempDir(), "b")
	r.git("bundle", "create", "-q", file, "main")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, pack, _ := bytes.Cut(good, []byte("\n\n"))
	id := strings.Repeat("1", 40)
	const anew = "copy the file again, or make it anew: stado registry bundle create"
	for name, c := range map[string]struct {
		content string
		want    string
		kind    Kind
		hint    string
	}{
		"empty":       {"", "not a git bundle", KindProtocol, anew},
		"prose":       {"hello\n", "not a git bundle", KindProtocol, anew},
		"a long line": {strings.Repeat("x", 1<<20), "not a git bundle", KindProtocol, anew},
		"sha256":      {"# v3 git bundle\n@object-format=sha256\n\n", "object-format=sha256", KindProtocol, anew},
		"filter":      {"# v3 git bundle\n@filter=blob:none\n\n", "filter=blob:none", KindProtocol, anew},
		"no id":       {"# v2 git bundle\nxyz refs/heads/main\n\n", `a line that is none: "xyz refs/heads/main"`, KindProtocol, anew},
		"twice":       {"# v2 git bundle\n" + id + " refs/heads/main\n" + id + " refs/heads/main\n\n", "names refs/heads/main twice", KindProtocol, anew},
		"many lines":  {"# v2 git bundle\n" + strings.Repeat("-"+id+" x\n", 2000), "more than 1000 lines", KindProtocol, anew},
		"no branch":   {"# v2 git bundle\n" + id + " refs/heads/other\n\n", "no branch main", KindMissingBranch, "make it with stado registry bundle create, or of a branch of that name"},
		"no pack":     {string(head) + "\n\n", "pack", KindProtocol, anew},
		"a cut pack":  {string(head) + "\n\n" + string(pack[:len(pack)/2]), "pack", KindProtocol, anew},
		"other pack":  {strings.ReplaceAll(string(head), r.git("rev-parse", "HEAD"), id) + "\n\n" + string(pack), "does not hold commit " + id, KindIncomplete, furtherBack},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := bundlePoller(t, file, filepath.Join(t.TempDir(), "s.git")).Poll(t.Context(), Anchor{})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) || kindOf(err) != c.kind || !strings.HasSuffix(err.Error(), " ("+c.hint+")") {
				t.Errorf("got %v (%s), want %q (%s) with the hint %q", err, kindOf(err), c.want, c.kind, c.hint)
			}
		})
	}
}

// FuzzBundleHeader: a header is refused or read, and what is read stands in the text.
func FuzzBundleHeader(f *testing.F) {
	id := strings.Repeat("a", 40)
	for _, s := range []string{
		"# v2 git bundle\n" + id + " refs/heads/main\n\nPACK", "# v3 git bundle\n@object-format=sha1\n-" + id + " one\n" + id + " HEAD\n\n", "# v2 git bundle\n\n", "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := readBundleHeader(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		if h.size > int64(len(data)) || !bytes.HasSuffix(data[:h.size], []byte("\n\n")) {
			t.Errorf("the header of %q ends at %d", data, h.size)
		}
		for name, hash := range h.references {
			if hash == plumbing.ZeroHash && !bytes.Contains(data, []byte(strings.Repeat("0", 40))) || !bytes.Contains(data, []byte(name)) {
				t.Errorf("%q gives %s as %s", data, name, hash)
			}
		}
	})
}
