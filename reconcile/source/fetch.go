package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// Deadlines bound the phases of a poll. A zero field means that of [DefaultDeadlines].
type Deadlines struct {
	Connect        time.Duration `json:"connect"`        // one connection, name look-up included
	Handshake      time.Duration `json:"handshake"`      // TLS, or SSH's key exchange
	Authentication time.Duration `json:"authentication"` // SSH: our identity
	Exec           time.Duration `json:"exec"`           // SSH: the start and the end of git at the other side
	Advertisement  time.Duration `json:"advertisement"`  // the remote's list of branches, retries included
	Pack           time.Duration `json:"pack"`           // all new objects
}

// DefaultDeadlines are for a registry of some megabytes over a slow line.
func DefaultDeadlines() Deadlines {
	return Deadlines{
		Connect: 10 * time.Second, Handshake: 10 * time.Second, Authentication: 10 * time.Second, Exec: 10 * time.Second,
		Advertisement: 20 * time.Second, Pack: 120 * time.Second,
	}
}

func (d Deadlines) filled() Deadlines {
	def := DefaultDeadlines()
	for _, f := range []struct{ v, d *time.Duration }{
		{&d.Connect, &def.Connect},
		{&d.Handshake, &def.Handshake},
		{&d.Authentication, &def.Authentication},
		{&d.Exec, &def.Exec},
		{&d.Advertisement, &def.Advertisement},
		{&d.Pack, &def.Pack},
	} {
		if *f.v <= 0 {
			*f.v = *f.d
		}
	}
	return d
}

// listing is a child's time for everything up to the list of branches.
func (d Deadlines) listing() time.Duration { return d.Connect + d.Handshake + d.Advertisement }

// fetchRequest asks for the remote's branch. An empty Store asks for its name only.
type fetchRequest struct {
	Remote    Remote    `json:"remote"`
	Deadlines Deadlines `json:"deadlines"`
	Store     string    `json:"store,omitempty"`
	Tip       string    `json:"tip,omitempty"`      // the tip of an earlier listing: nothing is asked when the store has it
	Held      string    `json:"held,omitempty"`     // the held commit, to say in Next how the tip follows on it
	Separate  bool      `json:"separate,omitempty"` // the held commit's registry is [schema.Compiled.Separate]
}

type fetchReply struct {
	Tip   string     `json:"tip"`
	Packs int        `json:"packs"` // packs of the store now
	Next  *nextReply `json:"next,omitempty"`
}

// list asks the remote for its branch's tip.
func list(ctx context.Context, r fetchRequest, p func(sandbox.Progress)) (fetchReply, error) {
	t := newTracker(r.Remote.URL, p)
	w, err := openWire(ctx, r.Remote, r.Deadlines, t)
	if err != nil {
		return fetchReply{}, err
	}
	defer w.leave()
	_, tip, err := advertised(ctx, w, r, t)
	return fetchReply{Tip: tip.String()}, err
}

// advertised is the remote's list of branches and the tip of ours, within its deadline.
func advertised(ctx context.Context, w wire, r fetchRequest, t *tracker) (*packp.AdvRefs, plumbing.Hash, error) {
	bounded, cancel := context.WithTimeout(ctx, r.Deadlines.listing())
	defer cancel()
	adv, err := w.advertise(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, plumbing.ZeroHash, failure(KindTimeout, t.phase(), r.Remote.URL, sayDeadline(r.Deadlines.listing().String()))
	}
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	tip, ok := adv.References[r.Remote.reference().String()]
	if !ok {
		return nil, plumbing.ZeroHash, failure(KindMissingBranch, PhaseAdvertisement, r.Remote.URL, sayMissingBranch(r.Remote.Branch))
	}
	if len(adv.Shallows) > 0 {
		return nil, plumbing.ZeroHash, failure(KindShallow, PhaseAdvertisement, r.Remote.URL, "the repository is a shallow clone; a registry is read with its full history")
	}
	return adv, tip, nil
}

