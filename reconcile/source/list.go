package source

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/hashicorp/go-retryablehttp"

	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/sandbox"
)

// Most polls bring nothing, so what a remote calls its branch is asked for in this process, over a connection that stays: a child would cost
// more than everything else of such a poll. It is read line by line under bounds, and nothing but one object id is kept of it. Whatever
// that id stands for is the child's to read.

// Bounds of a list of branches, and of one of its lines.
const (
	maxListing = 64 << 20
	maxPacket  = 65520
)

// list asks the remote for its branch's tip. A bundle is read by the child, which reads the rest of it too.
func (g *Git) list(ctx context.Context) (string, error) {
	r := g.opts.Remote
	switch {
	case g.ssh != nil:
		return g.ssh.list(ctx, r)
	case strings.HasPrefix(r.URL, "http"):
		t := newTracker(r.URL, func(sandbox.Progress) {})
		tip, err := g.http.list(ctx, r, g.opts.Deadlines, t)
		return tip, asError(err, r.URL, sandbox.Progress{Phase: t.phase()})
	case r.path() != "":
		if tip, ok := localTip(r.path(), r.Branch); ok {
			return tip, nil
		}
	}
	request := fetchRequest{Remote: r, Deadlines: g.opts.Deadlines}
	var reply fetchReply
	err := g.run(ctx, taskList, request, &reply, g.opts.Deadlines.listing()+childSlack)
	return reply.Tip, err
}

// httpLister keeps the connection to an http remote.
type httpLister struct {
	authorities []byte // the CA file that the client was made with
	client      *retryablehttp.Client

	quiet time.Time // before which the remote wants no question
	why   error     // what it said
}

func (l *httpLister) close() {
	if l.client != nil {
		l.client.HTTPClient.CloseIdleConnections()
	}
}

// renew makes a client when there is none, or when the CA file says something else by now.
func (l *httpLister) renew(r Remote, d Deadlines) error {
	var text []byte
	if r.CAFile != "" {
		var err error
		if text, err = os.ReadFile(r.CAFile); err != nil {
			return fmt.Errorf("cannot read the CA file: %w", err)
		}
	}
	if l.client != nil && bytes.Equal(text, l.authorities) {
		return nil
	}
	roots, err := authorities(r.CAFile)
	if err != nil {
		return err
	}
	l.close()
	l.authorities, l.client = text, retrying(roots, d)
	return nil
}

func (l *httpLister) list(ctx context.Context, r Remote, d Deadlines, t *tracker) (string, error) {
	if time.Now().Before(l.quiet) {
		return "", l.why
	}
	t.set(PhaseConnect)
	if err := l.renew(r, d); err != nil {
		return "", failure(KindCertificate, PhaseConnect, r.URL, err.Error())
	}
	auth, err := credentials(r.CredentialFile)
	if err != nil {
		return "", failure(KindAuthentication, PhaseAuthentication, r.URL, err.Error())
	}
	bounded, cancel := context.WithTimeout(ctx, d.listing())
	defer cancel()
	tip, err := l.askKept(bounded, d.Advertisement/4, r, auth, t)
	if errors.Is(err, errForgotten) {
		l.close()
		l.client = nil // one connection carries all requests of a client where the remote speaks HTTP/2
		if err = l.renew(r, d); err != nil {
			return "", failure(KindCertificate, PhaseConnect, r.URL, err.Error())
		}
		tip, err = l.ask(bounded, r, auth, t)
	}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && bounded.Err() != nil:
		return "", failure(KindTimeout, t.phase(), r.URL, sayDeadline(d.listing().String()))
	}
	return tip, err
}

// errForgotten ends a request over a connection that was kept: something on the way may have forgotten it without a word.
var errForgotten = errors.New("the kept connection brings no answer")

