// Package duty keeps a host that its registry names as the authority from being it for longer than the other hosts take it for one: it asks
// them what they hold, reads what is newer, and keeps on disk what follows from that for whoever would write here.
//
// Nothing here waits for a network in the way of the registry's reads but the first one: this host's own repository is not read before the
// other hosts were asked once, or did not answer in time. After that each read begins a round of questions and goes on with what the last
// one found; a round that finds something new asks for a read.
package duty

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/durable"
)

const (
	// leastPatience is the least time for the answers of one round, all hosts together: a host starts a program to answer.
	leastPatience = 10 * time.Second
	// maxFirst is how long the first read waits for the first round, if half a refresh interval is not less.
	maxFirst = 3 * time.Second
	// leastPause is the least time from the start of one round to that of the next: a round starts a program on every host.
	leastPause = 5 * time.Second
	// historyPatience is the time to read what one host holds.
	historyPatience = 2 * time.Minute
	// maxAsked bounds how many hosts are asked at once.
	maxAsked = 32
	// maxHistories bounds how many other registries are looked at: what many hosts hold is read from one of them.
	maxHistories = 4
)

// Folder is the part of a state directory for the histories that other hosts hold. It is a cache.
const Folder = "peers"

// Peers are the other hosts of a fleet. Its methods are called from several goroutines.
type Peers interface {
	// Held asks a host what it holds, over the paths that the registry gives.
	Held(ctx context.Context, registry *fleet.Registry, host fleet.HostName) (authority.Answer, error)
	// History writes the registry that a host holds, with its history, to a git bundle in a new file.
	History(ctx context.Context, registry *fleet.Registry, host fleet.HostName, file string) error
}

// Options make a [Watch]. All are required.
type Options struct {
	Home  durable.Folder // the state directory
	Peers Peers
	// Bundle is a source that reads a git bundle into this host's repository of the registry.
	Bundle func(file string) (reconcile.Source, error)
	// Self is this host's name in a registry, empty when that does not tell.
	Self func(*fleet.Snapshot) fleet.HostName
	// Interval is the refresh interval that a registry declares for this host; 0 when it declares none.
	Interval func(*fleet.Snapshot) time.Duration
	Poke     func() // asks for a read
	Changed  func() // the record has changed; it must not block
	Log      *slog.Logger
}

// Watch is what one host knows of its role. Its methods are safe for concurrent use.
type Watch struct {
	opts  Options
	asks  chan *fleet.Snapshot
	first chan struct{} // closed when the first round has ended

	mu         sync.Mutex
	record     *Record
	repository string // of this host, as the last registry that named it says; empty: none did
	answers    map[fleet.HostName]authority.Answer
	histories  map[string]history // by the commit that they are to end in
	seen       string             // what the last round found that may matter
	doubts     map[fleet.HostName]Doubt

	// Only reads touch these, of which there is one at a time.
	related   map[string]relation // by commit
	relatedTo string              // the commit that related is about
}

// history is a bundle of what a host holds.
type history struct {
	file   string // empty when it could not be read from there
	from   fleet.HostName
	why    string // it could not
	spoilt bool   // what is in the file is not what was asked for, so it is read again
}

// New takes over the record that the state directory has. One that cannot be read stands as a dispute, until other hosts are heard.
func New(o Options) (*Watch, error) {
	record, err := Load(o.Home.Path)
	if err != nil {
		o.Log.Error(err.Error())
		record = &Record{Duty: authority.DutyDispute, Forked: true, Sentence: err.Error(), Since: time.Now().UTC()}
	}
	w := &Watch{
		opts: o, asks: make(chan *fleet.Snapshot, 1), first: make(chan struct{}), record: record,
		histories: map[string]history{}, doubts: map[fleet.HostName]Doubt{},
	}
	if record != nil {
		w.repository = record.Repository
	}
	return w, os.RemoveAll(w.path())
}

func (w *Watch) path() string { return filepath.Join(w.opts.Home.Path, Folder) }

// Record is why this host takes no changes as the authority, nil when nothing keeps it.
func (w *Watch) Record() *Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record
}

// Run asks the other hosts whenever a read begins, until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return nil
		case held := <-w.asks:
			rest := time.NewTimer(leastPause)
			w.round(ctx, held)
			if first {
				close(w.first)
			}
			select {
			case <-ctx.Done():
				rest.Stop()
			case <-rest.C:
			}
		}
	}
}

