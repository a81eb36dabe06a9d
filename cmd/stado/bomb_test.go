package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// maxGrowth is how much the agent's own memory may grow while a child of it meets a bomb.
const maxGrowth = 64 << 20

// TestBombsStayInTheChild lands files that would take all memory or all time, and a pack that inflates to half a gibibyte. The agent
// must go on answering, must not grow, and must say which limit stopped what.
func TestBombsStayInTheChild(t *testing.T) {
	t.Parallel()
	l := newLab(t, http.HandlerFunc(greet))
	l.file("../state/agent.cue", "evaluation: {memory_mib: 256, cpu_seconds: 1, wall_seconds: 20}\n")
	r := l.start()
	l.until("the first generation", func() bool { return r.serves(1) })
	l.land("a base for the bombs")
	l.until("the second generation", func() bool { return r.serves(2) })
	base := l.revision()

	for name, bomb := range map[string]string{
		"nested comprehensions": "_l: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n_b: [for a in _l for b in _l for c in _l for d in _l for e in _l for f in _l for g in _l {a + b + c + d + e + f + g}]\n",
		"a list of everything":  "import \"list\"\n\n_b: list.Range(0, 100000000, 1)\n",
		"text that doubles":     doublingText(),
		"disjunctions":          manyDisjunctions(),
		"ranges of ranges":      "import \"list\"\n\n_r: list.Range(0, 300, 1)\n_b: [for x in _r for y in _r for z in _r {x * y * z}]\n",
	} {
		l.git("reset", "--quiet", "--hard", base)
		l.file("bomb.cue", "package fleet\n\n%s", bomb)
		l.commit(name)
		l.meet(r, name, regexp.MustCompile(`evaluation limit: (cpu|memory|time).*evaluat.*bomb\.cue`))
	}

	l.git("reset", "--quiet", "--hard", base)
	big := filepath.Join(l.repo, "hosts", "big.cue")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, 512<<20); err != nil {
		t.Fatal(err)
	}
	l.git("config", "core.compression", "1")
	l.commit("half a gibibyte of zeros")
	l.meet(r, "a pack that inflates", regexp.MustCompile(regexp.QuoteMeta("file://"+l.repo)))

	// A good commit on top of a refused one is adopted.
	l.git("reset", "--quiet", "--hard", base)
	l.file("bomb.cue", "package fleet\n\n%s", doublingText())
	l.commit("one more")
	l.meet(r, "before the repair", regexp.MustCompile(`evaluation limit: `))
	l.git("rm", "--quiet", "bomb.cue")
	l.land("repaired")
	l.until("the repair", func() bool { return r.serves(l.generation) && len(l.state().Refusals) == 0 })
	r.stop()
}

// manyDisjunctions has two to the power of eighteen results, no two alike.
func manyDisjunctions() string {
	var b strings.Builder
	for i := range 18 {
		fmt.Fprintf(&b, "_b: {a%[1]d: 1, ...} | {b%[1]d: 1, ...}\n", i)
	}
	return b.String()
}

func doublingText() string {
	var b strings.Builder
	b.WriteString("_b0: \"0123456789\"\n")
	for i := range 10 {
		fmt.Fprintf(&b, "_b%d: \"%s\"\n", i+1, strings.Repeat(fmt.Sprintf(`\(_b%d)`, i), 10))
	}
	return b.String()
}

func (l *lab) revision() string {
	l.t.Helper()
	out, err := git(l.repo, "rev-parse", "HEAD")
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// meet waits for the refusal of the tip while it asks the agent for its status all the time.
func (l *lab) meet(r *running, name string, want *regexp.Regexp) {
	l.t.Helper()
	tip := l.revision()
	before := memory(l.t, r.cmd.Process.Pid, "VmRSS")
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.cmd.Process.Pid), []byte("5"), 0o600); err != nil {
		l.t.Fatal(err)
	}
	said, slowest, asked := "", time.Duration(0), 0
	l.until("a refusal of "+name, func() bool {
		at := time.Now()
		ctx, cancel := context.WithTimeout(l.t.Context(), 20*time.Second)
		defer cancel()
		st, err := fetchState(ctx, filepath.Join(l.home, "agent.sock"))
		if err != nil {
			l.t.Fatalf("%s: the agent did not answer: %v", name, err)
		}
		slowest, asked = max(slowest, time.Since(at)), asked+1
		if int(st.Generation) != l.generation {
			l.t.Fatalf("%s: generation %d is served, want %d", name, st.Generation, l.generation)
		}
		for _, refusal := range st.Refusals {
			if refusal.Commit == tip || strings.Contains(refusal.Sentence, "file://") {
				said = refusal.Sentence
			}
		}
		if said == "" && st.Authority.Detail != "" && strings.Contains(st.Authority.Detail, "limit") {
			said = st.Authority.Detail
		}
		return said != ""
	})
	grown := memory(l.t, r.cmd.Process.Pid, "VmHWM") - before
	l.t.Logf("%s: grew %d KiB, slowest of %d answers %s: %s", name, grown>>10, asked, slowest.Round(time.Millisecond), said)
	if !want.MatchString(said) {
		l.t.Errorf("%s: the refusal must match %s, got: %s", name, want, said)
	}
	if grown > maxGrowth {
		l.t.Errorf("%s: the agent grew by %d MiB", name, grown>>20)
	}
}

func memory(t *testing.T, pid int, field string) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + field + `:\s+(\d+) kB`).FindSubmatch(data)
	if m == nil {
		t.Fatalf("no %s for process %d", field, pid)
	}
	kib, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
