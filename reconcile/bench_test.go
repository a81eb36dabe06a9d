package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/store"
)

const refresh = 30 * time.Second

// bench is a reconciler over a repo in memory and a store on disk, inside a bubble.
type bench struct {
	*testing.T
	*Reconciler
	repo *repo
	log  *lines
	dir  string

	mu      sync.Mutex
	adopted []fleet.Generation
	changes int
	fault   func(point string) error
	more    []Source // asked when repo does not answer
}

func (b *bench) sources() []Source { return append([]Source{b.repo}, b.more...) }

// lines is a log that keeps the sentences.
type lines struct {
	mu   sync.Mutex
	list []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r.Message)
	return nil
}

// loopTest runs a test in a bubble, over a store that holds held (nil: nothing) and an authority that has tip.
func loopTest(t *testing.T, held, tip *commit, test func(b *bench)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, repo: &repo{tip: tip}, log: &lines{}, dir: dir}
		if held != nil {
			s := b.open()
			if err := s.Put(snapshotOf(held)); err != nil {
				t.Fatal(err)
			}
		}
		b.make()
		test(b)
	})
}

func snapshotOf(c *commit) *fleet.Snapshot {
	_, s := heldAt(c)
	s.AdmittedAt, s.Provenance = time.Now().UTC(), fleet.ProvenanceFetched
	return s
}

func (b *bench) open() *store.Store {
	b.Helper()
	s, err := store.Open(b.dir, func(point string) error {
		b.mu.Lock()
		fault := b.fault
		b.mu.Unlock()
		if fault != nil {
			return fault(point)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// make builds the reconciler, as a start of the agent does.
func (b *bench) make() {
	b.Reconciler = New(Options{
		Store: b.open(), Sources: func(*fleet.Snapshot) []Source { return b.sources() }, Authority: "forge", Refresh: refresh, Log: slog.New(b.log), Rand: func() float64 { return 0 },
		Interval: func(s *fleet.Snapshot) time.Duration {
			if r := s.Registry.Hosts["a1"].Resolver; r != nil {
				return r.Refresh()
			}
			return 0
		},
		Adopt: func(s *fleet.Snapshot) {
			if v, err := store.Read(b.dir); err != nil || v.Snapshot.Digest != s.Digest {
				b.Errorf("generation %d is served and not on disk: %+v, %v", s.Generation(), v, err)
			}
			if st := b.Status(); st.Served != nil && st.Served.Digest == s.Digest && st.Served.Commit == s.Commit {
				b.Errorf("generation %d was in the status before it was served", s.Generation())
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.adopted = append(b.adopted, s.Generation())
		},
		Changed: func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.changes++
		},
	})
	b.judge = judgeWord
}

// start runs the reconciler until the test ends.
func (b *bench) start() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Reconciler.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	synctest.Wait()
}

// pass lets time go by.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wantAdopted compares the generations that were served, in order, and forgets them.
func (b *bench) wantAdopted(want ...fleet.Generation) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff(want, b.adopted); diff != "" {
		b.Errorf("adopted (-want +got):\n%s", diff)
	}
	b.adopted = nil
}

// wantLog compares the sentences since the last call.
func (b *bench) wantLog(want ...string) {
	b.Helper()
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	if diff := cmp.Diff(want, b.log.list); diff != "" {
		b.Errorf("log (-want +got):\n%s", diff)
	}
	b.log.list = nil
}

// wantStatus compares phase, reason, attempt and the rules that stand, as one line.
func (b *bench) wantStatus(want string) {
	b.Helper()
	s := b.Status()
	var got strings.Builder
	got.WriteString(fmt.Sprintf("%s %d %q", s.Phase, s.Attempt, s.Reason))
	for _, r := range s.Refusals {
		got.WriteString(" " + r.Rule)
	}
	if got.String() != want {
		b.Errorf("status\n got %s\nwant %s", got.String(), want)
	}
	if (s.Phase == PhaseBackingOff) != (s.NextAttemptAt != nil) && s.Phase != PhaseStarting {
		b.Errorf("%s with the next attempt at %v", s.Phase, s.NextAttemptAt)
	}
	if (s.Served == nil) != (s.StoreVersion == "") || (s.Served == nil) != (s.LoadedAt == nil) {
		b.Errorf("serves %v as version %q, loaded %v", s.Served, s.StoreVersion, s.LoadedAt)
	}
}

func serves(c *commit) string {
	return fmt.Sprintf("stado resolver serves generation %d of the registry, commit %s", c.generation, c.id)
}
