package source

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"stado.internal/stado/reconcile/remote/remotetest"
)

// Commits that come in a row are read by the child of the first one; when that ends in the middle of a fetch, another one reads.
func TestFetchesShareAChild(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		poller func(r repo) *Git
	}{
		{"file", func(r repo) *Git { return poller(r.t, r.dir) }},
		{"https", func(r repo) *Git {
			address, ca := server(t, backend(t, r))
			g := poller(r.t, address)
			g.opts.Remote.CAFile = ca
			return g
		}},
		{"ssh", func(r repo) *Git {
			g, _ := sshPoller(t, remotetest.SSHD(r.t, remotetest.Config{}).Host, r.dir, long())
			return g
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			held := r.commit("1", registry(1))
			g := tc.poller(r)
			started := starts(t, g)
			poll(t, g, "")
			begun := len(started())
			next := func(generationNumber int) {
				t.Helper()
				tip := r.commit(strconv.Itoa(generationNumber), generation(generationNumber))
				if o := poll(t, g, held); len(o.Steps) != 1 || o.Tip != tip || o.Steps[0].Findings.Refuses() {
					t.Fatalf("%+v", o)
				}
				held = tip
			}
			next(2)
			next(3)
			if pids := started(); len(pids) != begun {
				t.Errorf("%d processes were started for two commits", len(pids)-begun)
			}
			// A child may answer before it is killed, on a machine that is busy elsewhere; then the next one is.
			for n := 4; len(started()) == begun && n < 50; n++ {
				victim := kept(t, started)
				g.log = slog.New(onPhase(func(phase string) {
					if phase == PhaseStore && victim != 0 {
						if err := unix.Kill(victim, unix.SIGKILL); err != nil {
							t.Error(err)
						}
						victim = 0
					}
				}))
				next(n)
			}
			if pids := started(); len(pids) != begun+1 {
				t.Errorf("%d processes were started for a commit whose fetch was killed", len(pids)-begun)
			}
		})
	}
}

// kept is the one process that has not ended.
func kept(t *testing.T, started func() []int) int {
	t.Helper()
	living := slices.DeleteFunc(started(), func(pid int) bool { return unix.Kill(pid, 0) != nil })
	if len(living) != 1 {
		t.Fatalf("processes %v are there", living)
	}
	return living[0]
}

// starts notes the processes that g starts.
func starts(t *testing.T, g *Git) func() []int {
	list := filepath.Join(t.TempDir(), "started")
	g.opts.Runner.Command = append([]string{"/bin/sh", "-c", `echo $$ >>"` + list + `"; exec "$@"`, "sh"}, g.opts.Runner.Command...)
	return func() (pids []int) {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return pids
	}
}

// onPhase is a log that hears which phase of a read begins.
type onPhase func(phase string)

func (onPhase) Enabled(context.Context, slog.Level) bool { return true }
func (p onPhase) WithAttrs([]slog.Attr) slog.Handler     { return p }
func (p onPhase) WithGroup(string) slog.Handler          { return p }
func (p onPhase) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "phase" {
			p(a.Value.String())
		}
		return true
	})
	return nil
}
