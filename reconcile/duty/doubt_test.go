package duty_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/source"
)

// trusting is a registry that asks for signatures.
func trusting(n int, epoch uint64, names fleet.HostName) *fleet.Snapshot {
	s := registry(n, epoch, names)
	s.Registry.Trust = &fleet.Trust{Mode: fleet.TrustChain}
	return s
}

// unreadable is the step of a commit that does not compile.
func unreadable(n int) source.Step { return source.Step{Commit: id(n)} }

// ahead and forked are what a source offers to atlas, which holds commit 7.
func ahead(tip int, steps ...source.Step) *src {
	return &src{name: "bundle", offer: source.Offer{Tip: id(tip), Descends: true, MergeBase: id(7), Steps: steps}}
}

func forked(tip, base int, steps ...source.Step) *src {
	s := ahead(tip, steps...)
	s.offer.Descends, s.offer.MergeBase = false, ""
	if base > 0 {
		s.offer.MergeBase = id(base)
	}
	return s
}

func (s *src) refusing(commits ...int) *src {
	s.bad = map[string]bool{}
	for _, c := range commits {
		s.bad[id(c)] = true
	}
	return s
}

func (s *src) then(held string, offers ...source.Offer) *src {
	s.rest = map[string][]source.Offer{held: offers}
	return s
}

