// Package change makes commits of a registry repository by program: it reads what the branch holds, lets a pure edit say what becomes
// of it, judges the result with the evaluator and the policies that agents use, and only then writes a commit and moves the branch, by
// compare-and-swap. A refusal, and a dry run, leave the repository untouched.
package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/schema"
)

// maxAttempts bounds how often a push that lost the race is made again on what won. A registry that is written more often than that
// in one evaluation's time is better served by one writer.
const maxAttempts = 5

// Options of one change.
type Options struct {
	Dir       string // the registry repository, bare or not, or the directory of one that holds the registry
	Evaluator source.Evaluator
	// Push makes the change on what the remote's branch holds and pushes it there before the branch here moves.
	Push   bool
	Remote string // the name of the remote; empty for the branch's own, else origin
	DryRun bool
	Sign   bool // sign the commit with git's own configuration, also when that does not ask for it (commit.gpgsign)
	// Once makes a push that loses the race a conflict at once: the edit is not to be made on what won.
	Once bool
	// Join, when set, brings another history in. The repository has both.
	Join *Join
	// Expect, when set, is the commit that the change must be made on.
	Expect string
	// AllowEmptyFleet permits a change that removes the last host, and says so in the commit.
	AllowEmptyFleet bool
	// Fault, when set, is called before each step that others can see, with its name; an error it returns ends the change there. Tests
	// move the branch in it.
	Fault func(point string) error
}

// The points that Options.Fault sees.
const (
	FaultPush    = "change:push"
	FaultAdvance = "change:advance"
)

// Edit says what becomes of the registry. It is pure, since it is run again on what won when a push loses a race.
type Edit func(*Draft) error

// Subject is what a commit says of itself.
type Subject struct {
	Kind    string   // the trailer Stado-Kind
	Summary string   // the subject line
	Extra   []string // further trailers, such as `Stado-Source: …`
}

// Outcome is what became of a change.
type Outcome struct {
	Changed    bool             // false: the registry says so already, and nothing was written
	Base       string           // the commit that the change is made on
	Commit     string           // the new commit; empty when nothing was written
	Generation fleet.Generation // of the result
	Previous   fleet.Generation // of the base
	Pushed     bool
	Remote     string // where it was pushed to
	Branch     string
	Files      []string // what changed, sorted
	Diff       string   // unified
	// Behind says why the branch here was not moved although the push was taken; empty when it was.
	Behind string
}

// Apply makes one change. Errors: [*RefusedError] and the edit's own for what is refused, [*ConflictError] for a lost
// compare-and-swap, [*UnreachableError] for a remote that does not answer, [*source.Error] for a repository that cannot be read.
func Apply(ctx context.Context, o Options, edit Edit) (Outcome, error) {
	out, err := o.apply(ctx, edit)
	var lost *ConflictError
	if o.Expect != "" && errors.As(err, &lost) {
		lost.Given = true
	}
	return out, err
}

func (o Options) apply(ctx context.Context, edit Edit) (Outcome, error) {
	r, err := openRepository(ctx, o.Dir)
	if err != nil {
		return Outcome{}, err
	}
	if !o.Push || o.DryRun {
		base, err := r.tip(ctx)
		if err != nil {
			return Outcome{}, err
		}
		return o.attempt(ctx, r, target{base: base, head: base}, edit)
	}
	t := target{push: true}
	t.remote, t.branch = r.upstream(ctx, o.Remote)
	for attempt := 1; ; attempt++ {
		if t.head, err = r.tip(ctx); err != nil {
			return Outcome{}, err
		}
		if t.base, err = r.fetch(ctx, t.remote, t.branch); err != nil {
			return Outcome{}, err
		}
		if err := r.contained(ctx, t); err != nil {
			return Outcome{}, err
		}
		out, err := o.attempt(ctx, r, t, edit)
		var lost *ConflictError
		if !errors.As(err, &lost) || o.Once || o.Expect != "" || attempt == maxAttempts {
			return out, err
		}
	}
}

// target is where a change goes.
type target struct {
	base, head     string // the commit it is made on, and the one that the branch here is at
	push           bool
	remote, branch string
}

