package source

import (
	"maps"
	"strings"
	"testing"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/sandbox"
)

const named = `package policies

next: hosts: [string]: {...}

violations: {
	for name, h in next.hosts if h.hostnames == _|_ {
		"named/\(name)": "host \(name) has no host name"
	}
}
`

// nameless is a change that takes the only host's names away.
func nameless(n int) map[string]string {
	files := generation(n)
	files["hosts/alpha.cue"] = strings.Replace(registry(n)["hosts/alpha.cue"], `hostnames: ["alpha.example.net"]`, "", 1)
	return files
}

func with(files map[string]string, path, text string) map[string]string {
	files = maps.Clone(files)
	files[path] = text
	return files
}

func revisionOf(s Step) policies.Revision {
	return policies.Revision{Document: s.Document, Digest: s.Digest, Commit: s.Commit, OwnPolicies: s.Policies}
}

// TestPolicies walks a branch whose policies come, change and go: an offer says which commits have some, and each change is judged by
// those of the commit before it, at the line where the policy gives its sentence.
func TestPolicies(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.commit("1", registry(1))
	r.commit("policies", map[string]string{"policies/names.cue": named})
	r.commit("2", nameless(2))
	r.git("rm", "-q", "policies/names.cue")
	r.commit("no policies", nil)
	g := poller(t, r.dir)
	o := poll(t, g, first)
	var have []bool
	for _, s := range o.Steps {
		if s.Findings.Refuses() {
			t.Fatalf("%s: %v", s.Subject, s.Findings)
		}
		have = append(have, s.Policies)
	}
	if o.Policies || len(have) != 3 || !have[0] || !have[1] || have[2] {
		t.Fatalf("held %v, steps %v", o.Policies, have)
	}
	if o := poll(t, g, o.Steps[0].Commit); !o.Policies {
		t.Error("the held commit's policies are not seen")
	}
	const want = `policies/names.cue:7:20: STADO-POLICY-001: named/alpha: host alpha has no host name (this fleet's own policies, as they stood before the change, refuse it)`
	for range 2 { // the second answer is remembered
		got, err := g.Policies(t.Context(), revisionOf(o.Steps[0]), revisionOf(o.Steps[1]))
		if err != nil || len(got) != 1 || got[0].String() != want {
			t.Errorf("got %v, %v; want %s", got, err, want)
		}
	}
	if len(g.changes) != 1 {
		t.Errorf("%d changes are remembered", len(g.changes))
	}
	if got, err := g.Policies(t.Context(), revisionOf(o.Steps[2]), revisionOf(o.Steps[1])); err != nil || len(got) != 0 {
		t.Errorf("a commit without policies says %v, %v", got, err)
	}

	e := Evaluator{Runner: runner(t)}
	base, err := e.Commit(t.Context(), r.dir, "HEAD~2")
	if err != nil || !base.Policies {
		t.Fatalf("%+v, %v", base, err)
	}
	next, err := e.WorkTree(t.Context(), r.dir)
	if err != nil || next.Policies {
		t.Fatalf("%+v, %v", next, err)
	}
	if got, err := e.Judge(t.Context(), r.dir, base, next); err != nil || len(got) != 1 || got[0].String() != want {
		t.Errorf("Judge: %v, %v", got, err)
	}
	if got, err := e.Judge(t.Context(), r.dir, next, base); err != nil || len(got) != 1 || got[0].Rule != policies.RuleRollback {
		t.Errorf("Judge of the way back: %v, %v", got, err)
	}
}

// TestPolicyBombs holds that a policy which does not end is a verdict too: on the commit that brings it, when it needs no previous
// document, and else on the change that sets it off. Neither harms the agent.
func TestPolicyBombs(t *testing.T) { // not parallel: it measures this process
	bomb := bombs()["nested loops"]
	trap := strings.ReplaceAll("package policies\n\nprevious?: {...}\nif previous != _|_ {\n\t"+strings.ReplaceAll(bomb, "\n", "\n\t")+"}\n", "\n\t}\n", "\n}\n")
	r := newRepo(t)
	r.commit("1", registry(1))
	held := r.commit("trap", map[string]string{"policies/trap.cue": trap})
	r.commit("2", with(generation(2), "policies/zbomb.cue", "package policies\n\n"+bomb))
	limits := sandbox.Limits{Data: 192 << 20, CPU: time.Second, Wall: 10 * time.Minute}
	g := poller(t, r.dir)
	g.opts.Runner.Limits = limits
	whole := poll(t, g, "")
	if f := only(t, whole.Steps[0].Findings); f.Rule != RuleLimit || f.File != "policies/zbomb.cue" || !strings.Contains(f.Message, "in phase policies") {
		t.Errorf("the commit that brings a bomb: %s", f)
	}
	r.git("reset", "-q", "--hard", held)
	r.commit("2", generation(2))
	o := poll(t, g, held)
	if len(o.Steps) != 1 || o.Steps[0].Findings.Refuses() || !o.Policies {
		t.Fatalf("%+v", o)
	}
	before := ownMemory(t)
	previous := revisionOf(o.Steps[0]) // the documents differ in nothing that matters here
	previous.Commit = held
	got, err := g.Policies(t.Context(), previous, revisionOf(o.Steps[0]))
	if err != nil {
		t.Fatal(err)
	}
	if f := only(t, got); f.Rule != RuleLimit || f.File != "policies/trap.cue" || !strings.HasPrefix(f.Message, "evaluation limit: ") {
		t.Errorf("the change that sets a bomb off: %s", f)
	}
	if grown := ownMemory(t) - before; grown > 64<<20 {
		t.Errorf("the parent grew by %d MiB", grown>>20)
	}
}

func only(t *testing.T, fs fleet.Findings) fleet.Finding {
	t.Helper()
	if len(fs) != 1 {
		t.Fatalf("%d findings: %v", len(fs), fs)
	}
	return fs[0]
}

// TestPoliciesOfADamagedStore holds that policies which cannot be read are an error, never the word that there are none, and that the next
// poll mends the store.
func TestPoliciesOfADamagedStore(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	held := r.commit("1", with(registry(1), "policies/names.cue", named))
	r.commit("2", generation(2))
	g := poller(t, r.dir)
	step := poll(t, g, held).Steps[0]
	previous := revisionOf(step)
	previous.Commit = strings.Repeat("0", 39) + "1"
	got, err := g.Policies(t.Context(), previous, revisionOf(step))
	if kindOf(err) != KindDamaged || got != nil {
		t.Fatalf("got %v, %v", got, err)
	}
	if o := poll(t, g, held); o.Unchanged || len(o.Steps) != 1 {
		t.Errorf("%+v", o)
	}
}
