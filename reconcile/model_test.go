package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/store"
)

var errCrash = errors.New("crash")

// machine is one host against an authority that commits, errs, rewinds and forks, over a disk that fails and loses files. Its oracle is
// a naive reading of the design: the chain from the held commit, taken one good generation at a time.
type machine struct {
	dir     string
	tip     *commit
	commits map[string]*commit

	store  *store.Store
	loop   *loop
	armed  int  // steps of the disk until one fails; below 0: none will
	broken bool // one failed during the poll

	held    *commit // what the host must hold; nil: nothing
	digests map[fleet.Generation]string
}

func (m *machine) fault(string) error {
	if m.armed--; m.armed == -1 {
		m.broken = true
		return errCrash
	}
	return nil
}

// boot is a start of the agent, after a crash or without one.
func (m *machine) boot(t *rapid.T) {
	m.armed = -1
	s, err := store.Open(m.dir, m.fault)
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{
		Store: s, Sources: From(&repo{}), Authority: "forge", Refresh: time.Second, Log: slog.New(slog.DiscardHandler),
		Adopt: func(snap *fleet.Snapshot) {
			if v, err := store.Read(m.dir); err != nil || v.Snapshot == nil || v.Snapshot.Digest != snap.Digest {
				t.Fatalf("generation %d is served and not on disk: %v", snap.Generation(), err)
			}
			m.admitted(t, snap)
		},
	})
	r.judge = judgeWord
	m.store, m.loop = s, newLoop(r)
	m.loop.tick = time.NewTimer(time.Hour)
}

// admitted holds one digest per generation for ever, and that a document is one that was committed.
func (m *machine) admitted(t *rapid.T, s *fleet.Snapshot) {
	if d, ok := m.digests[s.Generation()]; ok && d != s.Digest {
		t.Fatalf("generation %d was held with two contents", s.Generation())
	}
	m.digests[s.Generation()] = s.Digest
	c := m.commits[s.Commit]
	if c == nil || c.digest() != s.Digest || string(c.document()) != string(s.Document) || c.word == "bad" || c.broken {
		t.Fatalf("commit %s is held as generation %d with a document that is not its own", s.Commit, s.Generation())
	}
}

func (m *machine) commit(c *commit) {
	m.tip = c
	m.commits[c.id] = c
}

// expect is the oracle: what a host that holds m.held and has a document with a trust holds after it saw m.tip.
func (m *machine) expect(trust *fleet.Trust) *commit {
	if m.held == nil {
		if m.tip.word == "bad" || m.tip.broken {
			return nil
		}
		return m.tip
	}
	chain := m.tip.chain()
	at := slices.IndexFunc(chain, m.held.is)
	if at < 0 {
		return m.held
	}
	held := m.held
	for i, c := range slices.Backward(chain[:at]) {
		if !vouchedFor(chain[:i+1], trust) {
			return held
		}
		good := !c.broken && c.word != "bad" && c.generation > held.generation && c.generation-held.generation <= fleet.MaxLeap
		if good || !c.broken && c.generation == held.generation && c.digest() == held.digest() {
			held, trust = c, c.trusts()
		}
	}
	return held
}

// vouchedFor reports whether a trust vouches for the last of some commits that lead to the tip, newest first.
func vouchedFor(chain []*commit, trust *fleet.Trust) bool {
	if trust == nil || trust.Mode == fleet.TrustNone {
		return true
	}
	signed := func(c *commit) bool { _, known := trust.Signers[fleet.SignerName(c.signer)]; return known }
	if trust.Mode == fleet.TrustTip {
		return slices.ContainsFunc(chain, signed)
	}
	return signed(chain[len(chain)-1])
}

// trust is that of the document that the store has.
func (m *machine) trust() *fleet.Trust {
	if s := m.store.Snapshot(); s != nil && m.commits[s.Commit] != nil {
		return m.commits[s.Commit].trusts()
	}
	return nil
}

// poll reads and settles, whole or in parts.
func (m *machine) poll(t *rapid.T, part int) {
	m.broken = false
	src := &repo{tip: m.tip, part: part}
	m.loop.opts.Sources = From(src)
	trust := m.trust()
	for more := true; more; {
		res := m.loop.look(context.Background(), inquiry{sources: m.loop.sources(), behind: m.loop.behind})
		m.loop.first, m.loop.started = false, time.Now()
		more = m.loop.settle(res)
	}
	if !m.broken {
		m.held = m.expect(trust)
	}
	m.checkHeld(t)
}

// checkHeld compares the anchor with the oracle. After a failure it may be what was held or anything the poll was about to hold.
func (m *machine) checkHeld(t *rapid.T) {
	held, ok := m.store.Held()
	if !ok {
		if m.held != nil {
			t.Fatalf("generation %d was lost", m.held.generation)
		}
		return
	}
	if m.broken {
		if now := m.commits[held.Commit]; m.held == nil || held.Generation >= m.held.generation && slices.ContainsFunc(now.chain(), m.held.is) {
			m.held = now
			return
		}
	}
	if m.held == nil || held.Commit != m.held.id || held.Generation != m.held.generation {
		t.Fatalf("holds %+v, want commit %+v", held, m.held)
	}
}

