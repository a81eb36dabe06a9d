package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/reconcile/change"
)

// pushReceipt is the JSON answer of `stado registry push`. Its generations are versions of the store: commits.
type pushReceipt struct {
	Schema   string `json:"schema"`
	State    string `json:"state"` // pushed, conflict or planned
	Location string `json:"location"`
	Expected string `json:"expected_generation"` // what --if-generation named, else what was read
	Actual   string `json:"actual_generation"`   // what the store held; empty when it did not say
	New      string `json:"generation,omitempty"`
	Replaced string `json:"replaced,omitempty"`
	Diff     string `json:"diff,omitempty"`
}

const pushSchema = "stado.registry-push-receipt.v1"

// pushing are the flags of `stado registry push`.
type pushing struct {
	changing
	token             string
	force, allowEmpty bool
	copy              bool         // --last-known-good
	ssh               config.Agent // how the authority is reached, with --last-known-good
	signature         string       // file of a document's signature, with --last-known-good
	bases             []string     // digests that a document follows on, with --last-known-good
}

func newRegistryPush(a *app) *cobra.Command {
	var f pushing
	c := &cobra.Command{
		Use:   "push PATH|-",
		Short: "Make the registry say a whole document",
		Long: `Make the registry say the document PATH, a compiled registry as 'stado registry pull' and 'export' print it. The store is git: the
branch of the repository's remote, or of the repository itself when it has no remote; its version is a commit id. What differs from
what the store holds is edited in the files that say it, so that comments, formatting and templates stay; a difference that files
compute is refused. The document carries its own generation, which must advance when anything else changes.

--if-generation makes the push a compare-and-swap on a version that was read before; without it, on what is read now. --force passes
the guard against a document that lacks a top-level key, and nothing else: no agent admits a generation that falls. A document
without hosts is taken with --allow-empty-fleet only.

--last-known-good writes the registry into this host's own last-known-good copy instead, while the authority that the copy names does not
answer; PATH may then also be a git bundle ('stado registry bundle create'). Its generation must be above the copy's. A running agent takes
it on its next refresh, without a restart, and asks the authority that it names from then on. Where the copy asks for signatures, those of a
bundle's commits count, and a document needs --signature FILE: an SSH signature of PATH, byte for byte, made for stado-registry
('ssh-keygen -Y sign -n stado-registry -f KEY PATH' writes PATH.sig) with the key of a signer of the copy who has no scope. A document
that was made from another one than the copy is refused when --base says from which, by its digest ('stado registry show'); after several
changes in a row, --base names each. The flags of a push into the store do not go with it.

Exit status: 0 done, 1 refused (nothing is changed), 2 usage, 69 the remote does not answer, 75 the store holds another version; then
the receipt says which.`,
		Example: "  stado registry pull >r.json && edit r.json && stado registry push r.json\n" +
			"  stado registry push r.json --if-generation \"$(stado registry pull --generation-only)\" --json",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.signature != "" && (!f.copy || f.signature == "-") {
				return misused(errors.New("--signature FILE goes with --last-known-good, and FILE is not stdin"))
			}
			if err := checkBases(f); err != nil {
				return misused(err)
			}
			if f.copy {
				if err := checkCopyFlags(c); err != nil {
					return misused(err)
				}
				return a.handOver(c, f, args[0])
			}
			document, name, err := readDocument(c, args[0])
			if err != nil {
				return err
			}
			return a.push(c, f, name, document)
		},
	}
	c.Flags().StringVar(&f.repository, "repository", ".", "the registry repository, bare or with a work tree")
	c.Flags().StringVar(&f.remote, "remote", "", "the remote that is the store (default: the branch's own, else origin, else the repository itself)")
	c.Flags().StringVar(&f.token, "if-generation", "", "the version of the store that the document replaces: a full commit id")
	c.Flags().BoolVar(&f.force, "force", false, "take a document that lacks a top-level key of the current one")
	c.Flags().BoolVar(&f.allowEmpty, "allow-empty-fleet", false, "take a document without hosts")
	c.Flags().BoolVar(&f.sign, "sign", false, "sign the commit as git is configured to (default: when commit.gpgsign says so)")
	c.Flags().BoolVar(&f.copy, "last-known-good", false, "write this host's own copy, while the authority does not answer")
	c.Flags().StringVar(&f.signature, "signature", "", "with --last-known-good: the file of a document's SSH signature")
	c.Flags().StringSliceVar(&f.bases, "base", nil, "with --last-known-good: the digest of what a document was made from, again for each change since")
	reachFlags(c, &f.ssh, "with --last-known-good: ")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the difference and change nothing")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the receipt as JSON")
	return c
}

