package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/schema"
)

// stamper raises the generation after the merge, at the one place that serialises writes. It makes commits out of objects, without the
// work tree, so that it disturbs nobody who edits there.
type stamper struct {
	evaluator      source.Evaluator
	repo           gitRepository
	objects        *gitObjects // of repo
	dir            string      // the registry: the top of the repository, or below it
	path           string      // of generation.cue inside the repository
	remote, branch string
	push, sign     bool
	log            *slog.Logger
}

// stampAnswer is the JSON answer of `stado registry stamp`.
type stampAnswer struct {
	Stamped bool             `json:"stamped"`
	Pushed  bool             `json:"pushed"`
	Base    string           `json:"base"`             // the commit that was looked at last
	Commit  string           `json:"commit,omitempty"` // the stamp
	Before  fleet.Generation `json:"before"`
	After   fleet.Generation `json:"after"`
	// Attempts counts the pushes; more than one means that somebody else was faster.
	Attempts int `json:"attempts,omitempty"`
}

// A lost race costs one fetch and two evaluations. Eight in a row, with growing pauses, mean that something other than a race is wrong.
const (
	stampAttempts  = 8
	stampPause     = 50 * time.Millisecond
	stampLongPause = time.Second
)

// errStampLost says that every attempt met a branch that had moved.
var errStampLost = errors.New("somebody else was faster every time")

// newStamper opens the repository that dir is or lies in; close ends that.
func newStamper(ctx context.Context, e source.Evaluator, dir string, log *slog.Logger) (stamper, error) {
	s := stamper{evaluator: e, dir: dir, log: log}
	places, err := gitRepository{dir}.run(ctx, "rev-parse", "--show-toplevel", "--show-prefix")
	if err != nil {
		return stamper{}, err
	}
	top, prefix, _ := strings.Cut(places, "\n")
	s.repo, s.path = gitRepository{top}, prefix+schema.GenerationFile
	s.objects, err = s.repo.objects(ctx)
	return s, err
}

func (s stamper) close() { s.objects.close() }

// stamp does all of it: look, commit, and push until it is done or somebody else has done it.
func (s stamper) stamp(ctx context.Context) (stampAnswer, error) {
	base, err := s.tip(ctx)
	if err != nil {
		return stampAnswer{}, err
	}
	for attempt := 1; attempt <= stampAttempts; attempt++ {
		answer, err := s.prepare(ctx, base)
		if err != nil || answer.Commit == "" {
			return answer, err
		}
		answer.Attempts = attempt
		now, err := s.publish(ctx, base, answer.Commit, attempt)
		if err != nil {
			return stampAnswer{}, err
		}
		if now == answer.Commit {
			answer.Stamped, answer.Pushed = true, s.push
			return answer, nil
		}
		base = now
	}
	return stampAnswer{}, errStampLost
}

