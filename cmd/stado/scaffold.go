package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

//go:embed scaffold/*.tmpl scaffold/ci/*.tmpl
var scaffoldFiles embed.FS

// scaffold is what a new registry repository declares: one host with one adapter to one sample service.
type scaffold struct {
	Host                              string
	Hostnames                         []string
	APIPort, AdapterPort, ServicePort int
	RefreshSeconds, MaxStaleSeconds   int
	integration
}

// sampleService is the service that a new registry declares and that `stado up` runs.
const sampleService = "hello"

func newScaffold(host string) scaffold {
	return scaffold{
		Host: host, APIPort: 7700, AdapterPort: 7701, ServicePort: 7780, RefreshSeconds: 5, MaxStaleSeconds: 60,
		Hostnames: []string{}, integration: integration{CI: ciNone},
	}
}

var notInLabel = regexp.MustCompile(`[^a-z0-9-]+`)

// hostLabel turns a machine's host name into a host name of the registry.
func hostLabel(hostname string) string {
	short, _, _ := strings.Cut(fleet.NormalizeIdentity(hostname), ".")
	label := strings.Trim(notInLabel.ReplaceAllString(short, "-"), "-")
	if label == "" {
		return "host"
	}
	return label
}

// files renders the repository, the vendored schema included, by path.
func (s scaffold) files() (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, path := range map[string]string{
		"module.cue":     "cue.mod/module.cue",
		"registry.cue":   "registry.cue",
		"generation.cue": "generation.cue",
		"host.cue":       "hosts/" + schema.EntryFile(s.Host),
		"service.cue":    "services/" + schema.EntryFile(sampleService),
		"README.md":      "README.md",
	} {
		t, err := template.ParseFS(scaffoldFiles, "scaffold/"+name+".tmpl")
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, s); err != nil {
			return nil, err
		}
		out[path] = b.Bytes()
	}
	for _, f := range schema.Files() {
		out[schema.VendorDir()+"/"+f.Path] = f.Data
	}
	extra, err := s.render()
	if err != nil {
		return nil, err
	}
	maps.Copy(out, extra)
	return out, nil
}

func (s scaffold) write(dir string) error {
	files, err := s.files()
	if err != nil {
		return err
	}
	return writeRepository(dir, files, "registry: one host, one sample service")
}

// writeRepository makes a repository beside dir and renames it into place, so that an interrupted one leaves nothing that looks like it.
func writeRepository(dir string, files map[string][]byte, message string) (err error) {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	// One name, so that what a killed attempt left is found and used up by the next one.
	tmp := filepath.Join(parent, "."+filepath.Base(dir)+".scaffold")
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	for path, data := range files {
		full := filepath.Join(tmp, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, data, 0o644); err != nil {
			return err
		}
	}
	if err := commitAll(tmp, message); err != nil {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return os.Rename(tmp, dir)
	}
	return moveInto(tmp, dir)
}

// moveInto fills an existing empty directory, which may be the one that the person stands in and so must not be replaced. The git
// directory goes last: without it nobody takes a half-filled directory for a repository.
func moveInto(tmp, dir string) error {
	entries, err := os.ReadDir(tmp)
	if err != nil {
		return err
	}
	slices.SortStableFunc(entries, func(a, b os.DirEntry) int {
		switch {
		case a.Name() == ".git":
			return 1
		case b.Name() == ".git":
			return -1
		}
		return 0
	})
	for _, e := range entries {
		if err := os.Rename(filepath.Join(tmp, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(tmp)
}

// commitAll makes a repository of dir with everything in one commit on main. Where the person has no git identity, the repository gets
// one, so that the commit line which we print works as it stands.
func commitAll(dir, message string) error {
	steps := [][]string{{"init", "--quiet", "--initial-branch=main"}}
	if _, err := git(dir, "config", "user.email"); err != nil {
		name := "stado"
		if u := os.Getenv("USER"); u != "" {
			name = u
		}
		steps = append(steps, []string{"config", "user.name", name}, []string{"config", "user.email", name + "@localhost"})
	}
	steps = append(steps, []string{"add", "--all"}, []string{"commit", "--quiet", "--no-verify", "--message", message})
	for _, args := range steps {
		if _, err := git(dir, args...); err != nil {
			return err
		}
	}
	return nil
}

// gitPersonal are the variables that say who somebody is and how they reach others, not which repository is meant.
var gitPersonal = []string{"GIT_CONFIG", "GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_SSH", "GIT_ASKPASS", "GIT_TERMINAL_PROMPT"}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	// A caller that is itself a git hook must not lend us its repository; who the person is stays.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GIT_") && !slices.ContainsFunc(gitPersonal, func(p string) bool { return strings.HasPrefix(v, p) })
	})
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("git is not installed: a registry is a git repository (install the git package)")
	case err != nil:
		return "", fmt.Errorf("git %s failed in %s: %w: %s", args[0], dir, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// repositoryState says what a directory is to us.
type repositoryState int

const (
	repositoryAbsent  repositoryState = iota // nothing there, or an empty directory
	repositoryPresent                        // a git repository that holds a registry
	repositoryOther                          // anything else: not ours to touch
)

func inspectRepository(dir string) (repositoryState, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) || (err == nil && len(entries) == 0):
		return repositoryAbsent, nil
	case err != nil:
		return repositoryOther, err
	}
	for _, need := range []string{".git", "registry.cue", "cue.mod/module.cue"} {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(need))); err != nil {
			return repositoryOther, fmt.Errorf("%s is not a registry repository: it has no %s (name an empty or absent directory to have one made)", dir, need)
		}
	}
	return repositoryPresent, nil
}
