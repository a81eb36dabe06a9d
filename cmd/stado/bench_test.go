package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"stado.internal/stado/reconcile/sandbox/sandboxtest"
	"stado.internal/stado/schema/schematest"
)

// elsewhere says which bars are no matter of measuring, and which one is another one here.
const elsewhere = `
- A silent authority, at every stage of every protocol: TestSilentServers, TestSilentGitOverSSH and TestFrozenSSHD of reconcile/source.
- Hostile files: TestBombs, TestLongFindings and TestHugeBlobInASmallPack of reconcile/source.
- The first mirror has the whole history where the bar speaks of depth 1: what is vouched for and judged is every commit since the held one.
- The first fetch starts a process, which costs as much as "a process of its own" says; an agent keeps it for the fetches that follow.
`

// BenchmarkRegistry judges generated registries beside `cue vet -c ./...` on the same files, and prints what each took with the share of
// what cue took. Where STADO_BENCHMARKS names a file, the same goes into it. A bar that is missed fails the benchmark at its end.
func BenchmarkRegistry(b *testing.B) {
	cue := cueBinary(b)
	report := benchReport{facts: benchFacts(b, cue)}
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			for b.Loop() {
				r := newRegistryBench(b, cue, n)
				r.run()
				report.add(n, r.rows)
				report.print(b, os.Stdout) // a benchmark's own log is cut after a few lines
			}
		})
	}
	fmt.Print(elsewhere)
	report.end(b)
}

// cost is what a process and those that it started took.
type cost struct {
	cpu, wall time.Duration
	peak      int64 // bytes, of the largest process
	wire      int64 // bytes to and from the remote
}

type registryBench struct {
	b        *testing.B
	n        int
	dir      string
	cue      string
	stado    string
	baseline cost
	rows     []benchRow

	generation int
}

func newRegistryBench(b *testing.B, cue string, n int) *registryBench {
	b.Helper()
	r := &registryBench{b: b, n: n, cue: cue, stado: sandboxtest.Binary(b), dir: filepath.Join(b.TempDir(), "fleet"), generation: 1}
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

// next is what the next change writes: another host and the next generation.
func (r *registryBench) next() map[string]string {
	r.generation++
	return map[string]string{
		schematest.HostFile(7): schematest.Host(7, fmt.Sprintf("g%d", r.generation), func() int { return 0 }),
		"generation.cue":       fmt.Sprintf("package fleet\n\nregistry: service_directory: generation: %d\n", r.generation),
	}
}

func (r *registryBench) change() {
	r.b.Helper()
	for path, text := range r.next() {
		r.write(path, text)
	}
}

// bar is what something may take at most: a part of what cue took, or an amount, in seconds or bytes.
type bar struct {
	of         string // "cpu", "wall", "peak" or "wire"
	part, most float64
}

func (c cost) of(what string) float64 {
	switch what {
	case "wall":
		return c.wall.Seconds()
	case "peak":
		return float64(c.peak)
	case "wire":
		return float64(c.wire)
	}
	return c.cpu.Seconds()
}

// say is the share that the bar is about, if it is about one, and whether it is met; nothing where it has no bound.
func (r *registryBench) say(c cost, b bar) (share, verdict string) {
	limit, text := b.most, ""
	switch {
	case b.most > 0 && (b.of == "wire" || b.of == "peak"):
		text = fmt.Sprintf("%s %.0f kB", b.of, b.most/1000)
	case b.most > 0:
		text = fmt.Sprintf("%s %.0f ms", b.of, b.most*1000)
	default:
		whole := r.baseline.of(b.of)
		limit, share, text = b.part*whole, fmt.Sprintf("%.4f of its %s", c.of(b.of)/whole, b.of), fmt.Sprintf("%.4f", b.part)
	}
	switch {
	case b.most == 0 && b.part == 0:
		return share, ""
	case c.of(b.of) > limit:
		return share, text + " missed"
	}
	return share, text + " met"
}

func (r *registryBench) row(what string, c cost, bars ...bar) {
	row := benchRow{what: what, cost: c}
	for _, b := range bars {
		if b.of == "" {
			continue
		}
		share, verdict := r.say(c, b)
		if share != "" {
			row.shares = append(row.shares, share)
		}
		if verdict != "" {
			row.verdicts = append(row.verdicts, verdict)
		}
	}
	r.rows = append(r.rows, row)
}

// at is a bar that holds from a size on.
func (r *registryBench) at(least int, bar float64) float64 {
	if r.n < least {
		return 0
	}
	return bar
}

// beside runs cue and a judgement of ours that knows nothing in turns, and gives the median of each; their largest peaks.
func (r *registryBench) beside(vet []string) (theirs, ours cost) {
	const turns = 3
	var a, b []cost
	for range turns {
		a = append(a, r.command(r.cue, "vet", "-c", "./..."))
		r.forget()
		b = append(b, r.command(r.stado, vet...))
	}
	middle := func(all []cost) cost {
		c := cost{cpu: median(all, cpuOf), wall: median(all, wallOf)}
		for _, one := range all {
			c.peak = max(c.peak, one.peak)
		}
		return c
	}
	return middle(a), middle(b)
}

func (r *registryBench) run() {
	vet := []string{"vet", ".", "--evaluation-cpu-seconds", "300", "--evaluation-wall-seconds", "600"}
	peak := 0.30
	if r.n < 10_000 {
		peak = 0.45
	}
	var ours cost
	r.baseline, ours = r.beside(vet)
	r.row("cue vet -c ./...", r.baseline)
	r.row("vet, nothing known, pure data", ours, bar{of: "cpu", part: r.at(1000, 0.30)}, bar{of: "peak", part: r.at(1000, peak)})
	r.row("vet, all known", r.command(r.stado, vet...), bar{of: "wall"})
	r.change()
	r.row("vet, one host and the generation changed", r.command(r.stado, vet...), bar{of: "wall"})
	r.agent()
	r.write("rule.cue", "package fleet\n\nregistry: hosts: [string]: user: *\"stado\" | string\n")
	r.baseline, ours = r.beside(vet)
	r.row("with a rule for all hosts: cue vet -c ./...", r.baseline)
	wall := 0.75
	if r.n == 10_000 {
		wall = 0.65
	}
	r.row("with a rule for all hosts: vet, nothing known", ours, bar{of: "wall", part: r.at(1000, wall)}, bar{of: "peak", part: r.at(1000, peak)})
}
