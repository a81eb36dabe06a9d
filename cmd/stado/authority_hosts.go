package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

const (
	// hostPatience is how long a host may take for an answer. It asks the authority before it gives one: an authority that falls silent in
	// the last phase of a read is given up after some three minutes and a half ([source.DefaultDeadlines]).
	hostPatience = 4 * time.Minute
	// releasePatience is the same for what a host says without asking anybody.
	releasePatience = 30 * time.Second
	// maxCalls bounds how many hosts are asked at once.
	maxCalls = 32
	// maxSaid bounds what a host says in JSON.
	maxSaid = 64 << 10
)

// everywhere asks hosts at the same time and takes their answers one by one. After an error of take the rest is not taken.
func everywhere[T any](hosts []fleet.HostName, ask func(fleet.HostName) T, take func(fleet.HostName, T) error) error {
	type answer struct {
		host  fleet.HostName
		value T
	}
	answers, slots := make(chan answer), make(chan struct{}, maxCalls)
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, h := range hosts {
		asking.Go(func() {
			slots <- struct{}{}
			value := ask(h)
			<-slots
			answers <- answer{h, value}
		})
	}
	var err error
	for range hosts {
		if a := <-answers; err == nil {
			err = take(a.host, a.value)
		}
	}
	return err
}

// call is a command line of stado on another host.
type call struct {
	host  fleet.HostName
	args  []string
	stdin []byte
	limit int64 // of what it says
	// patience is how long the host may take; 0 is hostPatience.
	patience time.Duration
}

// run runs it over the paths that registry gives. The program is looked for where the registry's authority has it. The error says that
// there is no answer; an exit status other than 0 is one.
func (c call) run(q *inquiry, registry *fleet.Registry) (said []byte, exit remote.Exit, err error) {
	ctx, cancel := context.WithTimeout(q.ctx, c.within())
	defer cancel()
	var out bytes.Buffer
	exit, err = c.over(ctx, q.lines.to(c.host, reach(q.settings, registry, c.host)), registry, &out)
	return out.Bytes(), exit, err
}

func (c call) within() time.Duration { return cmp.Or(c.patience, hostPatience) }

// reach says how a host of a registry is reached.
func reach(settings config.Agent, registry *fleet.Registry, host fleet.HostName) remote.Options {
	o := agent.OverSSH(settings)
	o.Host, o.Paths = string(host), remote.Paths(registry.Hosts[host])
	return o
}

// executor starts commands on a host.
type executor interface {
	Exec(ctx context.Context, command string) (*remote.Session, error)
}

// over is run with whatever reaches the host.
func (c call) over(ctx context.Context, to executor, registry *fleet.Registry, out io.Writer) (exit remote.Exit, err error) {
	program := registry.Directory.Authority.Command
	if program == "" {
		program = "stado"
	}
	s, err := to.Exec(ctx, shellLine(append([]string{program}, c.args...)))
	if err != nil {
		return exit, err
	}
	err = s.Within(ctx, remote.PhaseExec, c.within(), func() error {
		_, _ = s.Write(c.stdin) // a command that has seen enough reads no more, and its answer says why
		_ = s.CloseWrite()
		_, err := io.Copy(out, io.LimitReader(s, c.limit))
		return err
	})
	if err != nil {
		return exit, err
	}
	return s.Wait(ctx, c.within())
}

// lines are the connections of one command to other hosts: one to each, which stays for what that host is asked next. They are safe for
// concurrent use.
type lines struct {
	mu sync.Mutex
	by map[fleet.HostName]line
}

type line struct {
	*remote.Client
	paths []remote.Path
}

// to is the connection to a host, another one than before when another registry has the host elsewhere.
func (l *lines) to(host fleet.HostName, o remote.Options) executor {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.by[host]
	if ok && slices.Equal(old.paths, o.Paths) {
		return old
	}
	if ok {
		old.Close()
	}
	if l.by == nil {
		l.by = map[fleet.HostName]line{}
	}
	l.by[host] = line{remote.NewClient(o), o.Paths}
	return l.by[host]
}

func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, each := range l.by {
		each.Close()
	}
}

// lastWords is what a command that failed said at last.
func lastWords(exit remote.Exit) string {
	lines := strings.Split(strings.TrimSpace(exit.Words), "\n")
	words := strings.TrimPrefix(lines[len(lines)-1], "stado: ")
	if words == "" {
		words = fmt.Sprintf("the command ended with exit status %d and no word", exit.Status)
	}
	return fleet.OneLine(words, fleet.MaxText)
}

// putClaim asks a host for the claim.
func (m *mover) putClaim(host fleet.HostName) authority.Reply {
	claim, err := json.Marshal(m.move.Claim())
	if err != nil {
		return authority.Reply{Unreachable: err.Error()}
	}
	a, err := m.answerOf(m.registry(), call{host: host, args: []string{"registry", "claim", "-"}, stdin: claim})
	if err != nil {
		return authority.Reply{Unreachable: fleet.OneLine(err.Error(), fleet.MaxText)}
	}
	return authority.Reply{Answer: &a}
}

// answerOf is the answer of a host, reached as registry says; a refusal is one as well.
func (q *inquiry) answerOf(registry *fleet.Registry, c call) (authority.Answer, error) {
	c.limit = maxSaid
	return c.answer(c.run(q, registry))
}

