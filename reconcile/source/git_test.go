package source

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/sandbox"
)

// A remote whose commits name objects that it lacks is asked for them once, then only now and then; a repair without a new commit is
// noticed.
func TestIncompleteRemote(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	good := r.commit("2", generation(2))
	blob := r.git("rev-parse", good+":generation.cue")
	object := filepath.Join(r.dir, ".git", "objects", blob[:2], blob[2:])
	g := poller(t, r.dir)
	r.git("update-ref", "refs/heads/main", tip)
	poll(t, g, "")

	// A tree that names an absent blob, in a pack that does not hold it: the remote's own git would refuse to pack it, so the pack is
	// made without a look.
	aside := object + ".aside"
	if err := os.Rename(object, aside); err != nil {
		t.Fatal(err)
	}
	r.git("update-ref", "refs/heads/main", good)
	_, err := g.Poll(t.Context(), Anchor{Commit: tip})
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindServer && e.Kind != KindIncomplete {
		t.Fatalf("error is %v", err)
	}
	if !strings.Contains(err.Error(), "pack: ") {
		t.Errorf("error is %v", err)
	}
	if err := os.Rename(aside, object); err != nil {
		t.Fatal(err)
	}
	if g.hopeless != nil {
		g.hopeless.polls = 0
	}
	if o := poll(t, g, tip); len(o.Steps) != 1 || o.Steps[0].Commit != good || o.Steps[0].Findings.Refuses() {
		t.Errorf("%+v", o)
	}
}

func TestHopelessTipsAreTriedNowAndThen(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tip := r.commit("1", registry(1))
	g := poller(t, r.dir)
	g.remember(tip, &Error{Kind: KindIncomplete})
	g.hopeless.polls = 2
	for range 2 {
		if _, err := g.Poll(t.Context(), Anchor{}); kindOf(err) != KindIncomplete {
			t.Fatalf("error is %v", err)
		}
	}
	if o := poll(t, g, ""); o.Tip != tip {
		t.Errorf("%+v", o)
	}
	g.hopeless = nil
	g.remember(tip, &Error{Kind: KindUnreachable})
	if g.hopeless != nil {
		t.Error("an unreachable remote was given up")
	}
}

// A verdict that may have been near a limit stands for some polls and is then worked out again, from the held commit on.
func TestVerdictsNearALimitAreTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	held := r.commit("1", registry(1))
	next := r.commit("2", generation(2))
	g := poller(t, r.dir)
	g.verdicts[next] = verdict{step: Step{Commit: next, Findings: fleet.Findings{limitFinding(&sandbox.LimitError{Limit: sandbox.LimitMemory})}}}
	if o := poll(t, g, held); len(o.Steps) != 1 || !o.Steps[0].Findings.Refuses() || g.retry != hopelessPolls {
		t.Fatalf("%+v, again after %d polls", o, g.retry)
	}
	g.retry = 2
	if o := poll(t, g, held); !o.Unchanged {
		t.Errorf("judged again at once: %+v", o)
	}
	if o := poll(t, g, held); len(o.Steps) != 1 || o.Steps[0].Findings.Refuses() || o.Unchanged || g.retry != 0 {
		t.Errorf("not judged again: %+v", o)
	}
	for limit, want := range map[string][2]bool{
		sandbox.LimitMemory: {true, false}, sandbox.LimitCPU: {true, false}, sandbox.LimitTime: {false, false}, sandbox.LimitOutput: {true, true},
	} {
		if lasting, final := lastingOf(&sandbox.LimitError{Limit: limit}); lasting != want[0] || final != want[1] {
			t.Errorf("%s: lasting %v, final %v", limit, lasting, final)
		}
	}
}

// A verdict that does not last in one part is no reason to begin at the held commit again; what could not be held is.
func TestResume(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	held := r.commit("0", registry(1))
	var want []string
	for i := range 5 {
		want = append(want, r.commit("c", generation(2+i)))
	}
	g := poller(t, r.dir)
	g.maxSteps = 2
	for i, part := range [][]string{want[:2], want[2:4], want[4:], want[4:]} {
		if o := poll(t, g, held); !slices.Equal(commits(o), part) || o.Unchanged {
			t.Fatalf("poll %d: %v, want %v", i, commits(o), part)
		}
		g.last = nil // as after a part with a verdict that does not last
	}
	if o, err := g.Poll(t.Context(), Anchor{Commit: held, Restart: true}); err != nil || !slices.Equal(commits(o), want[:2]) {
		t.Errorf("after what could not be held: %v, %v", commits(o), err)
	}

	// Once a commit is held, its document is let go, even while the remote does not answer.
	r.git("branch", "-M", "main", "away")
	if _, err := g.Poll(t.Context(), Anchor{Commit: want[0]}); err == nil || g.last != nil || len(g.verdicts) != 1 {
		t.Errorf("%v, and %d verdicts are kept", err, len(g.verdicts))
	}
}
