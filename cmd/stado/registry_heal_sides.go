package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/openssh"
	"stado.internal/stado/reconcile/source"
)

// maxFormer bounds how many authorities of the past are looked at.
const maxFormer = 4

// side is a history of the registry beside the one that this host holds.
type side struct {
	host     fleet.HostName // whose it is
	snapshot *fleet.Snapshot
	remote   *source.Options // its repository; nil when nothing is pushed there
	own      bool            // it is this host's own repository
}

func (s side) head() authority.Head { return authority.HeadOf(s.snapshot) }

func (s side) joined() joinedSide {
	return joinedSide{Host: s.host, Commit: s.snapshot.Commit, Generation: s.snapshot.Generation()}
}

// open makes the repository in which histories are compared, from the history of what this host holds.
func (h *healer) open() error {
	h.look()
	if h.held.Commit == "" {
		return fmt.Errorf("this host holds generation %d as a document without a commit, which is in no history (hand the registry over as a bundle: stado registry push --last-known-good)", h.held.Generation)
	}
	from, err := h.history()
	if err != nil {
		return err
	}
	if h.work.dir == "" {
		h.work, err = h.repositoryOf(from, h.held.Commit)
		if err == nil {
			err = h.introduce(h.work)
		}
		return err
	}
	return h.bringHere(from, h.held.Commit)
}

// bringHere fetches a commit with its history.
func (h *healer) bringHere(from, commit string) error {
	_, err := h.work.run(h.ctx, "fetch", "--quiet", "--no-tags", "--force", "--", from, commit+":refs/stado/"+commit)
	return err
}

// relate is how a side stands to what this host holds, with their merge base.
func (h *healer) relate(s side) (authority.Relation, string) {
	ours, theirs := h.held.Commit, s.snapshot.Commit
	base, err := h.work.run(h.ctx, "merge-base", ours, theirs)
	switch {
	case ours == theirs:
		return authority.Equal, ours
	case err != nil: // they have no commit in common
		return authority.Forked, ""
	case base == ours:
		return authority.Ahead, base
	case base == theirs:
		return authority.Behind, base
	}
	return authority.Forked, base
}

// sides finds every history beside the held one: of hosts that hold something else, of authorities that there were, and of this host's own
// repository.
func (h *healer) sides() ([]side, error) {
	var out []side
	add := func(s side, err error) {
		switch {
		case err != nil && h.ctx.Err() == nil:
			h.receipt.Repositories = append(h.receipt.Repositories, repositoryResult{Host: s.host, Error: fleet.OneLine(err.Error(), fleet.MaxText)})
		case err == nil && !slices.ContainsFunc(out, func(o side) bool { return o.host == s.host && o.snapshot.Commit == s.snapshot.Commit }):
			out = append(out, s)
		}
	}
	strange, err := h.strangers()
	if err != nil {
		return nil, err
	}
	for _, host := range strange {
		add(h.sideOf(host))
	}
	former, err := h.former()
	if err != nil {
		return nil, err
	}
	for _, a := range former {
		if !slices.ContainsFunc(out, func(s side) bool { return s.remote != nil && s.host == authority.HostOf(a) }) {
			add(h.repositoryOfAuthority(a))
		}
	}
	if a := h.copied.Registry.Directory.Authority; a.Host == h.self {
		if _, err := os.Stat(a.Repository); err == nil {
			s, err := h.repositoryOfAuthority(a)
			s.own = true
			add(s, err)
		}
	}
	return out, h.ctx.Err()
}

// strangers are hosts that hold a commit which is not in the history of what this host holds, one for each commit.
func (h *healer) strangers() ([]fleet.HostName, error) {
	held := map[string]fleet.HostName{}
	p := peers{h.settings}
	err := everywhere(h.others(), func(host fleet.HostName) authority.Head {
		a, err := p.Held(h.ctx, h.copied.Registry, host)
		if err != nil {
			h.tell("host %s does not say what it holds: %v", host, err)
		}
		return a.Held
	}, func(host fleet.HostName, head authority.Head) error {
		if head.Commit == "" {
			return nil
		}
		_, err := h.work.run(h.ctx, "merge-base", "--is-ancestor", head.Commit, h.held.Commit)
		if prior, known := held[head.Commit]; err != nil && (!known || host < prior) {
			held[head.Commit] = host
		}
		return h.ctx.Err()
	})
	var out []fleet.HostName
	for _, host := range held {
		out = append(out, host)
	}
	slices.Sort(out)
	return out, err
}

// sideOf is the history that a host holds: as the authority that it follows has it, when that one can be read, else as the host itself.
func (h *healer) sideOf(host fleet.HostName) (side, error) {
	s := side{host: host}
	file := filepath.Join(h.scratch, string(host)+".bundle")
	if err := (peers{h.settings}).History(h.ctx, h.copied.Registry, host, file); err != nil {
		return s, err
	}
	remote, err := source.BundleRemote(file, "")
	if err != nil {
		return s, err
	}
	if s, err = h.readSide(s, source.Options{Remote: remote}); err != nil {
		return s, err
	}
	a := s.snapshot.Registry.Directory.Authority
	if authority.HostOf(a) == h.self || authority.HostOf(a) == "" {
		return s, nil
	}
	whole, err := h.repositoryOfAuthority(a)
	if err != nil {
		h.tell("the repository of %s cannot be read, so what %s holds is taken for it: %v", authority.HostOf(a), host, err)
		return s, nil
	}
	if _, err := h.work.run(h.ctx, "merge-base", "--is-ancestor", s.snapshot.Commit, whole.snapshot.Commit); err != nil {
		return s, nil // it has gone another way
	}
	return whole, nil
}