// tip is the commit that is to be stamped: the remote's when the stamp is pushed there, whatever is here.
func (s stamper) tip(ctx context.Context) (string, error) {
	if !s.push {
		return s.commitAt(ctx, "HEAD")
	}
	ref := "refs/heads/" + s.branch
	_, err := s.repo.run(ctx, "fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--", s.remote, ref)
	if err == nil {
		return s.commitAt(ctx, "FETCH_HEAD")
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if _, named := s.repo.run(ctx, "remote", "get-url", "--", s.remote); named != nil && !strings.ContainsAny(s.remote, "/:") {
		return "", refused(fmt.Errorf("%s has no remote %s to push to (git remote add %s URL, or name one with --remote)", s.repo.dir, s.remote, s.remote))
	}
	const noSuchRef = 2 // git-ls-remote(1), --exit-code
	var failed *gitError
	if _, asked := s.repo.run(ctx, "ls-remote", "--exit-code", "--", s.remote, ref); errors.As(asked, &failed) && failed.code == noSuchRef {
		return "", refused(fmt.Errorf("%s has no branch %s (name it with --branch)", s.remote, s.branch))
	}
	return "", transient(err)
}

func (s stamper) commitAt(ctx context.Context, name string) (string, error) {
	commit, err := s.objects.read(ctx, name+"^{commit}")
	return commit.id, err
}

// prepare makes the commit that stamps base, and nothing when the generation of base covers its content. Nothing refers to the commit
// yet.
func (s stamper) prepare(ctx context.Context, base string) (stampAnswer, error) {
	current, err := s.evaluator.Commit(ctx, s.dir, base)
	if err == nil {
		err = requireAdmitted(current, "commit "+base[:12])
	}
	if err != nil {
		return stampAnswer{}, err
	}
	registry, err := fleet.Decode(current.Document)
	if err != nil {
		return stampAnswer{}, err
	}
	text, err := s.objects.blob(ctx, base, s.path)
	if err != nil {
		return stampAnswer{}, err
	}
	number := registry.Directory.Generation
	next, written, err := schema.SetGeneration(schema.File{Path: s.path, Data: text}, number+1)
	switch {
	case registry.Policies.GenerationMode != fleet.GenerationStamped:
		return stampAnswer{}, fmt.Errorf("generations of this fleet are authored: whoever changes the registry raises the number (`stado bump`)")
	case err != nil:
		return stampAnswer{}, err
	case written != number:
		return stampAnswer{}, fmt.Errorf("the registry has generation %d, but %s says %d (give the generation in that file only)", number, s.path, written)
	case number >= schema.MaxGeneration:
		return stampAnswer{}, fmt.Errorf("the registry has generation %d, and none is higher", number)
	}
	answer := stampAnswer{Base: base, Before: number, After: number}
	setter, err := s.setter(ctx, base, number)
	if err != nil || setter == base {
		return answer, err
	}
	held, err := s.evaluator.Commit(ctx, s.dir, setter)
	if err != nil || held.Document != nil && held.Digest == current.Digest {
		return answer, err
	}
	answer.After = number + 1
	answer.Commit, err = s.commit(ctx, base, next, sayStamp(number+1, held.Digest))
	return answer, err
}

// setter is the last commit of the first-parent history that gave the generation its number: hosts know the number with its content. A
// commit in which the number cannot be read neither gives nor takes it, and a higher one was taken back.
func (s stamper) setter(ctx context.Context, base string, number fleet.Generation) (string, error) {
	list, err := s.repo.run(ctx, "rev-list", "--first-parent", base, "--", s.path)
	if err != nil {
		return "", err
	}
	found, last := "", ""
	for commit := range strings.FieldsSeq(list) { // those that changed the file, the newest first
		last = commit
		switch g, err := s.says(ctx, commit); {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil:
		case g == number:
			found = commit
		case found != "" && g < number:
			return found, nil
		}
	}
	if found == "" {
		return "", fmt.Errorf("no commit up to %.12s gives generation %d in %s", base, number, s.path)
	}
	return found, s.objects.whole(ctx, last)
}

func (s stamper) says(ctx context.Context, commit string) (fleet.Generation, error) {
	text, err := s.objects.blob(ctx, commit, s.path)
	if err != nil {
		return 0, err
	}
	return schema.Generation(schema.File{Path: s.path, Data: text})
}

// commit makes a commit on base that differs from it in the generation file only.
func (s stamper) commit(ctx context.Context, base string, text []byte, message string) (string, error) {
	id, err := s.write(ctx, "blob", text)
	if err != nil {
		return "", err
	}
	// The trees are made of the old ones, without an index: that would list every file of the fleet.
	for name := s.path; name != ""; {
		dir, entry := path.Split(name)
		name = strings.TrimSuffix(dir, "/")
		tree, err := s.objects.read(ctx, base+":"+name)
		if err != nil {
			return "", err
		}
		changed, err := withEntry(tree.data, entry, id)
		if err != nil {
			return "", fmt.Errorf("cannot stamp commit %.12s in %s: %w", base, s.repo.dir, err)
		}
		if id, err = s.write(ctx, "tree", changed); err != nil {
			return "", err
		}
	}
	args := []string{"commit-tree", id, "-p", base, "-F", "-"}
	if sign, err := s.repo.run(ctx, "config", "--type=bool", "--get", "commit.gpgsign"); s.sign || err == nil && sign == "true" {
		args = append(args, "-S") // what git commit does of itself
	}
	out, err := s.repo.exec(ctx, gitCall{stdin: []byte(message), args: args})
	return trimmed(out), err
}

// write puts an object into the repository and gives its id.
func (s stamper) write(ctx context.Context, kind string, data []byte) (string, error) {
	out, err := s.repo.exec(ctx, gitCall{stdin: data, args: []string{"hash-object", "-w", "-t", kind, "--no-filters", "--stdin"}})
	return trimmed(out), err
}

// publish puts the commit in place of base, if base is still there: a compare-and-swap. It gives the tip after that, which is the commit
// unless the race was lost: then somebody else's, looked at after a pause that grows with the attempts.
func (s stamper) publish(ctx context.Context, base, commit string, attempt int) (string, error) {
	if !s.push {
		return s.advance(ctx, base, commit)
	}
	out, err := s.repo.exec(ctx, gitCall{args: []string{"push", "--porcelain", "--", s.remote, commit + ":refs/heads/" + s.branch}})
	if err == nil {
		s.follow(ctx, base, commit)
		return commit, nil
	}
	if err := stampJitter(ctx, attempt); err != nil {
		return "", err
	}
	now, asked := s.tip(ctx)
	switch {
	case asked != nil:
		return "", asked
	case now == commit: // the answer to a push that succeeded got lost
		s.follow(ctx, base, commit)
		return commit, nil
	case now != base:
		return now, nil
	}
	reason, answered := pushReason(out)
	switch {
	case !answered:
		return "", transient(err)
	case contended(reason):
		return now, nil
	}
	return "", refused(fmt.Errorf("%s refuses the stamp of branch %s: %s: %w", s.remote, s.branch, reason, err))
}

// advance moves HEAD, its branch and the work tree from base to commit, and gives the tip after that. Git refuses when somebody has edited
// the generation.
func (s stamper) advance(ctx context.Context, base, commit string) (string, error) {
	_, err := s.repo.run(ctx, "merge", "--ff-only", "--quiet", commit)
	if err == nil {
		return commit, nil
	}
	if now, asked := s.repo.run(ctx, "rev-parse", "HEAD"); asked == nil && now != base {
		return now, nil
	}
	return "", refused(fmt.Errorf("cannot move the branch to the stamp (commit or undo what you changed in %s): %w", s.path, err))
}

// follow brings this clone to a pushed stamp where that takes nothing from anybody: it stands on what was stamped. The stamp is out in
// any case.
func (s stamper) follow(ctx context.Context, base, commit string) {
	if head, err := s.commitAt(ctx, "HEAD"); err != nil || head != base {
		return
	}
	if name, err := s.repo.run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err == nil && name != s.branch {
		return
	}
	if _, err := s.repo.run(ctx, "merge", "--ff-only", "--quiet", commit); err != nil {
		s.log.Warn(fmt.Sprintf("the stamp is pushed, but this clone cannot follow it (run git pull): %v", err))
	}
}

// pushReason is why a ref was not updated, as git push --porcelain prints it: `!\tFROM:TO\t[remote rejected] (REASON)`.
func pushReason(porcelain []byte) (string, bool) {
	for line := range bytes.Lines(porcelain) {
		if fields := strings.SplitN(strings.TrimSpace(string(line)), "\t", 3); len(fields) == 3 && fields[0] == "!" {
			return fields[2], true
		}
	}
	return "", false
}

// contended recognises the reasons of a race that the other side is about to win: its branch has not moved yet, but is being moved.
func contended(reason string) bool {
	for _, words := range []string{"fetch first", "non-fast-forward", "cannot lock ref", "failed to update ref", "failed to lock", "incorrect old value"} {
		if strings.Contains(reason, words) {
			return true
		}
	}
	return false
}

// stampJitter waits for a random time that grows with the races lost so far, so that two that lose to each other part.
func stampJitter(ctx context.Context, lost int) error {
	t := time.NewTimer(rand.N(min(stampPause<<lost, stampLongPause)))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// sayStamp is the message of a stamp. held is the digest of the document that hosts know under the number before; empty when that
// document does not compile.
func sayStamp(g fleet.Generation, held string) string {
	message := fmt.Sprintf("registry: generation %d\n\nStado-Kind: stamp\nStado-Generation: %d\n", g, g)
	if held != "" {
		message += "Stado-Base: " + held + "\n"
	}
	return message
}

func trimmed(b []byte) string { return strings.TrimSpace(string(b)) }
