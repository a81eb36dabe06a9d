// Package webhook lets a forge say that the registry has news. A signed post only triggers a read of the authority: nothing in it is looked
// at, so one that is repeated or forged brings nothing but a read, and reads are bounded.
package webhook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Path is where posts go.
const Path = "/v1/hooks/registry"

// Rule marks a webhook that does not listen.
const Rule = "STADO-WEBHOOK-001"

// Bounds of what strangers may cost this host.
const (
	maxBody        = 1 << 20          // of a post; forges send some hundred KiB for a large push
	maxHeader      = 16 << 10         // of a post's header
	maxConnections = 32               // at once; further ones wait in the kernel
	patience       = 10 * time.Second // for a whole post
	rebind         = 10 * time.Second // between two attempts to listen
)

// Gap is the least time between two reads that posts trigger. A post that comes sooner is not lost: its read waits.
const Gap = 5 * time.Second

// Options make a [Hook]. All but Changed are required.
type Options struct {
	Bind       string // TCP address to listen on
	SecretFile string // what the forge signs with, on one line; readable by its owner only, and read for every post
	Trigger    func() // asks the authority; must not block
	Changed    func() // called when [Hook.Problem] changes; must not block; nil: nobody listens
	Log        *slog.Logger
}

// Hook listens for posts. Its methods are safe for concurrent use.
type Hook struct {
	opts  Options
	asked chan struct{}

	mu      sync.Mutex
	problem string
	since   time.Time // of the problem
	tally   tally
}

// New makes a hook that waits for [Hook.Run]. The error says why the address or the secret cannot be used.
func New(o Options) (*Hook, error) {
	if o.Bind == "" || o.SecretFile == "" {
		return nil, errHalf
	}
	if _, err := netip.ParseAddrPort(o.Bind); err != nil {
		return nil, sayBadBind(o.Bind)
	}
	if _, err := readSecret(o.SecretFile); err != nil {
		return nil, err
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Hook{opts: o, asked: make(chan struct{}, 1)}, nil
}

// Problem says why the hook does not listen, and since when; empty when it does.
func (h *Hook) Problem() (sentence string, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem, h.since
}

// Run listens until ctx ends, and returns nil when all it began has ended. An address that is taken is tried again: a host does not stop
// serving for want of a shortcut.
func (h *Hook) Run(ctx context.Context) error {
	var triggers sync.WaitGroup
	triggers.Go(func() { h.trigger(ctx) })
	defer triggers.Wait()
	for {
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", h.opts.Bind)
		if err == nil {
			h.set("")
			h.opts.Log.Info(sayListening(l.Addr().String()))
			err = h.serve(ctx, l)
		}
		if ctx.Err() != nil {
			return nil
		}
		h.set(sayNotListening(h.opts.Bind, err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rebind):
		}
	}
}

func (h *Hook) set(problem string) {
	h.mu.Lock()
	was := h.problem
	if problem != was {
		h.problem, h.since = problem, time.Now().UTC()
	}
	h.mu.Unlock()
	if problem == was {
		return
	}
	if problem != "" {
		h.opts.Log.Error(problem)
	}
	h.opts.Changed()
}

// serve ends with ctx; the listener is closed then.
func (h *Hook) serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, h)
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // what strangers do to a connection is not for the log
	}
	srv.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	return srv.Serve(&bounded{Listener: l, slots: make(chan struct{}, maxConnections)})
}

// trigger asks the authority for those who posted, no more often than the gap allows.
func (h *Hook) trigger(ctx context.Context) {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.asked:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(due(last, time.Now())):
		}
		select {
		case <-h.asked: // whoever posted meanwhile is served by the same read
		default:
		}
		last = time.Now()
		h.opts.Trigger()
	}
}

// due is how long the next read waits.
func due(last, now time.Time) time.Duration {
	if last.IsZero() {
		return 0
	}
	return max(0, Gap-now.Sub(last))
}

// ServeHTTP takes one post: 202 when it triggers a read.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, err := h.take(w, r)
	if err != nil {
		h.refuse(r.RemoteAddr, err)
		if status == http.StatusInternalServerError {
			err = errNoSecret // what is wrong here is not for strangers
		}
		http.Error(w, err.Error(), status)
		return
	}
	select {
	case h.asked <- struct{}{}:
	default: // a read is to come anyway
	}
	w.WriteHeader(status)
}

// take judges a post. What has no signature in its header is not even read.
func (h *Hook) take(w http.ResponseWriter, r *http.Request) (status int, _ error) {
	mac, err := signatureOf(r.Header)
	if err != nil {
		return http.StatusUnauthorized, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, sayTooLarge()
	case err != nil:
		return http.StatusBadRequest, errCut
	}
	secret, err := readSecret(h.opts.SecretFile)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	if !signed(secret, body, mac) {
		return http.StatusUnauthorized, errForged
	}
	return http.StatusAccepted, nil
}

// refuse says now and then how many posts were refused, and why the last one was.
func (h *Hook) refuse(from string, cause error) {
	h.mu.Lock()
	count := h.tally.note(time.Now())
	h.mu.Unlock()
	if count > 0 {
		h.opts.Log.Warn(sayRefused(count, from, cause))
	}
}

// tally counts refused posts between two lines of the log.
type tally struct {
	count int
	said  time.Time
}

// quiet is the least time between two lines about refused posts.
const quiet = time.Minute

// note counts one, and gives the number to say; 0 says nothing yet.
func (t *tally) note(now time.Time) int {
	t.count++
	if !t.said.IsZero() && now.Sub(t.said) < quiet {
		return 0
	}
	n := t.count
	t.count, t.said = 0, now
	return n
}

// bounded accepts no more connections than it has slots, so that strangers cannot take the descriptors that relays need.
type bounded struct {
	net.Listener
	slots chan struct{}
}

func (b *bounded) Accept() (net.Conn, error) {
	b.slots <- struct{}{} // a closed server closes its connections, which frees them
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &slot{Conn: c, free: sync.OnceFunc(func() { <-b.slots })}, nil
}

type slot struct {
	net.Conn
	free func()
}

func (s *slot) Close() error {
	defer s.free()
	return s.Conn.Close()
}
