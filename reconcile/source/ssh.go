package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/sandbox"
)

// An ssh remote is read by two processes. This one holds the connection and the key, and reads the name of the tip; the child holds what
// else the remote's git says, and a pipe to it. So hostile packs never meet a key, and a connection outlives the poll that made it.

// parseSSH judges the parts of an ssh URL.
func parseSSH(u *url.URL, address string) (*url.URL, error) {
	if u.Hostname() == "" || strings.Trim(u.Path, "/") == "" || strings.ContainsFunc(u.Path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("repository %s does not name a host and a path (write ssh://user@host/path)", redact(address))
	}
	if _, err := destination(u).Parse(); err != nil {
		return nil, fmt.Errorf("repository %s cannot be reached: %w", redact(address), err)
	}
	return u, nil
}

// destination is the host of an ssh URL as a registry would write it.
func destination(u *url.URL) fleet.Destination {
	d := "[" + u.Hostname() + "]"
	if u.Port() != "" {
		d += ":" + u.Port()
	}
	if user := u.User.Username(); user != "" {
		d = user + "@" + d
	}
	return fleet.Destination(d)
}

// uploadPack is the command that serves a repository, as the host's shell reads it. Git's own clients ask in the same form, so that a
// forge knows it, and a path in somebody's home keeps its tilde.
func uploadPack(path string) string {
	if strings.HasPrefix(path, "/~") {
		path = path[1:]
	}
	return "git-upload-pack '" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
}

// sshHost is the host of an ssh remote.
type sshHost struct {
	client    *remote.Client
	command   string
	url       string
	deadlines Deadlines
}

// newSSHHost is nil for a remote of another kind.
func newSSHHost(opts Options, log *slog.Logger) *sshHost {
	u, err := url.Parse(opts.Remote.URL)
	if err != nil || u.Scheme != "ssh" {
		return nil
	}
	o, d := opts.SSH, opts.Deadlines
	if len(o.Paths) == 0 {
		o.Paths = []remote.Path{{Name: "primary", Destination: destination(u)}}
	}
	if o.Host == "" {
		o.Host = u.Hostname()
	}
	o.Log = log
	o.Deadlines = remote.Deadlines{Connect: d.Connect, Handshake: d.Handshake, Authentication: d.Authentication, Exec: d.Exec}
	return &sshHost{client: remote.NewClient(o), command: uploadPack(u.Path), url: opts.Remote.URL, deadlines: d}
}

// Close ends the connection to the remote, and the child that is kept, unless that is another's. No poll may stand or follow.
func (g *Git) Close() {
	if g.opts.Kept == nil {
		g.kept.Close()
	}
	g.http.close()
	if g.ssh != nil {
		g.ssh.client.Close()
	}
}

// network does a task that talks to the remote.
func (g *Git) network(ctx context.Context, task string, request fetchRequest, reply *fetchReply, wall time.Duration) error {
	if g.ssh == nil {
		return g.run(ctx, task, request, reply, wall)
	}
	request.Deadlines.Connect, request.Deadlines.Handshake = 0, 0 // the child finds them done
	carry := func() error {
		return g.ssh.carry(ctx, func(end *os.File) error { return g.run(ctx, task, request, reply, wall, end) })
	}
	err := carry()
	if errors.Is(err, sandbox.ErrAgain) {
		g.log.Debug("asked again: " + err.Error())
		err = carry()
	}
	return err
}

// hurry is what git at the other side has for its last words when the child has failed.
const hurry = 2 * time.Second

// talk starts git at the other side and has work talk to it. A git that does not end costs the connection.
func (h *sshHost) talk(ctx context.Context, work func(*remote.Session) error) error {
	session, err := h.client.Exec(ctx, h.command)
	if err != nil {
		return h.refusal(ctx, err)
	}
	failed := work(session)
	patience := h.deadlines.Exec
	if failed != nil {
		patience = hurry
	}
	if ctx.Err() != nil || kindOf(failed) == KindTimeout {
		session.Abandon()
	}
	exit, ended := session.Wait(ctx, patience)
	if failed == nil || ctx.Err() != nil {
		return failed
	}
	return h.explain(failed, exit, ended)
}