// Check holds after every action.
func (m *machine) check(t *rapid.T) {
	v, err := store.Read(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.held != nil && v.Held.Generation < m.held.generation {
		t.Fatalf("the anchor fell to %d from %d", v.Held.Generation, m.held.generation)
	}
	if v.Snapshot != nil {
		m.admitted(t, v.Snapshot)
	}
	if s := m.loop.Status(); s.Served != nil && m.held == nil {
		t.Fatalf("serves %+v and holds nothing", s.Served)
	}
}

func TestModel(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatal(err)
		}
		m := &machine{dir: dir, commits: map[string]*commit{}, digests: map[fleet.Generation]string{}}
		stamped := rapid.Bool().Draw(t, "stamped")
		trust := rapid.SampledFrom([]string{"", "tip ada", "chain ada", "tip ada ben"}).Draw(t, "trust")
		m.commit(first(1, "base").with(func(c *commit) { c.stamped, c.trust = stamped, trust }))
		m.boot(t)
		n := 0
		unique := func() string { n++; return string(rune('a'+n%26)) + time.Duration(n).String() }
		signer := func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"ada", "ada", "ben", "eve", ""}).Draw(t, "signer")
		}
		t.Repeat(map[string]func(*rapid.T){
			"":     m.check,
			"good": func(t *rapid.T) { m.commit(m.tip.then(unique()).by(signer(t))) },
			"trust": func(t *rapid.T) {
				to := rapid.SampledFrom([]string{"", "tip ada", "tip ben", "chain ada", "chain ada ben", "none ada"}).Draw(t, "to")
				m.commit(m.tip.then(unique()).trusting(to).by(signer(t)))
			},
			"bad":    func(t *rapid.T) { m.commit(m.tip.then("bad").by(signer(t))) },
			"broken": func(t *rapid.T) { m.commit(m.tip.then(unique()).with(func(c *commit) { c.broken = true })) },
			"touch":  func(t *rapid.T) { m.commit(m.tip.touched().by(signer(t))) },
			"regenerate": func(t *rapid.T) { // forgotten, lowered, or leapt
				to := rapid.SampledFrom([]fleet.Generation{m.tip.generation, max(m.tip.generation, 2) - 1, m.tip.generation + 3, m.tip.generation + fleet.MaxLeap + 9}).Draw(t, "generation")
				m.commit(m.tip.then(unique()).with(func(c *commit) { c.generation = to }).by(signer(t)))
			},
			"rewind": func(t *rapid.T) {
				chain := m.tip.chain()
				m.tip = chain[rapid.IntRange(0, len(chain)-1).Draw(t, "by")]
			},
			"orphan": func(t *rapid.T) {
				m.commit(first(m.tip.generation+fleet.Generation(rapid.IntRange(0, 2).Draw(t, "above")), unique()))
			},
			"poll": func(t *rapid.T) { m.poll(t, rapid.IntRange(0, 2).Draw(t, "part")) },
			"poll over a failing disk": func(t *rapid.T) {
				m.armed = rapid.IntRange(0, 14).Draw(t, "step")
				m.poll(t, 0)
				m.armed = -1
			},
			"poll into a crash": func(t *rapid.T) {
				m.armed = rapid.IntRange(0, 14).Draw(t, "step")
				m.poll(t, 0)
				m.boot(t)
				m.broken = false
				m.checkHeld(t)
			},
			"restart": func(t *rapid.T) {
				m.boot(t)
				m.loop.settle(result{err: errRefused}) // serves what the store holds
			},
			"lose a file": func(t *rapid.T) {
				if m.held == nil || m.store.Damaged() && !m.logged(t) {
					t.Skip("the loss of everything that names the anchor is allowed to lose it")
				}
				m.lose(t, rapid.SampledFrom([]string{store.HeldFile, store.SlotA, store.SlotB}).Draw(t, "file"))
			},
		})
	})
}

// logged reports whether the journal names what is held: it may not after a disk that failed.
func (m *machine) logged(t *rapid.T) bool {
	list, err := m.store.Log()
	if err != nil {
		t.Fatal(err)
	}
	return len(list) > 0 && list[len(list)-1].Generation == m.held.generation
}

// lose damages one file and restarts. The newest document may be gone; the fence stands at the anchor, or, without one, at the newest
// document or at what the journal names.
func (m *machine) lose(t *rapid.T, name string) {
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte("lost"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.boot(t)
	held, ok := m.store.Held()
	if !ok {
		t.Fatalf("%s is lost and with it everything", name)
	}
	if held.Generation < m.held.generation {
		t.Fatalf("%s is lost and the anchor fell to %d from %d", name, held.Generation, m.held.generation)
	}
	m.held = m.commits[held.Commit]
}
