package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/reconcile/durable"
)

func newHookInstall(a *app) *cobra.Command {
	in := installer{app: a}
	var preCommit, preReceive bool
	c := &cobra.Command{
		Use:   "install [DIR]",
		Short: "Make git run the hooks",
		Long: `Write the hooks of the git repository DIR (default: this directory): pre-receive in a bare repository, else pre-commit and
pre-merge-commit. A hook that somebody else wrote is never replaced; running it again replaces its own.

With pre-receive, the repository also refuses by its own settings what no agent would follow: rewinding and deleting branches, and
malformed objects (receive.denyNonFastForwards, receive.denyDeletes, receive.fsckObjects).`,
		Example: "  stado hook install fleet\n  stado hook install --pre-receive --branch main /srv/git/fleet.git",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf(c, "pre-commit", "pre-receive"); err != nil {
				return misused(err)
			}
			in.dir = "."
			if len(args) == 1 {
				in.dir = args[0]
			}
			return asRefused(in.install(preCommit, preReceive))
		},
	}
	f := c.Flags()
	f.BoolVar(&preCommit, "pre-commit", false, "judge what is about to be committed")
	f.BoolVar(&preReceive, "pre-receive", false, "judge what is pushed here")
	f.StringVar(&in.branch, "branch", "main", "branch that is the registry, for pre-receive")
	f.StringVar(&in.path, "path", "", "directory of the registry inside the repository (default: its top)")
	return c
}

// protections are the settings by which a repository itself refuses what no agent would follow.
var protections = []string{"receive.denyNonFastForwards", "receive.denyDeletes", "receive.fsckObjects"}

// hookMark stands in every hook that we wrote, and so may replace.
const hookMark = "# Written by `stado hook install`, which replaces it when it runs again."

type installer struct {
	app               *app
	dir, branch, path string
	home              string // the state directory whose promises, and whose duty, the hook asks about; empty for none, as on a forge
}

func (in installer) install(preCommit, preReceive bool) error {
	answer, err := git(in.dir, "rev-parse", "--is-bare-repository")
	if err != nil {
		return err
	}
	if format, err := git(in.dir, "rev-parse", "--show-object-format"); err == nil && format != "sha1" {
		return fmt.Errorf("%s names its objects by %s, which is not supported (make the registry's repository with git init --object-format=sha1)", in.dir, format)
	}
	bare := answer == "true"
	if bare && preCommit {
		return fmt.Errorf("%s is a bare repository, where nobody commits (write --pre-receive)", in.dir)
	}
	folder, err := in.hooksFolder()
	if err != nil {
		return err
	}
	self, err := ownPath()
	if err != nil {
		return err
	}
	if !preReceive && !bare {
		return in.write(folder, map[string][]string{
			"pre-commit":       in.line(self, "pre-commit"),
			"pre-merge-commit": in.line(self, "pre-commit"),
		})
	}
	line := []string{self}
	if in.home != "" {
		line = append(line, "--home", in.home)
	}
	line = append(line, "hook", "pre-receive", "--branch", in.branch)
	if in.path != "" {
		line = append(line, "--path", in.path)
	}
	if err := in.write(folder, map[string][]string{"pre-receive": line}); err != nil {
		return err
	}
	for _, setting := range protections {
		if _, err := git(in.dir, "config", setting, "true"); err != nil {
			return err
		}
		fmt.Fprintf(in.app.stdout, "set   %s\n", setting)
	}
	return nil
}

func (in installer) line(self, hook string) []string {
	line := []string{self, "hook", hook}
	if in.path != "" {
		line = append(line, in.path)
	}
	return line
}

// hooksFolder is where git looks for the hooks of this repository. Hooks that are kept elsewhere for many repositories are not ours.
func (in installer) hooksFolder() (string, error) {
	if elsewhere, err := git(in.dir, "config", "core.hooksPath"); err == nil && elsewhere != "" {
		return "", fmt.Errorf("core.hooksPath sends git to %s for hooks (add the line `stado hook pre-commit` or `stado hook pre-receive` to the hook there)", elsewhere)
	}
	folder, err := git(in.dir, "rev-parse", "--git-path", "hooks")
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(in.dir, folder)
	}
	return folder, os.MkdirAll(folder, 0o755)
}

// write looks at every hook before it writes the first.
func (in installer) write(folder string, hooks map[string][]string) error {
	names := []string{}
	for _, name := range []string{"pre-commit", "pre-merge-commit", "pre-receive"} {
		line, wanted := hooks[name]
		if !wanted {
			continue
		}
		names = append(names, name)
		file := filepath.Join(folder, name)
		old, err := os.ReadFile(file)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case !strings.Contains(string(old), hookMark):
			return fmt.Errorf("%s is somebody else's hook, and stays (add this line to it: %s)", file, shellLine(line))
		}
	}
	for _, name := range names {
		text := "#!/bin/sh\n" + hookMark + "\nexec " + shellLine(hooks[name]) + "\n"
		if err := (durable.Folder{Path: folder}).Write(name, []byte(text), 0o755); err != nil {
			return err
		}
		fmt.Fprintf(in.app.stdout, "wrote %s\n", filepath.Join(folder, name))
	}
	return nil
}

// ownPath is the path under which this program was started, made absolute: through a link that an upgrade moves, not past it.
func ownPath() (string, error) {
	p, err := exec.LookPath(os.Args[0])
	if err != nil {
		return "", fmt.Errorf("cannot find this program's own file for the hook to run: %w", err)
	}
	return filepath.Abs(p)
}

// shellLine quotes words for a shell.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-", r))
		}) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