// fetch brings the branch's tip and its whole history into the store, making the store if there is none. The branch may have moved in
// any way: the store's own name for it simply follows.
func fetch(ctx context.Context, r fetchRequest, kept *shelf, prepared func() *schema.Changes, p func(sandbox.Progress)) (fetchReply, error) {
	p(sandbox.Progress{Phase: PhaseStore, File: r.Remote.URL})
	// What judges the change is made ready while the network is waited for.
	var changes *schema.Changes
	var preparing sync.WaitGroup
	defer preparing.Wait()
	if r.Held != "" && r.Separate {
		preparing.Go(func() { changes = prepared() })
	}
	f := fetcher{request: r, tracker: newTracker(r.Remote.URL, p)}
	if err := f.open(kept); err != nil {
		return fetchReply{}, storeFailure(ctx, err, PhaseStore)
	}
	defer func() { _ = f.st.Close() }() // the pack writer has closed what it wrote
	tip := plumbing.NewHash(r.Tip)
	held, err := has(f.st, tip)
	if err != nil {
		return fetchReply{}, storeFailure(ctx, err, PhaseStore)
	}
	if !held {
		if tip, err = f.download(ctx); err != nil {
			return fetchReply{}, err
		}
	}
	if err := f.st.SetReference(plumbing.NewHashReference(r.Remote.mirror(), tip)); err != nil {
		return fetchReply{}, storeFailure(ctx, err, PhaseStore)
	}
	p(sandbox.Progress{Phase: PhaseRead, File: r.Remote.URL})
	out := fetchReply{Tip: tip.String(), Packs: len(packNames(r.Store))}
	if r.Held != "" {
		preparing.Wait()
		out.Next = next(ctx, f.st, tip, plumbing.NewHash(r.Held), changes)
	}
	kept.put(r.Store, f.st)
	return out, nil
}

type fetcher struct {
	request fetchRequest
	tracker *tracker
	st      *filesystem.Storage
	thin    bool    // the pack builds on objects of the store
	words   remarks // of the remote's git, beside the pack
}

func (f *fetcher) open(kept *shelf) error {
	if err := sweep(f.request.Store); err != nil {
		return err
	}
	f.st = kept.take(f.request.Store)
	if _, err := git.Init(f.st, nil); err != nil && !errors.Is(err, git.ErrRepositoryAlreadyExists) {
		return err
	}
	return nil
}

// download asks the remote for what the store lacks.
func (f *fetcher) download(ctx context.Context) (plumbing.Hash, error) {
	r := f.request
	haves, err := f.haves()
	if err != nil {
		return plumbing.ZeroHash, storeFailure(ctx, err, PhaseStore)
	}
	w, err := openWire(ctx, r.Remote, r.Deadlines, f.tracker)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer w.leave()
	adv, tip, err := advertised(ctx, w, r, f.tracker)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if held, err := has(f.st, tip); err != nil || held {
		if err != nil {
			err = storeFailure(ctx, err, PhaseStore)
		}
		return tip, err
	}
	if b, ok := w.(bundleWire); ok {
		needs, err := b.needs(f.st)
		if err != nil {
			return tip, err
		}
		f.thin = len(needs) > 0
	}
	req := packp.NewUploadPackRequestFromCapabilities(adv.Capabilities)
	if adv.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return tip, failure(KindInternal, PhasePack, r.Remote.URL, err.Error())
		}
	}
	req.Wants, req.Haves = []plumbing.Hash{tip}, haves
	return tip, f.store(ctx, w, req, tip)
}

// store writes the pack. An error of the reader is the remote's, any other one the store's or the pack's.
func (f *fetcher) store(ctx context.Context, w wire, req *packp.UploadPackRequest, tip plumbing.Hash) error {
	remote := f.request.Remote.URL
	bounded, cancel := context.WithTimeout(ctx, f.request.Deadlines.Pack)
	defer cancel()
	late := func() error {
		if bounded.Err() == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		return failure(KindTimeout, f.tracker.phase(), remote, sayDeadline(f.request.Deadlines.Pack.String()))
	}
	body, err := w.pack(bounded, req)
	if err != nil {
		return errors.Join(late(), err)
	}
	in := &witness{r: body}
	err = f.unpack(in, req)
	_ = body.Close() // whatever it says, the pack is whole or it is not
	switch {
	case err == nil:
	case late() != nil:
		return late()
	case in.err != nil:
		return failure(KindUnreachable, PhasePack, remote, "the pack was cut: "+in.err.Error())
	default:
		return f.packFailure(ctx, err)
	}
	held, err := has(f.st, tip)
	if err == nil && !held {
		return failure(KindIncomplete, PhasePack, remote, "the pack does not hold commit "+tip.String())
	}
	if err != nil {
		return storeFailure(ctx, err, PhaseStore)
	}
	return nil
}

