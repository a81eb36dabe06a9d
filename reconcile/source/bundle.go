package source

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// A bundle is git's own file format for history that travels without a connection (gitformat-bundle): a signature line, what the reader
// must have, the references, an empty line, a pack.

const bundleScheme = "bundle"

// BundleRemote is a bundle in a file, as a remote to read: its branch is what the bundle calls refs/heads/branch, "" for [DefaultBranch].
func BundleRemote(file, branch string) (Remote, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return Remote{}, err
	}
	r, err := ParseRemote(abs, branch)
	r.URL = (&url.URL{Scheme: bundleScheme, Path: abs}).String()
	return r, err
}

// Bounds of a bundle's header, which a stranger wrote.
const (
	maxBundleLine  = 4 << 10
	maxBundleLines = 1000
)

// bundleHeader is what a bundle says before its pack.
type bundleHeader struct {
	needs      []plumbing.Hash // commits that the reader must have
	references map[string]plumbing.Hash
	size       int64 // of the header itself: where the pack begins
}

var errNoBundle = errors.New("the file is not a git bundle")

func readBundleHeader(in *bufio.Reader) (bundleHeader, error) {
	h := bundleHeader{references: map[string]plumbing.Hash{}}
	version := ""
	for range maxBundleLines {
		line, err := bundleLine(in)
		if err != nil {
			return h, err
		}
		h.size += int64(len(line)) + 1
		switch {
		case version == "":
			if line != "# v2 git bundle" && line != "# v3 git bundle" {
				return h, errNoBundle
			}
			version = line
		case line == "":
			return h, nil
		default:
			if err := h.add(line); err != nil {
				return h, err
			}
		}
	}
	return h, fmt.Errorf("the bundle's header has more than %d lines", maxBundleLines)
}

// add takes one line of the header.
func (h *bundleHeader) add(line string) error {
	if capability, ok := strings.CutPrefix(line, "@"); ok {
		if capability != "object-format=sha1" {
			return fmt.Errorf("the bundle needs %q, which is not read here", capability)
		}
		return nil
	}
	needed := strings.HasPrefix(line, "-")
	id, rest, spaced := strings.Cut(strings.TrimPrefix(line, "-"), " ")
	if !plumbing.IsHash(id) || len(id) != 40 || !needed && (!spaced || rest == "") {
		return fmt.Errorf("the bundle's header has a line that is none: %q", line)
	}
	if needed {
		h.needs = append(h.needs, plumbing.NewHash(id))
		return nil
	}
	if _, twice := h.references[rest]; twice {
		return fmt.Errorf("the bundle names %s twice", rest)
	}
	h.references[rest] = plumbing.NewHash(id)
	return nil
}

func bundleLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxBundleLine:
			return "", errNoBundle
		case err == nil:
			return string(line[:len(line)-1]), nil
		case errors.Is(err, io.EOF):
			return "", errNoBundle
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
}

// bundleWire reads a bundle as if it were a remote.
type bundleWire struct {
	remote  Remote
	tracker *tracker
}

// bundlePath is the file of a bundle's address; empty for others.
func (r Remote) bundlePath() string {
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != bundleScheme {
		return ""
	}
	return u.Path
}

// open reads the header; the file stands at its pack.
func (w bundleWire) open() (*os.File, bundleHeader, error) {
	w.tracker.set(PhaseConnect)
	f, err := os.Open(w.remote.bundlePath())
	if err != nil {
		kind := KindNotFound
		if errors.Is(err, os.ErrPermission) {
			kind = KindPermission
		}
		return nil, bundleHeader{}, failure(kind, PhaseConnect, w.remote.URL, err.Error())
	}
	w.tracker.set(PhaseAdvertisement)
	h, err := readBundleHeader(bufio.NewReader(f))
	if err == nil {
		_, err = f.Seek(h.size, io.SeekStart)
	}
	if err != nil {
		_ = f.Close() // read only
		return nil, h, failure(KindProtocol, PhaseAdvertisement, w.remote.URL, err.Error())
	}
	return f, h, nil
}

func (w bundleWire) advertise(context.Context) (*packp.AdvRefs, error) {
	f, h, err := w.open()
	if err != nil {
		return nil, err
	}
	adv := packp.NewAdvRefs()
	adv.References = h.references
	return adv, f.Close()
}

func (w bundleWire) pack(context.Context, *packp.UploadPackRequest) (io.ReadCloser, error) {
	f, _, err := w.open()
	if err != nil {
		return nil, err
	}
	w.tracker.set(PhasePack)
	return f, nil
}

func (w bundleWire) leave() {}

// needs are the commits that a bundle builds on; none for other remotes.
func (w bundleWire) needs(st *filesystem.Storage) ([]plumbing.Hash, error) {
	f, h, err := w.open()
	if err != nil {
		return nil, err
	}
	for _, need := range h.needs {
		held, err := has(st, need)
		if err == nil && !held {
			err = failure(KindIncomplete, PhasePack, w.remote.URL, "the bundle builds on commit "+need.String()+", which this host does not have")
		}
		if err != nil {
			_ = f.Close() // read only
			return nil, err
		}
	}
	return h.needs, f.Close()
}

// unpackThin stores the objects of a pack that builds on objects of the store, one by one.
func unpackThin(st *filesystem.Storage, in io.Reader) error {
	parser, err := packfile.NewParserWithStorage(packfile.NewScanner(in), st)
	if err != nil {
		return err
	}
	_, err = parser.Parse()
	return err
}
