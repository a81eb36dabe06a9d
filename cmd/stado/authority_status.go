package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/duty"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/reconcile/store"
)

// authorityStatus is the JSON answer of `stado authority status`.
type authorityStatus struct {
	Authority  string           `json:"authority"`  // the host, or the forge's URL, that the held registry names; empty for none
	Repository string           `json:"repository"` // the directory that was looked at
	Branch     string           `json:"branch"`
	Commit     string           `json:"commit,omitempty"`     // tip of the branch
	Generation fleet.Generation `json:"generation,omitempty"` // of the tip
	Held       fleet.Generation `json:"held_generation"`      // of this host; 0: nothing
	Duty       string           `json:"duty,omitempty"`       // why no changes are taken here, as this host's agent has found
	Unfinished string           `json:"unfinished,omitempty"` // a move of the role, or a join of two histories, that was begun here and has not ended
	Doubts     []string         `json:"doubts,omitempty"`     // what other hosts say that they hold, and this host's agent does not believe
	Blockers   []string         `json:"blockers"`             // what keeps the repository from serving, each with what to do
}

func newAuthorityStatus(a *app) *cobra.Command {
	var asJSON bool
	var s authorityStatus
	c := &cobra.Command{
		Use:   "status [DIR]",
		Short: "Say who the registry authority is, and whether the repository served here is in order",
		Long: `Say which host or forge is the registry authority, by the registry that this host holds, and whether the repository that this host
serves is in order: whole, with a branch whose registry is admitted, the hook and the settings of 'stado authority init'. DIR is by default
the repository that the held registry names, else authority.git in the state directory.

Exit status: 0 it is in order, 1 something is in the way.`,
		Example: "  stado authority status\n  stado authority status /srv/git/fleet.git --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.Repository = args[0]
			}
			if err := a.lookAtAuthority(c.Context(), &s); err != nil {
				return refused(err)
			}
			return a.answerAuthority(s, asJSON)
		},
	}
	c.Flags().StringVar(&s.Branch, "branch", "", "branch that is the registry (default: that of the held registry, else main)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) lookAtAuthority(ctx context.Context, s *authorityStatus) error {
	home, err := a.clientHome(filepath.Join(registryFolder, store.HeldFile))
	if err != nil {
		return err
	}
	view, err := store.Read(filepath.Join(home, registryFolder))
	if err != nil {
		return err
	}
	declared := fleet.Authority{}
	if view.Snapshot != nil {
		declared, s.Held = view.Snapshot.Registry.Directory.Authority, view.Held.Generation
	}
	s.Authority = string(declared.Host) + declared.Remote
	if s.Repository == "" {
		s.Repository = filepath.Join(home, authorityFolder)
		if _, err := os.Stat(declared.Repository); declared.Repository != "" && err == nil {
			s.Repository = declared.Repository
		}
	}
	if s.Branch == "" {
		s.Branch = declared.Branch
	}
	if s.Branch == "" {
		s.Branch = config.DefaultBranch
	}
	s.Blockers = []string{}
	s.Unfinished = unfinished(home)
	record, err := duty.Load(home)
	if err != nil {
		return err
	}
	if record != nil && sameFile(record.Repository, s.Repository) {
		if s.Duty = record.Sentence; record.Forked {
			s.block("%s", record.Sentence)
		}
	}
	if doc := a.inputs(ctx, home).State; doc != nil {
		for _, d := range doc.Doubts {
			s.Doubts = append(s.Doubts, d.Sentence)
		}
	}
	if err := a.lookAtRepository(ctx, s); err != nil {
		return err
	}
	if s.Commit != "" && view.Held.Commit != "" && (record == nil || !record.Forked) {
		s.lookAtHistory(ctx, filepath.Join(home, storeFolder), view.Held.Commit)
	}
	return nil
}

