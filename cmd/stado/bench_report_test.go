package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// benchRow is one thing that was measured, with what the bars say of it.
type benchRow struct {
	what             string
	cost             cost
	shares, verdicts []string
}

var benchColumns = []string{"what", "cpu", "wall", "peak", "wire", "share of cue vet", "bar"}

// cells are those of the columns.
func (r benchRow) cells() []string {
	amount := func(n, unit int64, name string) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf("%.1f %s", float64(n)/float64(unit), name)
	}
	return []string{
		r.what, amount(int64(r.cost.cpu), int64(time.Millisecond), "ms"), amount(int64(r.cost.wall), int64(time.Millisecond), "ms"),
		amount(r.cost.peak, 1<<20, "MiB"), amount(r.cost.wire, 1000, "kB"), strings.Join(r.shares, ", "), strings.Join(r.verdicts, ", "),
	}
}

// benchReport is what a run of the benchmark says.
type benchReport struct {
	facts  string
	hosts  []int
	rows   [][]benchRow // by hosts
	missed []string
}

// benchFacts says on what was measured.
func benchFacts(b *testing.B, cue string) string {
	b.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		b.Fatal(err)
	}
	first := func(program string, args ...string) string {
		out, err := exec.Command(program, args...).Output()
		if err != nil {
			b.Fatal(err)
		}
		line, _, _ := strings.Cut(string(out), "\n")
		return line
	}
	return fmt.Sprintf("%d cores, Linux %s, %s, %s, %s", runtime.NumCPU(), unix.ByteSliceToString(name.Release[:]), runtime.Version(),
		first(cue, "version"), first("git", "version"))
}

func (r *benchReport) add(hosts int, rows []benchRow) {
	r.hosts, r.rows = append(r.hosts, hosts), append(r.rows, rows)
	for _, row := range rows {
		for _, v := range row.verdicts {
			if strings.HasSuffix(v, " missed") {
				r.missed = append(r.missed, fmt.Sprintf("%d hosts, %s: %s", hosts, row.what, v))
			}
		}
	}
}

// print writes the newest rows for a terminal.
func (r *benchReport) print(b *testing.B, to io.Writer) {
	b.Helper()
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nhosts\t%s\t\n", strings.Join(benchColumns, "\t"))
	last := len(r.rows) - 1
	for _, row := range r.rows[last] {
		fmt.Fprintf(w, "%d\t%s\t\n", r.hosts[last], strings.Join(row.cells(), "\t"))
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
}

// end writes the page that STADO_BENCHMARKS names, and fails a run that has missed a bar.
func (r *benchReport) end(b *testing.B) {
	b.Helper()
	if page := os.Getenv("STADO_BENCHMARKS"); page != "" && len(r.rows) > 0 {
		if err := os.WriteFile(page, r.page(), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for _, m := range r.missed {
		b.Errorf("bar missed: %s", m)
	}
}

func (r *benchReport) page() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `# Benchmarks

Written by %s, which prints the same. Measured on %s.

Registries are generated. A share is that of what %s took on the same files in the same run.
%s`, "`make bench`", r.facts, "`cue vet -c ./...`", elsewhere)
	for i, rows := range r.rows {
		fmt.Fprintf(&out, "\n## %d hosts\n\n| %s |\n|%s\n", r.hosts[i], strings.Join(benchColumns, " | "), strings.Repeat(" --- |", len(benchColumns)))
		for _, row := range rows {
			fmt.Fprintf(&out, "| %s |\n", strings.Join(row.cells(), " | "))
		}
	}
	return out.Bytes()
}