func (f *fetcher) unpack(in io.Reader, req *packp.UploadPackRequest) error {
	kind, banded := sideband.Sideband64k, true
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
	case req.Capabilities.Supports(capability.Sideband):
		kind = sideband.Sideband
	default:
		banded = false
	}
	if banded {
		d := sideband.NewDemuxer(kind, in)
		d.Progress = &f.words
		in = d
	}
	if f.thin {
		return unpackThin(f.st, in)
	}
	return packfile.UpdateObjectStorage(f.st, in)
}

// packFailure tells a disk's troubles from a pack's and from the remote's own. An interrupted write leaves its temporary file, which
// would keep a full disk full.
func (f *fetcher) packFailure(ctx context.Context, err error) error {
	remote := f.request.Remote
	swept := sweep(f.request.Store)
	failed := storeFailure(ctx, err, PhasePack)
	if t, ok := taskFailure(failed); !ok || Kind(t.Kind) != KindDamaged {
		return errors.Join(failed, swept)
	}
	said := f.words.fatal()
	switch {
	case said != "" && remote.path() != "" && noMemory(said):
		return sandbox.Exceeded(sandbox.LimitMemory) // the git that reads a local repository shares our limits
	case said != "":
		return failure(KindServer, PhasePack, remote.URL, "the remote's git: "+said)
	}
	return failure(KindProtocol, PhasePack, remote.URL, "the pack cannot be read: "+err.Error())
}

// noMemory recognizes git's words about memory.
func noMemory(words string) bool {
	return strings.Contains(words, "ut of memory") || strings.Contains(words, "malloc failed") || strings.Contains(words, "mmap failed")
}

// remarks keeps the last of what a remote says beside the pack.
type remarks struct{ last []byte }

const maxRemarks = 4 << 10

func (r *remarks) Write(p []byte) (int, error) {
	r.last = append(r.last, p...)
	if over := len(r.last) - maxRemarks; over > 0 {
		r.last = append(r.last[:0], r.last[over:]...)
	}
	return len(p), nil
}

// fatal is the line in which git says why it gave up; empty when there is none.
func (r *remarks) fatal() string {
	for line := range strings.Lines(string(r.last)) {
		if words, ok := strings.CutPrefix(strings.TrimSpace(line), "fatal: "); ok {
			return words
		}
	}
	return ""
}

// haveDepths is how far behind the last tip the commits are that are named to the remote as already here. The first one is enough where
// the branch has moved on. The others are for one that moved sideways, and each commit up to the last one has to be read; a branch that
// left ours further back is fetched with its whole history.
var haveDepths = [...]int{0, 1, 3, 7}

// haves names commits of the store, newest first.
func (f *fetcher) haves() ([]plumbing.Hash, error) {
	ref, err := f.st.Reference(f.request.Remote.mirror())
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out, h := []plumbing.Hash{}, ref.Hash()
	for depth := 0; ; depth++ {
		if depth == haveDepths[len(out)] {
			out = append(out, h)
		}
		if len(out) == len(haveDepths) {
			return out, nil
		}
		c, err := readCommit(f.st, h)
		if err != nil {
			return nil, fmt.Errorf("cannot read commit %s: %w", h, err)
		}
		if len(c.ParentHashes) == 0 {
			return out, nil
		}
		h = c.ParentHashes[0]
	}
}

// witness remembers the error of a reader, so that a failed copy can be blamed on the right side.
type witness struct {
	r   io.Reader
	err error
}

func (w *witness) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}
