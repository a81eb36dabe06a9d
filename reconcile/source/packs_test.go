package source

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"stado.internal/stado/reconcile/sandbox"
)

// fetchOneByOne lands generations and polls after each of them, so that every fetch brings one commit. It gives the last one, and the most
// packs that the store has had.
func fetchOneByOne(t testing.TB, r repo, g *Git, held string, from, to int) (tip string, most int) {
	t.Helper()
	for i := from; i <= to; i++ {
		tip = r.commit("next", generation(i))
		if o := poll(t, g, held); o.Tip != tip || len(o.Steps) != 1 || o.Steps[0].Commit != tip || o.Steps[0].Findings.Refuses() {
			t.Fatalf("generation %d: %+v", i, o)
		}
		held = tip
		packs := len(packNames(g.opts.Store))
		if g.packs != packs {
			t.Fatalf("generation %d: %d packs, known %d", i, packs, g.packs)
		}
		most = max(most, packs)
	}
	return tip, most
}

// Fetches of one commit each, without a pause, leave a store of a bounded number of packs; the first poll without news makes it what a fresh
// clone is, and what comes after is fetched into that.
func TestManyFetches(t *testing.T) {
	t.Parallel()
	fetches, limit := 8, 2
	if os.Getenv("STADO_SOAK") != "" {
		fetches, limit = 300, maxPacks
	}
	r := newRepo(t)
	first := r.commit("1", registry(1))
	g := poller(t, r.dir)
	g.maxPacks = limit
	poll(t, g, "")
	tip, most := fetchOneByOne(t, r, g, first, 2, fetches+1)
	if most != 2*limit+1 {
		t.Errorf("the store has had %d packs, and may have %d before it is cloned anew", most, 2*limit)
	}
	poll(t, g, tip) // which holds it now
	if o := poll(t, g, tip); !o.Unchanged || o.Tip != tip {
		t.Errorf("%+v", o)
	}
	if n := len(packNames(g.opts.Store)); n != 1 || g.packs != 1 {
		t.Errorf("%d packs after a poll without news, known %d", n, g.packs)
	}
	r.git("--git-dir", g.opts.Store, "fsck", "--full", "--strict")
	if got, want := r.git("--git-dir", g.opts.Store, "rev-list", "--count", tip), r.git("rev-list", "--count", "main"); got != want {
		t.Errorf("the store has %s commits, the remote %s", got, want)
	}
	if last, _ := fetchOneByOne(t, r, g, tip, fetches+2, fetches+2); len(packNames(g.opts.Store)) != 2 {
		t.Errorf("%d packs after commit %s", len(packNames(g.opts.Store)), last)
	}
}

// A store that cannot be cloned anew while there is news is fetched into: the news comes first.
func TestRenewFails(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.commit("1", registry(1))
	g := poller(t, r.dir)
	g.maxPacks = 0
	poll(t, g, "")
	g.opts.Fault = func(point string) error {
		if point == FaultClone {
			return os.ErrPermission
		}
		return nil
	}
	tip := r.commit("2", generation(2))
	if o := poll(t, g, first); o.Tip != tip || len(o.Steps) != 1 || len(packNames(g.opts.Store)) != 2 {
		t.Errorf("%d packs, %+v", len(packNames(g.opts.Store)), o)
	}
}

// BenchmarkManyFetches reads the files of the newest commit from stores that have seen 300 fetches of one commit each and from fresh clones,
// by this package and by git, in turn, prints what each took, and fails when this package is slower after the fetches.
func BenchmarkManyFetches(b *testing.B) {
	for b.Loop() {
		r, dir := newRepo(b), b.TempDir()
		at := func(name string) string { return filepath.Join(dir, name) }
		held := r.commit("1", registry(1))
		g := poller(b, r.dir)
		poll(b, g, "")
		r.git("clone", "-q", "--bare", "--no-local", r.dir, at("git"))
		for i := range 300 {
			held, _ = fetchOneByOne(b, r, g, held, 2+i, 2+i)
			r.git("--git-dir", at("git"), "fetch", "-q", r.dir, "+main:main")
			if i == 2*maxPacks-1 {
				if out, err := exec.Command("cp", "-a", g.opts.Store, at("worst")).CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
			}
		}
		for range 2 {
			poll(b, g, held)
		}
		fresh := poller(b, r.dir)
		poll(b, fresh, "")
		r.git("clone", "-q", "--bare", "--no-local", r.dir, at("clone"))
		worst := r.git("--git-dir", at("worst"), "rev-parse", string(g.opts.Remote.mirror()))
		git := func(dir string) func() {
			return func() { r.git("--git-dir", dir, "archive", "--format=tar", "--output="+os.DevNull, held) }
		}
		all := []*reading{
			{name: "stado, after 300 fetches", read: func() { readTip(b, g.opts.Store, held) }},
			{name: "stado, a fresh clone", read: func() { readTip(b, fresh.opts.Store, held) }},
			{name: fmt.Sprintf("stado, %d packs", len(packNames(at("worst")))), read: func() { readTip(b, at("worst"), worst) }},
			{name: "git, after 300 fetches", read: git(at("git"))},
			{name: "git, a fresh clone", read: git(at("clone"))},
		}
		compare(b, all)
		if worn, fresh := all[0].median(), all[1].median(); worn > fresh*3/2 {
			b.Errorf("after 300 fetches the newest commit is read in %s, from a fresh clone in %s", worn, fresh)
		}
	}
}

func readTip(b *testing.B, store, commit string) {
	b.Helper()
	st := openStore(store)
	defer func() { _ = st.Close() }()
	c, err := readCommit(st, plumbing.NewHash(commit))
	if err != nil {
		b.Fatal(err)
	}
	if _, findings, err := treeSet(st, c.TreeHash, nil, func(sandbox.Progress) {}); err != nil || len(findings) > 0 {
		b.Fatal(findings, err)
	}
}

// reading is one way to read, and how long it took each time.
type reading struct {
	name string
	read func()
	took []time.Duration
}

// median is of a reading that was compared.
func (r *reading) median() time.Duration { return r.took[len(r.took)/2] }

// compare does every reading in turn, many times over.
func compare(b *testing.B, all []*reading) {
	b.Helper()
	for range 31 {
		for _, r := range all {
			r.read() // what ran before it has left other things in the caches
			began := time.Now()
			r.read()
			r.took = append(r.took, time.Since(began))
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nreading the newest commit\tleast\tmedian\tmost\t")
	for _, r := range all {
		slices.Sort(r.took)
		fmt.Fprintf(w, "%s\t%v\t%v\t%v\t\n", r.name, r.took[0].Round(time.Microsecond), r.median().Round(time.Microsecond), r.took[len(r.took)-1].Round(time.Microsecond))
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
}