// checkCopyFlags refuses what is of a push into the store: the copy has no versions, no commits of its own and nobody else who writes it.
func checkCopyFlags(c *cobra.Command) error {
	for _, flag := range []string{"if-generation", "force", "allow-empty-fleet", "dry-run", "sign", "remote", "repository"} {
		if c.Flags().Changed(flag) {
			return fmt.Errorf("--last-known-good cannot be combined with --%s", flag)
		}
	}
	return nil
}

func checkBases(f pushing) error {
	if len(f.bases) > 0 && !f.copy {
		return errors.New("--base DIGEST goes with --last-known-good")
	}
	for _, b := range f.bases {
		if digest, err := hex.DecodeString(b); err != nil || len(digest) != sha256.Size {
			return fmt.Errorf("--base %q is not a digest (write the 64 hexadecimal digits that stado registry show prints)", b)
		}
	}
	return nil
}

func (a *app) push(c *cobra.Command, f pushing, name string, document change.Document) error {
	location, remote, err := change.Store(c.Context(), change.Options{Dir: f.repository, Remote: f.remote})
	if err != nil {
		return changeExit(err)
	}
	f.push = remote
	o := change.Options{Expect: f.token, Once: true, AllowEmptyFleet: f.allowEmpty}
	out, err := a.applyWith(c, f.changing, o, func(d *change.Draft) error {
		d.Subject = change.Subject{Kind: "push", Summary: fmt.Sprintf("registry: generation %d from %s", document.Registry.Directory.Generation, name)}
		missing, err := d.MissingKeys(document)
		if err != nil {
			return err
		}
		if len(missing) > 0 && !f.force {
			return fmt.Errorf("%s lacks what the registry has: %s (add it, or say --force if it is to go)", name, strings.Join(missing, ", "))
		}
		return d.Replace(document)
	})
	receipt := pushReceipt{Schema: pushSchema, State: "pushed", Location: location, Expected: f.token, Actual: out.Base, New: out.Commit, Replaced: out.Base, Diff: ""}
	var lost *change.ConflictError
	if errors.As(err, &lost) {
		receipt = pushReceipt{Schema: pushSchema, State: "conflict", Location: location, Expected: lost.Expected, Actual: lost.Actual}
		return errors.Join(a.answerPush(f, name, receipt, out), err)
	}
	if err != nil {
		return err
	}
	if receipt.Expected == "" {
		receipt.Expected = out.Base
	}
	switch {
	case !out.Changed:
		receipt.New = out.Base // the store says the document already
	case out.Commit == "":
		receipt.State, receipt.Replaced, receipt.Diff = statusPlanned, "", out.Diff
	}
	return a.answerPush(f, name, receipt, out)
}

func (a *app) answerPush(f pushing, name string, r pushReceipt, out change.Outcome) error {
	if out.Behind != "" {
		fmt.Fprintf(a.stderr, "the push was taken, but the branch here was not moved (run git pull): %s\n", out.Behind)
	}
	switch {
	case f.asJSON:
		return a.printJSON(r)
	case r.State == "conflict":
		fmt.Fprintf(a.stdout, "conflict %s expected_generation=%s actual_generation=%s\n", r.Location, r.Expected, dash(r.Actual))
	case r.State == statusPlanned:
		fmt.Fprint(a.stdout, r.Diff)
	default:
		fmt.Fprintf(a.stdout, "pushed %s -> %s generation=%s replaced=%s\n", name, r.Location, r.New, r.Replaced)
	}
	return nil
}
