package change

import (
	"fmt"
	"strings"

	"stado.internal/stado/fleet"
)

// RefusedError says why nothing was changed.
type RefusedError struct {
	Message  string
	Findings fleet.Findings // what the judges say of the result, when they refuse it
}

// Error is the sentence, and each finding on a line of its own.
func (e *RefusedError) Error() string {
	lines := []string{e.Message}
	for _, f := range e.Findings {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// ConflictError says that the branch is not where it was expected: somebody else's change came first.
type ConflictError struct {
	Location         string // the repository or the remote
	Expected, Actual string // commits; Actual is empty when the other side did not say
	Given            bool   // Expected is what the caller read before, so that doing the same again fails again
}

// Error is one sentence.
func (e *ConflictError) Error() string {
	now := "has moved"
	if e.Actual != "" {
		now = fmt.Sprintf("is at %.12s now", e.Actual)
	}
	again := "run the command again"
	if e.Given {
		again = "read the store again, and make the change on that: stado registry pull --with-generation"
	}
	return fmt.Sprintf("%s changed meanwhile: its branch was expected at %.12s and %s; nothing was changed (%s)", e.Location, e.Expected, now, again)
}

// UnreachableError says that a remote did not answer.
type UnreachableError struct{ Remote, Cause string }

// Error is one sentence.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach remote %s: %s", e.Remote, strings.Join(strings.Fields(e.Cause), " "))
}

// hintEmptyFleet takes the place of the hint for somebody who writes the commit by hand.
const hintEmptyFleet = "give the document its hosts; if the fleet is really to be empty, say --allow-empty-fleet"

const (
	sayNoGit         = "git is not installed: a registry is a git repository (install the git package)"
	sayResultRefused = "nothing was changed: the result would be refused"
)

func sayNoRepository(dir, words string) string {
	return fmt.Sprintf("%s is not a registry repository (name one with --repository): %s", dir, strings.Join(strings.Fields(words), " "))
}

func sayDetached(dir string) string {
	return fmt.Sprintf("%s has no branch checked out (check one out: the change becomes its next commit)", dir)
}

func sayNoCommit(dir, branch string) string {
	return fmt.Sprintf("branch %s of %s has no commit (commit a registry first; `stado init` makes one)", branch, dir)
}

func sayNoRemote(dir, remote string) string {
	return fmt.Sprintf("%s has no remote %s to push to (git remote add %s URL, or name one with --remote)", dir, remote, remote)
}

func sayNoBranch(remote, branch string) string {
	return fmt.Sprintf("remote %s has no branch %s (push it once: git push %s %s)", remote, branch, remote, branch)
}

func sayAhead(branch, remote, remoteBranch string) string {
	return fmt.Sprintf("branch %s has commits that %s/%s does not have, and they would be pushed with the change (push them first, or take them off)", branch, remote, remoteBranch)
}

func sayDirty(names []string) string {
	return fmt.Sprintf("not committed yet: %s; the change is made on what is committed (commit or stash first)", strings.Join(names, ", "))
}

// sayPushRefused keeps the reason of git's verdict and what the server's hooks said.
func sayPushRefused(remote, verdict, words string) string {
	lines := []string{fmt.Sprintf("nothing was changed: %s refused the push: %s", remote, verdict[strings.LastIndexByte(verdict, '\t')+1:])}
	for line := range strings.Lines(words) {
		if strings.HasPrefix(line, "remote:") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

func sayBaseRefused(commit string) string {
	return fmt.Sprintf("nothing was changed: the registry at %.12s is itself refused, so nothing can be built on it (repair it first)", commit)
}

func sayExhausted(now fleet.Generation) string {
	return fmt.Sprintf("generation %d is the last one there is", now)
}

func sayNowhere(path string) string {
	return fmt.Sprintf("no file of the registry writes %s, so no program changes it (edit it by hand)", path)
}

func sayExists(name string) string {
	return fmt.Sprintf("%s exists already and does not declare this (rename it, or edit it by hand)", name)
}

const sayNotTheDocument = "nothing was changed: some of the difference is computed by the registry's files, so that no edit makes them say this document (change them by hand)"

func sayNotHeld(path string) string {
	return fmt.Sprintf("nothing was changed: the registry would not say %s as it was written (look what else gives it: stado registry explain %s)", path, path)
}

func sayNotCompiled(file string, line int, path string) string {
	return fmt.Sprintf("%s:%d: the registry made of the document does not say %s as the document does", file, line, path)
}

func sayDocumentRefused(file string) string { return file + " is refused" }

func sayNotDocument(file string) string {
	return fmt.Sprintf("%s:1: the document is not a struct (a compiled registry, as `stado registry export` prints it, is)", file)
}

func sayBadName(file string, line int, path string) string {
	return fmt.Sprintf("%s:%d: the name of %s is not an identifier (1 to 63 lower-case letters, digits, dots, hyphens or underscores, starting and ending with a letter or a digit)", file, line, path)
}

func sayBothChanged(names []string, ours string, j Join) string {
	return fmt.Sprintf("nothing was joined: since commit %.12s both histories have changed %s, commit %.12s and commit %.12s each in its way (make them the same in a commit on %.12s: git checkout %.12s -- %s; join the two, and change them again after that)",
		j.Base, strings.Join(names, ", "), ours, j.Commit, ours, j.Commit, strings.Join(names, " "))
}