// former are the authorities that the history of what this host holds has named before, the latest first, as far as they may have a
// repository still: hosts that are registered, and forges.
func (h *healer) former() ([]fleet.Authority, error) {
	changes, err := h.work.run(h.ctx, "log", "--first-parent", "--format=%H", h.held.Commit, "--", "authority.cue")
	if err != nil {
		return nil, err
	}
	e, err := h.evaluator()
	if err != nil {
		return nil, err
	}
	current := h.copied.Registry.Directory.Authority
	var out []fleet.Authority
	for _, change := range strings.Fields(changes)[:min(maxFormer, len(strings.Fields(changes)))] {
		v, err := e.Commit(h.ctx, h.work.dir, change+"~")
		if h.ctx.Err() != nil {
			return nil, h.ctx.Err()
		}
		if err != nil || v.Document == nil {
			continue // the first commit, or one that says nothing any more
		}
		registry, err := fleet.Decode(v.Document)
		if err != nil {
			return nil, err
		}
		a := registry.Directory.Authority
		_, registered := h.copied.Registry.Hosts[a.Host]
		same := func(other fleet.Authority) bool { return authority.HostOf(other) == authority.HostOf(a) }
		if (registered || a.Remote != "") && !same(current) && !slices.ContainsFunc(out, same) {
			out = append(out, a)
		}
	}
	return out, nil
}

// repositoryOfAuthority reads the repository of an authority over the paths that its host has now.
func (h *healer) repositoryOfAuthority(a fleet.Authority) (side, error) {
	s := side{host: authority.HostOf(a)}
	registry := *h.copied.Registry
	registry.Directory.Authority = a
	o, named, err := source.Authority(&registry, h.self)
	if err == nil && !named {
		err = errors.New("it names no repository")
	}
	if err != nil {
		return s, err
	}
	if started, err := h.named(nil); err == nil && started.Remote.URL == o.Remote.URL {
		o.Remote.CAFile, o.Remote.CredentialFile = started.Remote.CAFile, started.Remote.CredentialFile
	}
	s.remote = &o
	return h.readSide(s, o)
}

// readSide reads the tip of a source, with its history.
func (h *healer) readSide(s side, o source.Options) (side, error) {
	asked, repository, err := h.askFor(nil, o)
	switch {
	case err != nil:
		return s, err
	case asked.Refusal != nil:
		return s, fmt.Errorf("its branch is at %s, which every agent refuses: %s", asked.Tip, asked.Refusal.Sentence)
	case asked.Snapshot == nil:
		return s, errors.New("it has no registry")
	}
	s.snapshot = asked.Snapshot
	return s, h.bringHere(repository, s.snapshot.Commit)
}

// catchUp pushes what this host holds to the repository of a side that is behind, without force. What came of it is in the receipt.
func (h *healer) catchUp(s side) {
	mine, there := h.copied.Registry.Directory.Authority.Host == h.self, s.own && h.receipt.Store.Version != ""
	if relation, _ := h.relate(s); s.remote == nil || relation == authority.Equal || h.dryRun || there || !mine && !s.own {
		return
	}
	r := repositoryResult{Host: s.host, Version: h.held.Commit}
	err := h.push(s)
	switch {
	case err != nil:
		r = repositoryResult{Host: s.host, Error: fleet.OneLine(err.Error(), fleet.MaxText)}
	case h.receipt.State == healNothing:
		h.receipt.State = healPushed
	}
	h.receipt.Repositories = append(h.receipt.Repositories, r)
}

func (h *healer) push(s side) error {
	ref := h.held.Commit + ":refs/heads/" + s.remote.Remote.Branch
	if len(s.remote.SSH.Paths) == 0 {
		return h.pushTo(s.remote.Remote.URL, ref)
	}
	var causes []string
	for _, p := range s.remote.SSH.Paths {
		address, err := over(s.remote.Remote.URL, p.Destination)
		if err == nil {
			err = h.pushTo(address, ref)
		}
		var said *gitError
		if err == nil || errors.As(err, &said) && strings.Contains(said.stderr, "! [") { // it was taken, or refused, by the repository
			return err
		}
		causes = append(causes, fmt.Sprintf("%s: %v", p.Name, err))
	}
	return errors.New(strings.Join(causes, "; "))
}

// over is an ssh address by way of another destination.
func over(address string, d fleet.Destination) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	t, err := d.Parse()
	if err != nil {
		return "", err
	}
	u.Host, u.User = net.JoinHostPort(t.Host, strconv.Itoa(t.Port)), nil
	if t.User != "" {
		u.User = url.User(t.User)
	}
	return u.String(), nil
}

// pushTo runs git, which reaches a host as this host's agent does.
func (h *healer) pushTo(address, ref string) error {
	ssh, err := openssh.Channel{Identity: h.settings.Identity, KnownHosts: h.settings.KnownHosts, Strict: true}.Git()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(h.ctx, hostPatience)
	defer cancel()
	_, err = h.work.exec(ctx, gitCall{args: []string{"push", "--quiet", "--", address, ref}, env: "GIT_SSH_COMMAND=" + shellLine(ssh)})
	return err
}