// What boreas says of a commit is nothing until it shows it: the commit is there, it is a registry with these numbers, and the trust of the
// held one vouches for all that leads to it.
func TestDoubts(t *testing.T) {
	move, on := step(trusting(8, 3, "boreas")), step(trusting(9, 3, "boreas"))
	for name, c := range map[string]struct {
		held   *fleet.Snapshot
		claim  *fleet.Snapshot
		shown  *src
		duty   authority.Duty // empty: it serves
		doubt  string         // empty: everything is believed
		stands bool           // what is read is its own repository
	}{
		"signed": {held: trusting(7, 2, "atlas"), claim: registry(8, 3, "boreas"), shown: ahead(8, move), duty: authority.DutyStepDown},
		"not signed": {
			held: trusting(7, 2, "atlas"), claim: registry(8, 3, "boreas"), shown: ahead(8, move).refusing(8),
			doubt: "STADO-SIGN-001: commit 000000000000 by " + id(7), stands: true,
		},
		"not signed on the way": {
			held: trusting(7, 2, "atlas"), claim: registry(9, 3, "boreas"), shown: ahead(9, move, on).refusing(8), doubt: "STADO-SIGN-001", stands: true,
		},
		"nobody asks for signatures": {held: mine, claim: registry(8, 3, "boreas"), shown: ahead(8, step(registry(8, 3, "boreas"))).refusing(8), duty: authority.DutyStepDown},
		"a fork, signed": {
			held: trusting(7, 2, "atlas"), claim: registry(9, 3, "boreas"),
			shown: forked(9, 5, on).then(id(5), source.Offer{Tip: id(9), Descends: true, Steps: []source.Step{move, on}}),
			duty:  authority.DutyStepDown, stands: true,
		},
		"a fork, not signed on the way": {
			held: trusting(7, 2, "atlas"), claim: registry(9, 3, "boreas"),
			shown: forked(9, 5, on).then(id(5), source.Offer{Tip: id(9), Descends: true, Steps: []source.Step{move, on}}).refusing(8),
			doubt: "STADO-SIGN-001: commit 000000000000 by " + id(5), stands: true,
		},
		"a history of its own": {
			held: trusting(7, 2, "atlas"), claim: registry(9, 3, "boreas"), shown: forked(9, 0, on).refusing(9), doubt: "STADO-SIGN-001: commit 000000000000 by ", stands: true,
		},
		"in parts": {
			held: trusting(7, 2, "atlas"), claim: registry(9, 3, "boreas"),
			shown: ahead(9).parts(source.Offer{Tip: id(9), Descends: true, Partial: true, Steps: []source.Step{move}}, source.Offer{Tip: id(9), Descends: true, Steps: []source.Step{on}}),
			duty:  authority.DutyStepDown,
		},
		"in parts, the second not signed": {
			held: trusting(7, 2, "atlas"), claim: registry(9, 3, "boreas"),
			shown: ahead(9).parts(source.Offer{Tip: id(9), Descends: true, Partial: true, Steps: []source.Step{move}}, source.Offer{Tip: id(9), Descends: true, Steps: []source.Step{on}}).refusing(9),
			doubt: "STADO-SIGN-001: commit 000000000000 by " + id(8), stands: true,
		},
		"a part without an end": {
			held: trusting(7, 2, "atlas"), claim: registry(9, 3, "boreas"),
			shown: ahead(9).parts(source.Offer{Tip: id(9), Descends: true, Partial: true, Steps: []source.Step{move}}, source.Offer{Tip: id(9), Descends: true, Partial: true}),
			doubt: "the history that it gives ends in commit " + id(8), stands: true,
		},
		"other numbers than are said": {
			held: trusting(7, 2, "atlas"), claim: numbered(8, registry(900, 9, "boreas")), shown: ahead(8, step(trusting(8, 2, "atlas"))),
			doubt: "the commit is generation 8, epoch 2, which names atlas",
		},
		"an old commit":  {held: mine, claim: numbered(6, registry(900, 9, "boreas")), shown: forked(6, 6), doubt: "the commit is in the history of what is held here", stands: true},
		"another commit": {held: mine, claim: registry(8, 3, "boreas"), shown: ahead(11, step(registry(11, 3, "boreas"))), doubt: "the history that it gives ends in commit " + id(11), stands: true},
		"no registry":    {held: mine, claim: registry(8, 3, "boreas"), shown: ahead(8, unreadable(8)), doubt: "commit " + id(8) + " is no registry that this program can read", stands: true},
		"the move, and then what this program cannot read": {
			held: mine, claim: registry(9, 3, "boreas"), shown: ahead(9, step(registry(8, 3, "boreas")), unreadable(9)), duty: authority.DutyStepDown,
		},
		"no bundle": {held: mine, claim: registry(8, 3, "boreas"), shown: &src{name: "bundle", err: errors.New("the file is not a git bundle")}, doubt: "its history cannot be read from there: the file is not a git bundle", stands: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				b.own.offer.Tip = "own"
				b.others.say("carme", c.held)
				b.others.say("boreas", c.claim)
				b.bundles[c.claim.Commit] = c.shown
				tip, err := b.read(c.held)
				if want := map[bool]string{true: "own", false: c.shown.offer.Tip}[c.stands]; err != nil || tip != want {
					t.Errorf("the tip is %q, %v, want %q", tip, err, want)
				}
				if c.duty != "" {
					b.stands(c.duty, "this host is no longer the registry authority: generation ")
				} else if r := b.watch.Record(); r != nil {
					t.Errorf("the record is %+v", r)
				}
				b.doubted(c.doubt)
				if c.doubt == "" {
					return
				}
				for range 3 { // and once is enough
					pass(interval)
					if _, err := b.read(c.held); err != nil {
						t.Error(err)
					}
				}
				b.doubted(c.doubt)
				if n := strings.Count(b.said.String(), "is not believed"); n != 1 {
					t.Errorf("it was said %d times\n%s", n, b.said.String())
				}
				b.others.say("boreas", nil) // its silence says nothing
				pass(silence)
				if _, err := b.read(c.held); err != nil {
					t.Error(err)
				}
				b.doubted(c.doubt)
				b.others.say("boreas", c.held) // it says something else
				pass(silence)
				if _, err := b.read(c.held); err != nil {
					t.Error(err)
				}
				b.doubted("")
			})
		})
	}
}

// numbered is a registry as it is said to be at a commit.
func numbered(commit int, s *fleet.Snapshot) *fleet.Snapshot {
	s.Commit = id(commit)
	return s
}

// parts has a source offer what follows commit 7 in parts, each time it is asked from the start.
func (s *src) parts(first source.Offer, rest ...source.Offer) *src {
	s.offer = first
	s.rest = map[string][]source.Offer{id(7): rest}
	return s
}

// doubted compares the one doubt there is, of what boreas says.
func (b *bench) doubted(why string) {
	b.t.Helper()
	synctest.Wait()
	doubts := b.watch.Doubts()
	switch {
	case why == "" && len(doubts) == 0:
	case why == "" || len(doubts) != 1 || doubts[0].Host != "boreas" || doubts[0].Since.IsZero() ||
		!strings.HasPrefix(doubts[0].Sentence, "host boreas says that it holds generation ") || !strings.Contains(doubts[0].Sentence, why):
		b.t.Errorf("it doubts %+v, want %q", doubts, why)
	}
}