func (o Options) attempt(ctx context.Context, r *repository, t target, edit Edit) (Outcome, error) {
	if o.Expect != "" && o.Expect != t.base {
		return Outcome{}, &ConflictError{Location: r.location(ctx, o), Expected: o.Expect, Actual: t.base}
	}
	d, err := o.draft(ctx, r, t.base)
	if err != nil {
		return Outcome{}, err
	}
	if o.Join != nil && o.Join.Contents {
		if err := r.take(ctx, d, *o.Join); err != nil {
			return Outcome{}, err
		}
	}
	if err := edit(d); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Base: t.base, Branch: r.branch, Previous: d.Registry.Directory.Generation, Generation: d.Registry.Directory.Generation}
	if len(d.changed()) == 0 && len(d.others) == 0 {
		return out, nil
	}
	if err := d.advanceGeneration(); err != nil {
		return Outcome{}, err
	}
	files := d.changed()
	out.Changed, out.Files = true, slices.Sorted(maps.Keys(files))
	if err := r.dirty(ctx, out.Files); err != nil {
		return Outcome{}, err
	}
	out.Files = slices.AppendSeq(out.Files, maps.Keys(d.others)) // of these git itself refuses to overwrite what a person has changed
	slices.Sort(out.Files)
	scratch, err := os.MkdirTemp("", "stado-change-")
	if err != nil {
		return Outcome{}, fmt.Errorf("cannot make a directory to judge the change in: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if out.Diff, err = unified(ctx, scratch, d.base, files); err != nil {
		return Outcome{}, err
	}
	next, v, err := o.judge(ctx, scratch, d, files)
	if err == nil && d.accept != nil {
		err = d.accept(next, v.Digest)
	}
	if err == nil {
		err = d.holds(v.Document)
	}
	if err != nil {
		return Outcome{}, err
	}
	out.Generation = next.Directory.Generation
	if o.DryRun {
		return out, nil
	}
	message := d.message(out.Generation, o.AllowEmptyFleet && len(next.Hosts) == 0)
	w := writing{base: t.base, index: filepath.Join(scratch, "index"), message: message, files: files, others: d.others, sign: o.Sign}
	if o.Join != nil && o.Join.Parent {
		w.joins = o.Join.Commit
	}
	if out.Commit, err = r.write(ctx, w); err != nil {
		return Outcome{}, err
	}
	return o.land(ctx, r, t, out)
}

// land moves branches: the remote's first, since that is where the race is decided.
func (o Options) land(ctx context.Context, r *repository, t target, out Outcome) (Outcome, error) {
	if t.push {
		if err := o.fault(FaultPush); err != nil {
			return Outcome{}, err
		}
		if err := r.push(ctx, t.remote, t.branch, t.base, out.Commit); err != nil {
			return Outcome{}, err
		}
		out.Pushed, out.Remote = true, t.remote
	}
	if err := o.fault(FaultAdvance); err != nil {
		return Outcome{}, err
	}
	err := r.advance(ctx, t.head, out.Commit)
	if err != nil && out.Pushed {
		// The registry has the change; that this clone is behind it is worth a word and nothing else.
		out.Behind, err = err.Error(), nil
	}
	return out, err
}

func (o Options) fault(point string) error {
	if o.Fault == nil {
		return nil
	}
	return o.Fault(point)
}

// message is the commit message: a subject, and trailers for programs.
func (d *Draft) message(generation fleet.Generation, allowEmpty bool) string {
	trailers := []string{
		"Stado-Kind: " + d.Subject.Kind,
		fmt.Sprintf("Stado-Generation: %d", generation),
		"Stado-Base: " + d.Commit,
	}
	if allowEmpty {
		trailers = append(trailers, "Stado-Allow: empty-fleet")
	}
	return d.Subject.Summary + "\n\n" + strings.Join(append(trailers, d.Subject.Extra...), "\n") + "\n"
}

const generationPath = "service_directory.generation"

// advanceGeneration raises the generation by one where authors do; in stamped mode one job after the merge does.
func (d *Draft) advanceGeneration() error {
	if d.Registry.Policies.GenerationMode == fleet.GenerationStamped || d.generationSet {
		return nil
	}
	now := d.Registry.Directory.Generation
	if uint64(now) >= math.MaxInt64 {
		return &RefusedError{Message: sayExhausted(now)}
	}
	return d.Put(now+1, "service_directory", "generation")
}

// changed are the files that the edit made, changed or removed (nil).
func (d *Draft) changed() map[string][]byte {
	out := map[string][]byte{}
	for name, f := range d.open {
		if data := f.Bytes(); !bytes.Equal(data, d.base[name]) || d.base[name] == nil {
			out[name] = data
		}
	}
	for name := range d.removed {
		out[name] = nil
	}
	return out
}

func (o Options) draft(ctx context.Context, r *repository, base string) (*Draft, error) {
	v, err := o.Evaluator.Commit(ctx, o.Dir, base)
	if err != nil {
		return nil, err
	}
	if v.Document == nil || v.Findings.Refuses() {
		return nil, &RefusedError{Message: sayBaseRefused(base), Findings: v.Findings}
	}
	registry, err := fleet.Decode(v.Document)
	if err != nil {
		return nil, err
	}
	files, err := r.files(ctx, base)
	if err != nil {
		return nil, err
	}
	return newDraft(base, v, registry, files), nil
}

// At is where the base gives a field, for refusals.
func (d *Draft) At(labels ...string) string {
	p := schema.At(d.Positions, schema.FieldPath(labels...))
	return fleet.Finding{File: p.File, Line: p.Line}.Position()
}