// askKept asks, and ends with [errForgotten] when that went over a connection which was used before, and brought nothing within patience.
func (l *httpLister) askKept(ctx context.Context, patience time.Duration, r Remote, auth githttp.AuthMethod, t *tracker) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(patience, func() { cancel(errForgotten) })
	silent.Stop()
	defer silent.Stop()
	tip, err := l.ask(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) {
			if silent.Stop(); c.Reused {
				silent.Reset(patience)
			}
		},
		GotFirstResponseByte: func() { silent.Stop() },
	}), r, auth, t)
	if err != nil && errors.Is(context.Cause(ctx), errForgotten) {
		return "", errForgotten
	}
	return tip, err
}

func (l *httpLister) ask(ctx context.Context, r Remote, auth githttp.AuthMethod, t *tracker) (string, error) {
	req, err := retryablehttp.NewRequestWithContext(t.traced(ctx, PhaseAdvertisement), http.MethodGet, r.URL+"/info/refs?service=git-upload-pack", nil)
	if err != nil {
		return "", failure(KindUnreachable, PhaseConnect, r.URL, err.Error())
	}
	req.Header.Set("User-Agent", capability.DefaultAgent())
	req.Header.Set("Accept", "*/*")
	if auth != nil {
		auth.SetAuth(req.Request)
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return "", networkFailure(innermost(err), t.phase(), r.URL)
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or it is given up
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		return "", failure(KindRedirect, t.phase(), r.URL, sayRedirect(repositoryOf(to.String())))
	}
	if wait := retryAfter(resp); wait > retryWaitMax {
		l.quiet = time.Now().Add(wait)
		l.why = failure(KindWait, t.phase(), r.URL, sayWait(resp.Status, l.quiet))
		return "", l.why
	}
	if resp.StatusCode != http.StatusOK {
		return "", statusFailure(resp.StatusCode, resp.Status, t.phase(), r.URL)
	}
	body := &witness{r: resp.Body}
	tip, err := branchTip(body, r)
	if body.err != nil {
		return "", networkFailure(body.err, t.phase(), r.URL)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxPacket) // to the end, so that the connection stays
	return tip, err
}

// list asks git at the other side.
func (h *sshHost) list(ctx context.Context, r Remote) (tip string, _ error) {
	err := h.talk(ctx, func(s *remote.Session) error {
		bounded, cancel := context.WithTimeout(ctx, h.deadlines.Advertisement)
		defer cancel()
		stop := context.AfterFunc(bounded, s.Abandon)
		var err error
		if tip, err = branchTip(s, r); err == nil {
			_, _ = io.WriteString(s, flushPacket) // nothing is wanted; a git that is gone needs no telling
		}
		_ = s.CloseWrite() // how git ends tells whether it heard
		switch {
		case !stop() && ctx.Err() == nil:
			err = failure(KindTimeout, PhaseAdvertisement, r.URL, sayDeadline(h.deadlines.Advertisement.String()))
		case ctx.Err() != nil:
			return ctx.Err()
		}
		return asError(err, r.URL, sandbox.Progress{Phase: PhaseAdvertisement})
	})
	return tip, err
}

const flushPacket = "0000"

// branchTip reads git-upload-pack's list of branches to its end: the tip of the remote's branch, or an error in the form of [failure].
func branchTip(in io.Reader, r Remote) (string, error) {
	l := listing{branch: r.reference().String()}
	err := l.read(bufio.NewReaderSize(io.LimitReader(in, maxListing), 4<<10))
	switch {
	case err != nil:
		return "", failure(KindProtocol, PhaseAdvertisement, r.URL, "the list of branches cannot be read: "+err.Error())
	case l.refusal != "":
		return "", failure(KindServer, PhaseAdvertisement, r.URL, "the remote's git: "+l.refusal)
	case l.first == "":
		return "", failure(KindEmpty, PhaseAdvertisement, r.URL, "the repository is empty")
	case l.tip == "":
		return "", failure(KindMissingBranch, PhaseAdvertisement, r.URL, sayMissingBranch(r.Branch))
	case l.shallow:
		return "", failure(KindShallow, PhaseAdvertisement, r.URL, "the repository is a shallow clone; a registry is read with its full history")
	}
	return l.tip, nil
}

