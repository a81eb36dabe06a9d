package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/source"
)

// commit is one commit of a registry repository in memory.
type commit struct {
	id         string
	parent     *commit
	merged     *commit // second parent
	generation fleet.Generation
	word       string // the rest of the document
	stamped    bool
	refresh    int  // seconds that the document declares; 0: none
	broken     bool // does not compile
	empty      bool // has no hosts
	policies   bool // has policies of the fleet's own
	unowned    bool // has the document and a finding about how it is written down
	trailers   map[string]string
	trust      string // "MODE NAME…": whose signatures the document asks for
	signer     string // who signed the commit; empty: nobody
	authority  string // empty: a1
}

// then adds a commit with the next generation and another word.
func (c *commit) then(word string) *commit {
	next := &commit{parent: c, generation: c.generation + 1, word: word, stamped: c.stamped, trust: c.trust}
	return next.named()
}

// with is the commit after a change of it; its id follows its content.
func (c *commit) with(change func(*commit)) *commit {
	change(c)
	return c.named()
}

func (c *commit) named() *commit {
	parent := ""
	if c.parent != nil {
		parent = c.parent.id
	}
	if c.merged != nil {
		parent += c.merged.id
	}
	sum := sha256.Sum256(fmt.Append(nil, parent, c.generation, c.word, c.stamped, c.broken, c.empty, c.trailers, c.refresh, c.policies, c.unowned,
		c.trust, c.signer, c.authority))
	c.id = hex.EncodeToString(sum[:20])
	return c
}

// touched adds a commit that leaves the document as it is.
func (c *commit) touched() *commit {
	return c.then("").with(func(n *commit) {
		n.generation, n.word, n.broken, n.refresh = c.generation, c.word, c.broken, c.refresh
		n.trailers = map[string]string{"Touch": c.id}
	})
}

// has reports whether a commit is this one or in its history.
func (c *commit) has(id string) bool {
	return c != nil && (c.id == id || c.parent.has(id) || c.merged.has(id))
}

// is compares by content: the same change of the same commit is the same commit.
func (c *commit) is(other *commit) bool { return c.id == other.id }

func first(generation fleet.Generation, word string) *commit {
	return (&commit{generation: generation, word: word}).named()
}

