package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
