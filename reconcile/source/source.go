// Package source reads registry repositories: it asks a remote for its branch, keeps a store of the branch's history, and gives every
// new commit with its compiled document and verdict. All git and CUE work on bytes that others wrote happens in a limited child
// process; the parent reads the name of a branch's tip, starts children, moves directories and compares names.
//
// The store is a cache. Whatever is found wrong with it, it is moved aside and cloned anew; nothing that must survive is kept in it.
package source

import (
	"log/slog"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// Anchor is what this host holds. The zero value means that it holds nothing.
type Anchor struct {
	Commit     string // full object id; empty for a document that was handed over without one
	Generation fleet.Generation
	Digest     string
	// Restart: what was offered after Commit could not be held, so the next offer begins at Commit again even if a part went before.
	Restart bool
}

// Step is one commit and what it says. A step without a Document is refused by its Findings.
type Step struct {
	Commit, Parent string // full object ids; Parent is the first parent, empty for a root commit
	Time           time.Time
	Author         string // `name <mail>`, as the author wrote it: not verified
	Subject        string
	Trailers       map[string]string
	Document       []byte          // canonical JSON; nil when the commit does not compile
	Registry       *fleet.Registry // Document decoded; nil when nobody needed it yet
	Parts          *fleet.Parts    // of Document and Registry; nil when they were not taken apart
	Digest         string          // SHA-256 of Document, in hex
	Generation     fleet.Generation
	Findings       fleet.Findings // of the document by itself; judging it against another one is the fence's
	// Positions says where the commit gives service_directory.generation, service_directory.authority, service_directory, hosts and
	// policies, as far as it does.
	Positions map[string]schema.Position
	// Policies says that the commit has policies of the fleet's own. They judge what follows on it.
	Policies bool
}

// Offer is what a remote has, seen from what is held. It is shared with the [Git] that made it and must not be changed.
type Offer struct {
	Tip string // full object id of the remote's branch
	// Unchanged: the remote says what it said at the last poll, with the same commit held; this is that poll's offer again.
	Unchanged bool
	// Descends: Tip is the held commit or a descendant. Also true when nothing at all is held; false when a document without a commit
	// is, since that cannot be told.
	Descends bool
	// MergeBase is the nearest commit that Tip and the held commit have in common; empty when they have none, or none is known here.
	MergeBase string
	// Policies says that the held commit has policies of the fleet's own; false when no commit is held, or when there are no Steps.
	Policies bool
	// Steps are commits in the order in which they are to be judged, each against the one admitted before it, the first one against
	// what is held. When Tip descends from the held commit they are the commits of Tip's first-parent chain that descend from it too,
	// oldest first and without it: none when it is Tip. Otherwise, and when no commit is held, Tip is the only step.
	Steps []Step
	// Partial: more commits follow the last step. Judge these, then poll again at once: the next offer goes on after the last step if
	// none was adopted, and after the adopted commit if one was.
	Partial bool
}

// Options of a [Git].
type Options struct {
	Store  string // the store's directory; its parent must exist and be ours
	Remote Remote
	Runner sandbox.Runner
	Keep   time.Duration // how long the child of a listing or a fetch is kept for the next one; 0: not at all
	// Kept, when set, keeps that child instead, and its owner closes it.
	Kept      *sandbox.Keeper
	Deadlines Deadlines // zero fields mean [DefaultDeadlines]
	// SSH says how an ssh:// remote is reached. No Paths means the URL's host; its Deadlines and Log are these.
	SSH remote.Options
	Log *slog.Logger
	// Fault, when set, is called before each change of the store's place with the change's name; an error it returns ends the poll.
	// Crash tests kill the process in it. nil means no faults.
	Fault func(point string) error
}

// The points that Options.Fault sees.
const (
	FaultClone = "source:clone" // before a new store is filled beside the old one
	FaultAside = "source:aside" // before a damaged store is moved aside
	FaultPlace = "source:place" // before a new store is moved to its place
	FaultFetch = "source:fetch" // before new objects are written into the store
)

// maxOfferBytes bounds the documents of one offer, which the agent holds while none of them is adopted: two of the largest. The first
// step always fits.
const maxOfferBytes = 24 << 20
