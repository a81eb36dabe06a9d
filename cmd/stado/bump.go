package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent"
	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/reconcile/source"
	"stado.internal/stado/schema"
)

// bumpAnswer is the JSON answer of `stado bump`.
type bumpAnswer struct {
	File    string           `json:"file"`
	Onto    string           `json:"onto"`
	Commit  string           `json:"commit"`
	Target  fleet.Generation `json:"target"` // the generation at Onto
	Before  fleet.Generation `json:"before"`
	After   fleet.Generation `json:"after"`
	Changed bool             `json:"changed"`
}

func newBump(a *app) *cobra.Command {
	var onto string
	var asJSON bool
	c := &cobra.Command{
		Use:   "bump [DIR]",
		Short: "Raise the generation by one above the branch that a change is for",
		Long: `Write into generation.cue of the registry repository DIR (default: this directory) the generation that follows the one at --onto.
Everything else in the file stays as it is. When the number is right already, nothing is written.

Run git fetch first: two changes that were made from one generation both write the next one, merge without a conflict, and hosts refuse
the second. Where the fleet's generation_mode is "stamped" nobody writes the number by hand, and bump refuses.`,
		Example: "  stado bump\n  git fetch && stado bump --onto origin/main",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			answer, err := bump(c.Context(), dir, onto)
			if err != nil {
				return refused(err)
			}
			if asJSON {
				if err := a.printJSON(answer); err != nil {
					return refused(err)
				}
				return nil
			}
			if answer.Changed {
				fmt.Fprintf(a.stdout, "%s: generation %d -> %d (%s has %d)\n", answer.File, answer.Before, answer.After, answer.Onto, answer.Target)
			} else {
				fmt.Fprintf(a.stdout, "%s: generation %d is right (%s has %d)\n", answer.File, answer.After, answer.Onto, answer.Target)
			}
			return nil
		},
	}
	c.Flags().StringVar(&onto, "onto", "HEAD", "revision that the change will follow, such as origin/main")
	c.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return c
}

func bump(ctx context.Context, dir, onto string) (bumpAnswer, error) {
	if err := requireRepository(dir); err != nil {
		return bumpAnswer{}, err
	}
	child, err := childCommand()
	if err != nil {
		return bumpAnswer{}, err
	}
	evaluator := source.Evaluator{Runner: agent.Child(child, config.Evaluation{})}
	target, err := evaluator.Commit(ctx, dir, onto)
	if err != nil {
		return bumpAnswer{}, err
	}
	if err := requireDocument(target, "the revision "+onto); err != nil {
		return bumpAnswer{}, err
	}
	registry, err := fleet.Decode(target.Document)
	if err != nil {
		return bumpAnswer{}, err
	}
	held := registry.Directory.Generation
	switch {
	case registry.Policies.GenerationMode == fleet.GenerationStamped:
		return bumpAnswer{}, fmt.Errorf("generations of this fleet are stamped: a change leaves %s alone, and `stado registry stamp` raises the number after the merge",
			schema.GenerationFile)
	case held >= schema.MaxGeneration:
		return bumpAnswer{}, fmt.Errorf("%s has generation %d, and none is higher", onto, held)
	}
	text, mode, err := readGenerationFile(dir)
	if err != nil {
		return bumpAnswer{}, err
	}
	next, before, err := schema.SetGeneration(schema.File{Path: schema.GenerationFile, Data: text}, held+1)
	if err != nil {
		return bumpAnswer{}, err
	}
	answer := bumpAnswer{
		File: schema.GenerationFile, Onto: onto, Commit: target.Commit,
		Target: held, Before: before, After: held + 1, Changed: before != held+1,
	}
	if !answer.Changed {
		return answer, nil
	}
	return answer, durable.Folder{Path: dir}.Write(schema.GenerationFile, next, mode)
}

// readGenerationFile reads the file of the work tree that holds the generation, which is no link to somewhere else.
func readGenerationFile(dir string) ([]byte, fs.FileMode, error) {
	full := filepath.Join(dir, schema.GenerationFile)
	info, err := os.Lstat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, fmt.Errorf("%s does not exist (the generation has a file of its own: registry: service_directory: generation: 1)", full)
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular() || info.Size() > maxReadSize:
		return nil, 0, fmt.Errorf("%s is not a plain file of a registry", full)
	}
	text, err := os.ReadFile(full)
	return text, info.Mode().Perm(), err
}
