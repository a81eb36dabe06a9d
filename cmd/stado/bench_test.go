package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/reconcile/sandbox/sandboxtest"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
	"stado.internal/stado/schema/schematest"
)

// BenchmarkRegistry judges generated registries beside `cue vet -c ./...` on the same files, and prints what each took with the share of
// what cue took. A bar that is missed is said, not failed: a busy machine is no failure.
func BenchmarkRegistry(b *testing.B) {
	cue := cueBinary(b)
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			for b.Loop() {
				r := newRegistryBench(b, cue, n)
				r.run()
				w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0) // a benchmark's own log is cut after a few lines
				fmt.Fprintln(w, "\nhosts\twhat\tcpu\twall\tpeak\tshare of cue vet\tbar\t")
				for _, row := range r.rows {
					fmt.Fprintln(w, row)
				}
				if err := w.Flush(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// cost is what a process and those that it started took.
type cost struct {
	cpu, wall time.Duration
	peak      int64 // bytes, of the largest process
}

type registryBench struct {
	b        *testing.B
	n        int
	dir      string
	cue      string
	stado    string
	baseline cost
	rows     []string
}

func newRegistryBench(b *testing.B, cue string, n int) *registryBench {
	b.Helper()
	r := &registryBench{b: b, n: n, cue: cue, stado: sandboxtest.Binary(b), dir: filepath.Join(b.TempDir(), "fleet")}
	if err := writeFleet(r.dir, n); err != nil {
		b.Fatal(err)
	}
	r.command(r.stado, "schema", "export", ".")
	r.command("git", "init", "--quiet", "--initial-branch", "main")
	r.commit()
	return r
}

// command runs a program in the registry and measures it.
func (r *registryBench) command(name string, args ...string) cost {
	r.b.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "CUE_REGISTRY=none", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.net", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.net")
	start := time.Now()
	if text, err := cmd.CombinedOutput(); err != nil {
		r.b.Fatalf("%s %v: %v\n%s", name, args, err, text)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		r.b.Fatal("no resource usage")
	}
	return cost{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), wall: time.Since(start), peak: usage.Maxrss << 10}
}

func (r *registryBench) commit() {
	r.b.Helper()
	r.command("git", "add", "--all")
	r.command("git", "commit", "--quiet", "--message", "change")
}

// write replaces a file of the registry.
func (r *registryBench) write(path, text string) {
	r.b.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, path), []byte(text), 0o644); err != nil {
		r.b.Fatal(err)
	}
}

// forget deletes what earlier judgements have found.
func (r *registryBench) forget() {
	r.b.Helper()
	if err := os.RemoveAll(filepath.Join(r.dir, ".git", "stado")); err != nil {
		r.b.Fatal(err)
	}
}

// change edits one host and raises the generation.
func (r *registryBench) change(generation int) {
	r.b.Helper()
	r.write(schematest.HostFile(7), schematest.Host(7, fmt.Sprintf("g%d", generation), func() int { return 0 }))
	r.write("generation.cue", fmt.Sprintf("package fleet\n\nregistry: service_directory: generation: %d\n", generation))
}

// share is a bar: a part of what cue took.
type share struct {
	of  string // "cpu", "wall" or "peak"
	bar float64
}

func (r *registryBench) row(what string, c cost, shares ...share) {
	var parts, bars []string
	for _, s := range shares {
		part, whole := float64(c.cpu), float64(r.baseline.cpu)
		switch s.of {
		case "wall":
			part, whole = float64(c.wall), float64(r.baseline.wall)
		case "peak":
			part, whole = float64(c.peak), float64(r.baseline.peak)
		}
		verdict := "met"
		if part > s.bar*whole {
			verdict = "missed"
		}
		parts = append(parts, fmt.Sprintf("%.3f of its %s", part/whole, s.of))
		if s.bar > 0 {
			bars = append(bars, fmt.Sprintf("%.3f %s", s.bar, verdict))
		}
	}
	peak := ""
	if c.peak > 0 {
		peak = fmt.Sprintf("%d MiB", c.peak>>20)
	}
	r.rows = append(r.rows, fmt.Sprintf("%d\t%s\t%.2f s\t%.2f s\t%s\t%s\t%s\t",
		r.n, what, c.cpu.Seconds(), c.wall.Seconds(), peak, strings.Join(parts, ", "), strings.Join(bars, ", ")))
}

// at is a bar that holds from a size on.
func (r *registryBench) at(least int, bar float64) float64 {
	if r.n < least {
		return 0
	}
	return bar
}