// listing is what is kept of a list of branches.
type listing struct {
	branch  string // in full
	first   string // id of the first reference
	tip     string
	shallow bool
	refusal string // what git says instead of a list
}

func (l *listing) read(in *bufio.Reader) error {
	buf := make([]byte, 256)
	line, flush, err := packet(in, buf)
	if err == nil && bytes.HasPrefix(line, []byte("# service=")) { // over http
		if line, flush, err = packet(in, buf); err == nil && !flush {
			return fmt.Errorf("%q stands behind the name of the service", clipped(line))
		}
		if err == nil {
			line, flush, err = packet(in, buf)
		}
	}
	for first := true; err == nil && !flush; first = false {
		if done, err := l.take(line, first); done || err != nil {
			return err
		}
		line, flush, err = packet(in, buf)
	}
	return err
}

// take reads one line of the list; done says that nothing follows it.
func (l *listing) take(line []byte, first bool) (done bool, _ error) {
	text := strings.TrimSuffix(string(line), "\n")
	if words, ok := strings.CutPrefix(text, "ERR "); ok {
		l.refusal = words
		return true, nil
	}
	if id, ok := strings.CutPrefix(text, "shallow "); ok && objectID(id) && !first {
		l.shallow = true
		return false, nil
	}
	if first && text == "version 1" {
		return false, nil
	}
	id, name, ok := strings.Cut(text, " ")
	name, _, capabilities := strings.Cut(name, "\x00")
	if !ok || name == "" || !objectID(id) || capabilities && l.first != "" {
		return false, fmt.Errorf("%q is no reference", clipped(line))
	}
	if l.first == "" && strings.Trim(id, "0") == "" {
		return false, nil // the capabilities of a repository without references
	}
	if l.first == "" {
		l.first = id
	}
	if name == l.branch {
		l.tip = id
	}
	return false, nil
}

// packet reads one packet of git's protocol into buf, which grows as needed; a flush has no bytes.
func packet(in *bufio.Reader, buf []byte) (line []byte, flush bool, _ error) {
	var head [len(flushPacket)]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, false, err
	}
	size, err := strconv.ParseUint(string(head[:]), 16, 16)
	switch {
	case err != nil || size > maxPacket || size > 0 && size <= uint64(len(head)):
		return nil, false, fmt.Errorf("%q is no packet", head)
	case size == 0:
		return nil, true, nil
	}
	n := int(size) - len(head)
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	_, err = io.ReadFull(in, buf[:n])
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return buf[:n], false, err
}

// objectID reports whether s is an object id of the kind that registries have.
func objectID(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 40 && strings.ToLower(s) == s
}

// clipped is the start of what a stranger sent, for a sentence.
func clipped(line []byte) []byte { return line[:min(len(line), 60)] }

// localTip reads a branch of a repository of this machine as git writes it down. It may only find: whatever is not plainly there, from a
// repository of another shape to one that is missing, is for git in the child to say.
func localTip(dir, branch string) (string, bool) {
	repository := filepath.Join(dir, ".git")
	if _, err := os.Lstat(repository); errors.Is(err, fs.ErrNotExist) {
		repository = dir
	}
	if f, err := openPlain(filepath.Join(repository, "HEAD")); err != nil || f.Close() != nil {
		return "", false
	}
	name := "refs/heads/" + branch
	f, err := openPlain(filepath.Join(repository, filepath.FromSlash(name)))
	if err == nil {
		defer func() { _ = f.Close() }() // read only
		text, err := io.ReadAll(io.LimitReader(f, 64))
		id := strings.TrimSuffix(string(text), "\n")
		return id, err == nil && objectID(id)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if f, err = openPlain(filepath.Join(repository, "packed-refs")); err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }() // read only
	for lines := bufio.NewScanner(io.LimitReader(f, maxListing)); lines.Scan(); {
		if id, ok := strings.CutSuffix(lines.Text(), " "+name); ok && objectID(id) {
			return id, true
		}
	}
	return "", false
}

// openPlain opens a regular file. It never waits, whatever has been put in the file's place.
func openPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	return f, nil
}