// carry starts git at the other side and has work talk to it through a socket.
func (h *sshHost) carry(ctx context.Context, work func(end *os.File) error) error {
	ours, theirs, err := sandbox.SocketPair()
	if err != nil {
		return &Error{Phase: PhaseExec, Remote: h.url, Kind: KindInternal, Cause: err.Error(), Err: err}
	}
	// What ends early on one side shows on the other, and in how git ends.
	var carriers sync.WaitGroup
	defer carriers.Wait()
	defer func() { _ = ours.Close() }()
	defer func() { _ = theirs.Close() }()
	return h.talk(ctx, func(session *remote.Session) error {
		carriers.Go(func() {
			_, _ = io.Copy(session, ours)
			_ = session.CloseWrite()
		})
		carriers.Go(func() {
			_, _ = io.Copy(ours, session)
			_ = ours.CloseWrite()
		})
		failed := work(theirs)
		_ = theirs.Close()
		return failed
	})
}

// refusal gives an error of the connection the form of this package.
func (h *sshHost) refusal(ctx context.Context, err error) error {
	e, ok := errors.AsType[*remote.Error](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	kind := KindServer
	switch e.Kind {
	case remote.KindUnreachable, remote.KindCanceled, remote.KindDestination:
		kind = KindUnreachable
	case remote.KindTimeout:
		kind = KindTimeout
	case remote.KindKnownHosts, remote.KindHostKeyUnknown, remote.KindHostKeyChanged, remote.KindHostKeyRevoked, remote.KindHostCertificate:
		kind = KindHostKey
	case remote.KindIdentity, remote.KindRefused:
		kind = KindIdentity
	case remote.KindProtocol, remote.KindExec:
	}
	return &Error{Phase: string(e.Phase), Remote: h.url, Kind: kind, Cause: fleet.OneLine(e.Cause, fleet.MaxText), Err: err}
}

// explain finds in git's last words why there was no answer.
func (h *sshHost) explain(failed error, exit remote.Exit, ended error) error {
	e, ok := errors.AsType[*Error](failed)
	if !ok || e.Kind != KindProtocol && e.Kind != KindUnreachable {
		return failed
	}
	out := &Error{Phase: e.Phase, Remote: h.url, Err: failed}
	lost, cut := errors.AsType[*remote.Error](ended)
	switch {
	case cut && lost.Kind == remote.KindUnreachable:
		out.Kind, out.Cause = KindUnreachable, sayGone(lost.Cause)
	case ended != nil || exit.Status == 0:
		return failed
	default:
		out.Kind, out.Cause = lastWords(exit)
	}
	out.Cause = fleet.OneLine(out.Cause, fleet.MaxText)
	return out
}

// lastWords classes how git, or whatever a forge has in its place, ended.
func lastWords(exit remote.Exit) (Kind, string) {
	line := fatalLine(exit.Words)
	words := strings.ToLower(exit.Words)
	has := func(any ...string) bool {
		for _, s := range any {
			if strings.Contains(words, s) {
				return true
			}
		}
		return false
	}
	switch {
	case exit.Status == 127, has("git-upload-pack: command not found", "git-upload-pack: not found"):
		return KindNoGit, "there is no git-upload-pack on the host: " + line
	case has("dubious ownership"):
		return KindOwnership, "git there refuses a repository that belongs to another user"
	case has("does not appear to be a git repository", "repository not found", "repository does not exist", "could not be found", "no such project"):
		return KindNotFound, "there is no such repository, or it is hidden from this identity: " + line
	case has("permission denied", "access denied"):
		return KindIdentity, "the host lets this identity in and not at the repository: " + line
	}
	return KindServer, fmt.Sprintf("the remote's git ended with status %d: %s", exit.Status, line)
}

// fatalLine is the line in which a program says why it gave up.
func fatalLine(words string) string {
	first := ""
	for line := range strings.Lines(words) {
		line = strings.TrimSpace(line)
		for _, start := range []string{"fatal: ", "ERROR: ", "remote: ERROR: "} {
			if said, ok := strings.CutPrefix(line, start); ok {
				return said
			}
		}
		if first == "" {
			first = line
		}
	}
	return first
}
