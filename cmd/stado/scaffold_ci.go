package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// The continuous integrations that `stado init` writes files for.
const (
	ciNone   = "none"
	ciGitHub = "github"
	ciGitLab = "gitlab"
)

func knownCI() []string { return []string{ciNone, ciGitHub, ciGitLab} }

// integration is what the files for a forge need to know.
type integration struct {
	CI     string
	Binary string // https address of the program; empty: a variable of the forge holds it
	Digest string // SHA-256 of this program
	Owner  string // who reviews what concerns the whole fleet; empty: to be filled in
}

// Stamped reports whether a job raises the generation; without one the author of a change does.
func (i integration) Stamped() bool { return i.CI == ciGitHub || i.CI == ciGitLab }

// Guarded are the paths that concern the whole fleet.
func (i integration) Guarded() []string {
	paths := []string{"registry.cue", "generation.cue", "authority.cue", "policies.cue", "policies/", "cue.mod/", "CODEOWNERS"}
	if i.CI == ciGitHub {
		return append(paths, ".github/")
	}
	return append(paths, ".gitlab-ci.yml")
}

var ownerPattern = regexp.MustCompile(`^(@[A-Za-z0-9][A-Za-z0-9._/-]*|[^\s#@]+@[^\s#@]+)$`)

// check refuses what would not work in the files.
func (i integration) check() error {
	if !slices.Contains(knownCI(), i.CI) {
		return fmt.Errorf("--ci is %q (write %s)", i.CI, strings.Join(knownCI(), ", "))
	}
	if !i.Stamped() && (i.Binary != "" || i.Owner != "") {
		return errors.New("--binary and --owner are for the files of a forge (write --ci github or --ci gitlab)")
	}
	if i.Owner != "" && !ownerPattern.MatchString(i.Owner) {
		return fmt.Errorf("--owner is %q, which is no owner (write @user, @organization/team or an address)", i.Owner)
	}
	if i.Binary == "" {
		return nil
	}
	u, err := url.Parse(i.Binary)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(i.Binary, " \"'`$#\\{}") {
		return fmt.Errorf("--binary is %q, which is no https address without credentials", i.Binary)
	}
	return nil
}

// render gives the files by path. Their templates have marks of their own, since workflows are full of braces.
func (i integration) render() (map[string][]byte, error) {
	out := map[string][]byte{}
	if !i.Stamped() {
		return out, nil
	}
	names := map[string]string{
		"CODEOWNERS": "CODEOWNERS", "pre-commit-config.yaml": ".pre-commit-config.yaml", "policies.cue": "policies.cue",
	}
	if i.CI == ciGitHub {
		names["github.yml"] = ".github/workflows/registry.yml"
		names["github-comment.yml"] = ".github/workflows/registry-comment.yml"
	} else {
		names["gitlab.yml"] = ".gitlab-ci.yml"
	}
	for name, path := range names {
		t, err := template.New(name+".tmpl").Delims("«", "»").ParseFS(scaffoldFiles, "scaffold/ci/"+name+".tmpl")
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, i); err != nil {
			return nil, err
		}
		out[path] = append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
	}
	return out, nil
}

// ownDigest is the SHA-256 of this program's file.
func ownDigest() (digest string, err error) {
	child, err := childCommand()
	if err != nil {
		return "", err
	}
	f, err := os.Open(child[0])
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("cannot read this program's own file: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