// lookAtHistory looks whether the branch and what this host holds are of one history, in the repositories that have the held commit.
func (s *authorityStatus) lookAtHistory(ctx context.Context, own, held string) {
	known := false
	for _, dir := range []string{own, s.Repository} {
		r := source.Repository{Dir: dir, Env: os.Environ()}
		if _, err := r.Descends(ctx, held, held); err != nil {
			continue // it does not have the held commit, or there is none
		}
		known = true
		behind, _ := r.Descends(ctx, s.Commit, held)
		ahead, _ := r.Descends(ctx, held, s.Commit)
		if behind || ahead {
			return
		}
	}
	if known {
		s.block("branch %s is at %s, which is not in the history of generation %d that this host holds: what was pushed here since, no other host has (join the two histories: stado registry heal on %s)",
			s.Branch, short(s.Commit), s.Held, dash(s.Authority))
	}
}

func (s *authorityStatus) block(format string, args ...any) {
	s.Blockers = append(s.Blockers, fmt.Sprintf(format, args...))
}

func (a *app) lookAtRepository(ctx context.Context, s *authorityStatus) error {
	g := gitRepository{dir: s.Repository}
	if _, err := os.Stat(s.Repository); err != nil {
		s.block("there is no repository at %s (make it: stado authority init %s)", s.Repository, shellLine([]string{s.Repository}))
		return nil
	}
	if bare, err := g.run(ctx, "rev-parse", "--is-bare-repository"); err != nil || bare != "true" {
		s.block("%s is not a bare git repository (name another directory)", s.Repository)
		return nil
	}
	if _, err := g.run(ctx, "fsck", "--connectivity-only", "--no-progress", "--no-dangling"); err != nil {
		s.block("the repository is damaged (restore %s from a clone of it: git push from one, or copy its objects): %v", s.Repository, err)
	}
	fix := shellLine([]string{"stado", "authority", "init", s.Repository})
	hook, err := os.ReadFile(filepath.Join(s.Repository, "hooks", "pre-receive"))
	if err != nil || !strings.Contains(string(hook), "hook pre-receive") {
		s.block("no pre-receive hook judges what is pushed to %s (install it: %s)", s.Repository, fix)
	}
	for _, setting := range protections {
		if on, _ := g.run(ctx, "config", "--type=bool", setting); on != "true" {
			s.block("%s is off in %s (put it in order: %s)", setting, s.Repository, fix)
		}
	}
	tip, err := g.run(ctx, "rev-parse", "--quiet", "--verify", "refs/heads/"+s.Branch+"^{commit}")
	if err != nil {
		s.block("branch %s of %s is empty (push a registry to it: git push %s HEAD:%s)", s.Branch, s.Repository, s.Repository, s.Branch)
		return nil
	}
	s.Commit = tip
	e, err := evaluator(config.Evaluation{})
	if err != nil {
		return err
	}
	v, err := e.Commit(ctx, s.Repository, tip)
	switch {
	case err != nil:
		s.block("branch %s cannot be read: %v", s.Branch, err)
	case v.Document == nil || v.Findings.Refuses():
		s.block("branch %s is at %s, which every agent refuses (stado vet %s --ref %s says why)", s.Branch, short(tip), s.Repository, short(tip))
	default:
		r, err := fleet.Decode(v.Document)
		if err != nil {
			return err
		}
		if s.Generation = r.Directory.Generation; s.Generation < s.Held {
			s.block("branch %s has generation %d, and this host holds %d: the role has moved on (stado registry log)", s.Branch, s.Generation, s.Held)
		}
	}
	return nil
}

func (a *app) answerAuthority(s authorityStatus, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(s); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.stdout, "authority   %s\nrepository  %s\nbranch      %s %s\ngeneration  %d (this host holds %d)\n",
			dash(s.Authority), s.Repository, s.Branch, short(s.Commit), s.Generation, s.Held)
		if s.Duty != "" && !slices.Contains(s.Blockers, s.Duty) {
			fmt.Fprintln(a.stdout, s.Duty)
		}
		if s.Unfinished != "" {
			fmt.Fprintln(a.stdout, s.Unfinished)
		}
		for _, d := range s.Doubts {
			fmt.Fprintln(a.stdout, fleet.EscapeControls(d))
		}
		for _, b := range s.Blockers {
			fmt.Fprintln(a.stdout, b)
		}
	}
	if len(s.Blockers) > 0 {
		return notReady()
	}
	return nil
}