// named reports whether a registry names this host as the authority.
func (w *Watch) named(s *fleet.Snapshot) bool {
	self := w.opts.Self(s)
	return self != "" && s.Registry.Directory.Authority.Host == self
}

// round asks all other hosts, and reads what some hold and this one may lack.
func (w *Watch) round(ctx context.Context, held *fleet.Snapshot) {
	answers := w.ask(ctx, held)
	w.mu.Lock()
	before := w.histories
	news := newest(authority.HeadOf(held), answers, func(h fleet.HostName) bool { return w.doubts[h].Host != "" })
	w.mu.Unlock()
	after := w.read(ctx, held.Registry, news, before)
	var seen []string
	for _, n := range news {
		seen = append(seen, string(n.Host)+" "+n.Held.Commit)
	}
	w.mu.Lock()
	w.answers, w.histories = answers, after
	fresh := len(seen) > 0 && strings.Join(seen, "\n") != w.seen
	w.seen = strings.Join(seen, "\n")
	w.mu.Unlock()
	for commit, h := range before {
		if after[commit].file == "" && h.file != "" {
			_ = os.Remove(h.file) // a cache
		}
	}
	if fresh {
		w.opts.Poke()
	}
}

func (w *Watch) ask(ctx context.Context, held *fleet.Snapshot) map[fleet.HostName]authority.Answer {
	ctx, cancel := context.WithTimeout(ctx, max(w.opts.Interval(held), leastPatience))
	defer cancel()
	self := w.opts.Self(held)
	answers := map[fleet.HostName]authority.Answer{}
	slots := make(chan struct{}, maxAsked)
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, host := range held.Registry.HostNames() {
		if host == self {
			continue
		}
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			a, err := w.opts.Peers.Held(ctx, held.Registry, host)
			if err != nil {
				w.opts.Log.Debug(fmt.Sprintf("host %s does not say what it holds: %v", host, err))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[host] = a
		})
	}
	asking.Wait()
	return answers
}

// newest are the answers of hosts that hold what may take the role away, one for each registry, the weightiest first. Those of hosts whose
// word is doubted come after all others, so that nobody is kept from being heard by what somebody else makes up.
func newest(held authority.Head, answers map[fleet.HostName]authority.Answer, doubted func(fleet.HostName) bool) []authority.Answer {
	hosts := slices.SortedFunc(maps.Keys(answers), func(a, b fleet.HostName) int {
		return cmp.Or(later(doubted(a), doubted(b)), cmp.Compare(a, b))
	})
	var out []authority.Answer
	for _, host := range hosts {
		a := answers[host]
		same := func(other authority.Answer) bool { return other.Held.Commit == a.Held.Commit }
		if mayMatter(held, a.Held) && !slices.ContainsFunc(out, same) {
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b authority.Answer) int {
		return cmp.Or(later(doubted(a.Host), doubted(b.Host)), cmp.Compare(b.Held.Epoch, a.Held.Epoch), cmp.Compare(b.Held.Generation, a.Held.Generation))
	})
	return out[:min(len(out), maxHistories)]
}

// later puts what is true behind what is not.
func later(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// mayMatter leaves out what [authority.ReviewPeers] has no use for whatever the histories: it need not be read.
func mayMatter(held, other authority.Head) bool {
	switch {
	case other.Commit == "" || other.Commit == held.Commit:
		return false
	case other.Generation > held.Generation, other.Epoch > held.Epoch:
		return true
	}
	return other.Generation == held.Generation && other.Digest != held.Digest
}

// read brings the histories of news here that are not here yet, and leaves out all others.
func (w *Watch) read(ctx context.Context, registry *fleet.Registry, news []authority.Answer, before map[string]history) map[string]history {
	after := map[string]history{}
	for _, n := range news {
		h, known := before[n.Held.Commit]
		if !known || h.file == "" || h.spoilt {
			h = history{file: filepath.Join(w.path(), n.Held.Commit+".bundle"), from: n.Host}
			if err := w.readOne(ctx, registry, n.Host, h.file); err != nil {
				h.file, h.why = "", err.Error()
			}
		}
		after[n.Held.Commit] = h
	}
	return after
}

func (w *Watch) readOne(ctx context.Context, registry *fleet.Registry, host fleet.HostName, file string) error {
	ctx, cancel := context.WithTimeout(ctx, historyPatience)
	defer cancel()
	if err := os.MkdirAll(w.path(), 0o700); err != nil {
		return err
	}
	err := w.opts.Peers.History(ctx, registry, host, file)
	if err != nil {
		_ = os.Remove(file) // as much of it as there is
	}
	return err
}