// answer reads what a host said of itself.
func (c call) answer(said []byte, exit remote.Exit, err error) (authority.Answer, error) {
	if err != nil {
		return authority.Answer{}, err
	}
	if exit.Status != 0 && len(said) == 0 {
		return authority.Answer{}, errors.New(lastWords(exit))
	}
	a, err := authority.ParseAnswer(said)
	if err == nil && a.Host != c.host {
		err = fmt.Errorf("the host at this address says that it is %s", a.Host)
	}
	return a, err
}

// giveBack releases a claim here and on every other host that may have promised it, once. A host that cannot be reached keeps it.
func (m *mover) giveBack(c authority.Claim) error {
	if err := m.release(c); err != nil {
		return err
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	may := slices.DeleteFunc(m.others(), func(host fleet.HostName) bool {
		a := m.replies[host].Answer
		return a != nil && !a.Granted && a.Generation == c.Generation && a.Nonce == c.Nonce
	})
	return everywhere(may, func(host fleet.HostName) error {
		_, err := m.answerOf(m.registry(), call{host: host, args: []string{"registry", "claim", "-", "--release"}, stdin: data, patience: releasePatience})
		return err
	}, func(host fleet.HostName, err error) error {
		if err != nil && (m.replies == nil || m.replies[host].Answer != nil) {
			m.tell("host %s was not told that generation %d is given up: %v", host, c.Generation, err)
		}
		return nil
	})
}

// handed is what came of a hand-over.
type handed struct {
	result authority.HandOver
	held   authority.Head // what a host that took nothing holds, if it says so
}

// handTo hands the promoted registry to a host, by a verb that reads its bundle.
func (m *mover) handTo(host fleet.HostName, bundle []byte, verb ...string) handed {
	c := call{host: host, args: append(verb, "-", "--json"), stdin: bundle, limit: maxSaid}
	said, exit, err := c.run(m.inquiry, m.registry())
	if err != nil {
		return handed{result: authority.HandOver{Error: fleet.OneLine(err.Error(), fleet.MaxText)}}
	}
	if exit.Status == 0 {
		var r authority.PushReceipt
		if err := json.Unmarshal(said, &r); err != nil || r.State != authority.StateHandedOver || r.Generation != m.move.Generation {
			return handed{result: authority.HandOver{Error: "it answers with what is no receipt of this registry"}}
		}
		r.Unanswered = fleet.OneLine(r.Unanswered, fleet.MaxText)
		return handed{result: authority.HandOver{Receipt: &r}}
	}
	// It may have taken the registry before: its receipt was lost, or it has read it elsewhere.
	out := handed{result: authority.HandOver{Error: lastWords(exit)}}
	if a, err := m.answerOf(m.registry(), call{host: host, args: []string{"registry", "claim"}}); err == nil {
		out.held = a.Held
	}
	return out
}

// basis is what a document is built on: a registry, and a repository that has its commit, empty for this host's own history.
type basis struct {
	snapshot   *fleet.Snapshot
	repository string
}

// unpromised holds what this host does: what this host has promised keeps nothing away that is only built on.
func (m *mover) unpromised() (*store.Store, error) {
	dir, err := os.MkdirTemp(m.scratch, "held-")
	if err != nil {
		return nil, err
	}
	free, err := store.Open(filepath.Join(dir, registryFolder), nil)
	if err != nil {
		return nil, err
	}
	return free, free.Put(m.copied)
}

// fetch reads a newer registry from the host that reported it and judges it as a descendant of what is held here, without holding it.
func (m *mover) fetch(host fleet.HostName, head authority.Head) (basis, authority.Relation, error) {
	dir, err := os.MkdirTemp(m.scratch, "fetch-")
	if err != nil {
		return basis{}, authority.Unknown, err
	}
	c := call{host: host, args: []string{"registry", "bundle", "create", "-"}, limit: maxBundle}
	said, exit, err := c.run(m.inquiry, m.registry())
	if err == nil && exit.Status != 0 {
		err = errors.New(lastWords(exit))
	}
	file := filepath.Join(dir, bundleFile)
	if err == nil {
		err = os.WriteFile(file, said, 0o600)
	}
	if err != nil {
		return basis{}, authority.Unknown, err
	}
	free, err := m.unpromised()
	if err != nil {
		return basis{}, authority.Unknown, err
	}
	from, err := source.BundleRemote(file, "")
	if err != nil {
		return basis{}, authority.Unknown, err
	}
	asked, repository, err := m.askFor(free, source.Options{Remote: from})
	switch {
	case err != nil:
		return basis{}, authority.Unknown, err
	case asked.Refusal != nil && asked.Refusal.Rule == reconcile.RuleFork:
		return basis{}, authority.Forked, nil
	case asked.Refusal != nil:
		return basis{}, authority.Unknown, fmt.Errorf("this host refuses it: %s: %s", asked.Refusal.Rule, asked.Refusal.Sentence)
	case asked.Snapshot == nil || asked.Snapshot.Digest != head.Digest:
		return basis{}, authority.Unknown, errors.New("the host has something else by now")
	}
	return basis{asked.Snapshot, repository}, authority.Ahead, nil
}