func (r *registryBench) run() {
	vet := []string{"vet", ".", "--evaluation-cpu-seconds", "300", "--evaluation-wall-seconds", "600"}
	r.baseline = r.command(r.cue, "vet", "-c", "./...")
	r.row("cue vet -c ./...", r.baseline)
	peak := 0.30
	if r.n < 10_000 {
		peak = 0.45
	}
	r.forget()
	r.row("vet, nothing known, pure data", r.command(r.stado, vet...), share{"cpu", r.at(1000, 0.30)}, share{"peak", r.at(1000, peak)})
	r.row("vet, all known", r.command(r.stado, vet...), share{of: "wall"})
	r.change(2)
	r.row("vet, one host and the generation changed", r.command(r.stado, vet...), share{of: "wall"})
	r.agent()
	r.write("rule.cue", "package fleet\n\nregistry: hosts: [string]: user: *\"stado\" | string\n")
	r.forget()
	r.baseline = r.command(r.cue, "vet", "-c", "./...")
	r.row("with a rule for all hosts: cue vet -c ./...", r.baseline)
	wall := 0.75
	if r.n == 10_000 {
		wall = 0.65
	}
	r.row("with a rule for all hosts: vet, nothing known", r.command(r.stado, vet...), share{"wall", r.at(1000, wall)}, share{"peak", r.at(1000, peak)})
}

// agent measures what an agent does: from a changed branch of a repository on this machine to the snapshot on disk, the fetch included,
// and from the snapshot on disk to one in memory.
func (r *registryBench) agent() {
	home := r.b.TempDir()
	folder := filepath.Join(home, "registry")
	s, err := store.Open(folder, nil)
	if err != nil {
		r.b.Fatal(err)
	}
	g := source.New(source.Options{
		Store: filepath.Join(home, "registry.git"), Remote: source.Remote{URL: "file://" + r.dir, Branch: "main"},
		Runner: sandbox.Runner{Command: []string{r.stado, sandboxVerb}},
	})
	r.commit()
	r.adopt(g, s)
	bar := r.at(10_000, 1.0/50)
	for i := range 3 {
		r.change(3 + i)
		r.commit()
		start := usedByUs()
		r.adopt(g, s)
		r.row("agent, one host changed, fetch to snapshot", usedByUs().since(start), share{"wall", bar})
	}
	start := usedByUs()
	if view, err := store.Read(folder); err != nil || view.Snapshot == nil {
		r.b.Fatalf("%v, %v", view, err)
	}
	r.row("agent, snapshot loaded", usedByUs().since(start), share{"wall", r.at(10_000, 1.0/20)})
}

// adopt polls once and holds what is new, as the reconciler does.
func (r *registryBench) adopt(g *source.Git, s *store.Store) {
	r.b.Helper()
	held, _ := s.Held()
	offer, err := g.Poll(r.b.Context(), source.Anchor{Commit: held.Commit, Generation: held.Generation, Digest: held.Digest})
	if err != nil {
		r.b.Fatal(err)
	}
	if len(offer.Steps) != 1 || offer.Steps[0].Findings.Refuses() {
		r.b.Fatalf("%d steps: %v", len(offer.Steps), offer.Steps)
	}
	step := offer.Steps[0]
	var previous policies.Revision
	if snapshot := s.Snapshot(); snapshot != nil {
		previous = policies.Revision{Registry: snapshot.Registry, Document: snapshot.Document, Digest: snapshot.Digest}
	}
	registry := step.Registry
	if registry == nil {
		registry, err = fleet.DecodeAfter(previous.Registry, previous.Document, step.Document)
	}
	if err != nil {
		r.b.Fatal(err)
	}
	if findings := policies.Judge(previous, policies.Revision{Registry: registry, Digest: step.Digest}); findings.Refuses() {
		r.b.Fatal(findings)
	}
	err = s.Put(&fleet.Snapshot{
		Commit: step.Commit, Digest: step.Digest, Document: step.Document, Registry: registry, AdmittedAt: time.Now(), Provenance: fleet.ProvenanceFetched,
	})
	if err != nil {
		r.b.Fatal(err)
	}
}

// moment is what this process and its children have used up to a point in time.
type moment struct {
	cpu time.Duration
	at  time.Time
}

func usedByUs() moment {
	m := moment{at: time.Now()}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			m.cpu += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return m
}

func (m moment) since(start moment) cost {
	return cost{cpu: m.cpu - start.cpu, wall: m.at.Sub(start.at)}
}
