package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"stado.internal/stado/reconcile/sandbox"
)

// wire is one way to a remote. Its errors are [failure]s.
type wire interface {
	// advertise asks for the remote's branches.
	advertise(ctx context.Context) (*packp.AdvRefs, error)
	// pack asks for objects; the reader stands behind the server's answer to the request and must be closed.
	pack(ctx context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error)
	// leave ends the talk politely where the remote waits to be asked for something.
	leave()
}

// openWire chooses the way by the URL's scheme.
func openWire(ctx context.Context, r Remote, d Deadlines, t *tracker) (wire, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, failure(KindUnreachable, PhaseConnect, r.URL, "the address is not a URL")
	}
	switch u.Scheme {
	case "file":
		return localWire{remote: r, tracker: t}, nil
	case bundleScheme:
		return bundleWire{remote: r, tracker: t}, nil
	case "ssh":
		return newPipeWire(ctx, r, t)
	}
	return newHTTPWire(r, d, t)
}

// localWire reads a repository of this machine with the installed git: two short runs of git-upload-pack, each with its whole input
// known when it starts, so that neither side can wait for the other.
type localWire struct {
	remote  Remote
	tracker *tracker
}

func (w localWire) advertise(ctx context.Context) (*packp.AdvRefs, error) {
	w.tracker.set(PhaseConnect)
	if _, err := os.Stat(w.remote.path()); err != nil {
		kind := KindNotFound
		if errors.Is(err, os.ErrPermission) {
			kind = KindPermission
		}
		return nil, failure(kind, PhaseConnect, w.remote.URL, err.Error())
	}
	w.tracker.set(PhaseAdvertisement)
	var out, words bytes.Buffer
	cmd := w.command(ctx, "--advertise-refs")
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return nil, w.refusal(ctx, err, words.String())
	}
	return decodeAdvertisement(&out, w.remote.URL)
}

func (w localWire) pack(ctx context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error) {
	w.tracker.set(PhasePack)
	input, err := encodeRequest(req)
	if err != nil {
		return nil, failure(KindInternal, PhasePack, w.remote.URL, err.Error())
	}
	cmd := w.command(ctx)
	p := &localPack{cmd: cmd}
	cmd.Stdin, cmd.Stderr = input, &p.words
	if p.ReadCloser, err = cmd.StdoutPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, w.refusal(ctx, err, "")
	}
	answer := packp.NewUploadPackResponse(req)
	if err := answer.Decode(p); err != nil {
		_ = p.Close()
		return nil, w.refusal(ctx, err, p.words.String())
	}
	return answer, nil
}

func (w localWire) leave() {}

// command dies with this process: the kernel sees to it.
func (w localWire) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append(append([]string{"upload-pack", "--stateless-rpc"}, args...), "--", w.remote.path())...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	return cmd
}

func (w localWire) refusal(ctx context.Context, err error, words string) error {
	phase, remote := w.tracker.phase(), w.remote.URL
	words = strings.TrimSpace(words)
	first, _, _ := strings.Cut(words, "\n")
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case noMemory(words):
		return sandbox.Exceeded(sandbox.LimitMemory)
	case errors.Is(err, exec.ErrNotFound):
		return failure(KindNoGit, PhaseConnect, remote, "the git program is not installed")
	case strings.Contains(words, "dubious ownership"):
		return failure(KindOwnership, phase, remote, "git refuses a repository that belongs to another user")
	case strings.Contains(words, "does not appear to be a git repository"):
		return failure(KindNotFound, phase, remote, "there is no git repository")
	case first != "":
		return failure(KindServer, phase, remote, "git upload-pack: "+first)
	}
	return failure(KindServer, phase, remote, "git upload-pack: "+err.Error())
}

// localPack is the output of one git-upload-pack.
type localPack struct {
	io.ReadCloser
	cmd   *exec.Cmd
	words bytes.Buffer
}

// Close waits for git, which ends when nobody reads its output.
func (p *localPack) Close() error {
	_ = p.ReadCloser.Close()
	_ = p.cmd.Wait() // what git thinks of the pack shows in the pack
	return nil
}

// encodeRequest is the body of a stateless git-upload-pack request.
func encodeRequest(req *packp.UploadPackRequest) (*bytes.Buffer, error) {
	var b bytes.Buffer
	err := req.UploadRequest.Encode(&b)
	if err == nil {
		err = req.UploadHaves.Encode(&b, false)
	}
	if err == nil {
		err = pktline.NewEncoder(&b).EncodeString("done\n")
	}
	return &b, err
}

func decodeAdvertisement(r io.Reader, remote string) (*packp.AdvRefs, error) {
	adv := packp.NewAdvRefs()
	err := adv.Decode(r)
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs), err == nil && adv.IsEmpty():
		return nil, failure(KindEmpty, PhaseAdvertisement, remote, "the repository is empty")
	case err != nil:
		return nil, failure(KindProtocol, PhaseAdvertisement, remote, "the list of branches cannot be read: "+err.Error())
	}
	transport.FilterUnsupportedCapabilities(adv.Capabilities)
	return adv, nil
}

// tracker knows which phase the network is in, and reports each once. It is safe for concurrent use: a dial may outlive its request.
type tracker struct {
	remote string
	report func(sandbox.Progress)

	mu  sync.Mutex
	now string
}

func newTracker(remote string, report func(sandbox.Progress)) *tracker {
	return &tracker{remote: remote, report: report}
}

func (t *tracker) set(phase string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != phase {
		t.now = phase
		t.report(sandbox.Progress{Phase: phase, File: t.remote})
	}
}

func (t *tracker) phase() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}