func (c *commit) document() []byte {
	mode := fleet.GenerationAuthored
	if c.stamped {
		mode = fleet.GenerationStamped
	}
	hosts := map[string]any{"a1": map[string]any{"ssh": "stado@a1", "zone": c.word, "service_resolver": map[string]any{"refresh_seconds": c.refresh}}}
	if c.empty {
		hosts = nil
	}
	raw, err := json.Marshal(map[string]any{
		"hosts": hosts, "trust": c.trusts(),
		"service_directory": map[string]any{
			"generation": c.generation, "authority": map[string]any{"host": cmp.Or(c.authority, "a1"), "repository": "/r", "command": "/usr/bin/stado"},
		},
		"policies": map[string]any{"generation_mode": mode},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func (c *commit) digest() string {
	sum := sha256.Sum256(c.document())
	return hex.EncodeToString(sum[:])
}

func (c *commit) step() source.Step {
	s := source.Step{Commit: c.id, Parent: c.parent.ID(), Author: "A", Subject: c.word, Trailers: c.trailers, Policies: c.policies}
	if c.broken {
		s.Findings = fleet.Findings{{Rule: "STADO-SCHEMA-001", Severity: fleet.SeverityError, File: "hosts/a1.cue", Line: 3, Column: 5, Message: "unknown field"}}
		return s
	}
	s.Document, s.Digest, s.Generation = c.document(), c.digest(), c.generation
	if c.unowned {
		s.Findings = fleet.Findings{{Rule: "STADO-SCOPE-001", Severity: fleet.SeverityError, Message: "path not owned"}}
	}
	return s
}

// chain is the commit and its ancestors, newest first.
func (c *commit) chain() []*commit {
	var list []*commit
	for ; c != nil; c = c.parent {
		list = append(list, c)
	}
	return list
}

// offer is what a source says of a branch at tip to a host that holds the anchor.
func offer(tip *commit, held source.Anchor) source.Offer {
	chain := tip.chain()
	at := slices.IndexFunc(chain, func(c *commit) bool { return c.id == held.Commit })
	o := source.Offer{Tip: tip.id, Descends: held == source.Anchor{} || tip.has(held.Commit)}
	if at < 0 {
		o.Steps = []source.Step{tip.step()}
		return o
	}
	o.Policies = chain[at].policies
	for _, c := range slices.Backward(chain[:at]) {
		o.Steps = append(o.Steps, c.step())
	}
	return o
}

// repo is a source over one branch. A test sets what it answers; err ends a read, silent makes it stand until then is called.
type repo struct {
	name   string
	mu     sync.Mutex
	tip    *commit
	err    error
	silent chan struct{}
	part   int    // steps in one offer; 0: all
	after  string // last step of a partial offer
	cut    error  // ends the read that would go on after a partial offer
	polls  []time.Time
	asked  []source.Anchor

	policyErr error
	judged    []string // the pairs of commits that Policies was asked about
}

func (r *repo) String() string { return cmp.Or(r.name, "the repository of the test") }

func (r *repo) Poll(ctx context.Context, held source.Anchor) (source.Offer, error) {
	r.mu.Lock()
	r.polls, r.asked = append(r.polls, time.Now()), append(r.asked, held)
	silent := r.silent
	r.mu.Unlock()
	if silent != nil {
		select {
		case <-silent:
		case <-ctx.Done():
			return source.Offer{}, ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return source.Offer{}, r.err
	}
	if r.after != "" && r.cut != nil {
		r.after = ""
		return source.Offer{}, r.cut
	}
	o := offer(r.tip, held)
	if held.Restart {
		r.after = ""
	}
	if i := slices.IndexFunc(o.Steps, func(s source.Step) bool { return s.Commit == r.after }); i >= 0 {
		o.Steps = o.Steps[i+1:]
	}
	if r.after = ""; r.part > 0 && len(o.Steps) > r.part {
		o.Steps, o.Partial, r.after = o.Steps[:r.part], true, o.Steps[r.part-1].Commit
	}
	return o, nil
}

// Policies is a fleet's own policy against the word "ugly". It is asked in the order of the commits, and fails as reads do.
func (r *repo) Policies(_ context.Context, previous, next policies.Revision) (fleet.Findings, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judged = append(r.judged, previous.Commit+" "+next.Commit)
	if r.policyErr != nil {
		return nil, r.policyErr
	}
	if next.Registry.Hosts["a1"].Zone == "ugly" {
		return fleet.Findings{{Rule: "STADO-POLICY-001", Severity: fleet.SeverityError, File: "policies/words.cue", Line: 4, Message: "nice: ugly"}}, nil
	}
	return nil, nil
}

// set changes what the repo answers.
func (r *repo) set(change func(*repo)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *repo) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.polls)
}

// judgeWord refuses a document whose word is "bad", and one that follows "guarded" without being allowed to.
func judgeWord(previous, next policies.Revision) fleet.Findings {
	var fs fleet.Findings
	if next.Registry.Hosts["a1"].Zone == "bad" {
		fs = append(fs, fleet.Finding{Rule: "STADO-TEST-001", Severity: fleet.SeverityError, File: "hosts/a1.cue", Line: 7, Message: "the word is bad", Hint: "use another"})
	}
	if previous.Registry != nil && previous.Registry.Hosts["a1"].Zone == "guarded" && !next.AllowEmptyFleet {
		fs = append(fs, fleet.Finding{Rule: "STADO-TEST-002", Severity: fleet.SeverityError, Message: "guarded"})
	}
	return append(fs, fleet.Finding{Rule: "STADO-TEST-003", Severity: fleet.SeverityWarning, Message: "noted"})
}
