package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// objectsOf is a repository with the files of one commit, and its objects.
func objectsOf(t *testing.T, files map[string]string) (*lab, *gitObjects) {
	t.Helper()
	l := &lab{t: t, repo: filepath.Join(t.TempDir(), "fleet")}
	if err := os.MkdirAll(l.repo, 0o755); err != nil {
		t.Fatal(err)
	}
	l.git("init", "--quiet", "--initial-branch", "main")
	l.git("config", "user.name", "Ada")
	l.git("config", "user.email", "ada@example.net")
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(l.repo, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.git("add", "--all")
	l.git("commit", "--quiet", "--message", "files")
	o, err := gitRepository{l.repo}.objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.close)
	return l, o
}

// What is not there, is no file, or is too large is refused, and the next question has its own answer.
func TestGitObjects(t *testing.T) {
	t.Parallel()
	_, o := objectsOf(t, map[string]string{"a b.cue": "one\n", "huge": strings.Repeat("0", maxObject+1)})
	for name, want := range map[string]string{
		"HEAD:none":      "the repository has no such object",
		"HEAD:no thing":  "the repository has no such object",
		"HEAD:huge":      "it has 67108865 bytes, and at most 67108864 are read",
		"HEAD\nHEAD":     "a name has no line break",
		"none^{commit}":  "the repository has no such object",
		"HEAD^{nothing}": "the repository has no such object",
	} {
		if _, err := o.read(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
		if data, err := o.blob(t.Context(), "HEAD", "a b.cue"); err != nil || string(data) != "one\n" {
			t.Errorf("after %q: %q, %v", name, data, err)
		}
	}
	if _, err := o.blob(t.Context(), "HEAD", ""); err == nil || !strings.Contains(err.Error(), "has no file") {
		t.Errorf("a tree is read as a file: %v", err)
	}
}

// A damaged object ends git, whose own words say so.
func TestDamagedGitObject(t *testing.T) {
	t.Parallel()
	l, o := objectsOf(t, map[string]string{"a.cue": "one\n"})
	blob, err := o.read(t.Context(), "HEAD:a.cue")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.repo, ".git", "objects", blob.id[:2], blob.id[2:])
	if err := errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, []byte("nothing of git"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err = o.read(t.Context(), blob.id); err == nil || !strings.Contains(err.Error(), "cannot read "+blob.id+" in "+l.repo+": ") {
		t.Errorf("%v", err)
	}
	o.close()
	if _, err = o.read(t.Context(), "HEAD"); err == nil || !strings.Contains(err.Error(), "HEAD in "+l.repo+": ") {
		t.Errorf("%v", err)
	}
}

// FuzzWithEntry: of a tree, whatever its bytes, nothing is changed but the id of the entry that is named.
func FuzzWithEntry(f *testing.F) {
	id := strings.Repeat("ab", 20)
	old := strings.Repeat("c", 20)
	f.Add([]byte("100644 a.cue\x00"+old+"40000 hosts\x00"+old), "hosts", id)
	f.Add([]byte("100644 a.cue\x00"+old+"100755 generation.cue\x00"+old), "generation.cue", id)
	f.Add([]byte("100644 a.cue\x00"+old[:7]), "a.cue", id)
	f.Add([]byte("100644"), "", "zz")
	f.Add([]byte("100644\x00"+old), "", id)
	f.Fuzz(func(t *testing.T, tree []byte, name, id string) {
		got, err := withEntry(tree, name, id)
		if err != nil {
			return
		}
		raw, err := hex.DecodeString(id)
		if err != nil || len(got) != len(tree) {
			t.Fatalf("%q becomes %q", tree, got)
		}
		head := []byte(" " + name + "\x00")
		for at := 0; ; at++ {
			i := bytes.Index(tree[at:], head)
			if i < 0 {
				t.Fatalf("%q of %q becomes %q", name, tree, got)
			}
			at += i
			start := at + len(head)
			if start+len(raw) <= len(tree) && bytes.Equal(got[:start], tree[:start]) && bytes.HasPrefix(got[start:], raw) && bytes.Equal(got[start+len(raw):], tree[start+len(raw):]) {
				return
			}
		}
	})
}
