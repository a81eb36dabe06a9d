package resolver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"stado.internal/stado/agent/resolver/adapter"
	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/fleet"
)

// Limits of the resolution API. Its questions are one line and its answers are in memory, so none of them binds an honest client.
const (
	apiHeaderBytes = 12 << 10 // net/http adds 4 KiB of its own: 16 KiB in all
	apiReadTime    = 10 * time.Second
	apiWriteTime   = 10 * time.Second
	apiCloseTime   = time.Second
)

// apiSlot is the listener of the resolution API that the registry wants.
type apiSlot struct {
	bind    *fleet.Bind // nil: the registry's address cannot be read
	server  *http.Server
	sock    net.Listener
	serving bool
	problem string // why server is nil
}

func newAPISlot(table *route.Table) *apiSlot {
	bind, fault := table.API()
	return &apiSlot{bind: bind, problem: fault}
}

func (a *apiSlot) wanted(table *route.Table) bool {
	if table == nil {
		return false
	}
	bind, fault := table.API()
	if bind == nil || a.bind == nil {
		return bind == nil && a.bind == nil && a.problem == fault
	}
	return *bind == *a.bind
}

func (r *Resolver) openAPILocked(a *apiSlot) {
	sock, err := adapter.Bind(context.Background(), *a.bind, adapter.DefaultMode, r.opt.Listen)
	if err != nil {
		sentence := sayAPINotBound(*a.bind, err)
		if a.problem != sentence {
			r.opt.Log.Error(sentence)
		}
		a.problem = sentence
		return
	}
	a.problem, a.sock, a.serving = "", sock, false
	a.server = &http.Server{
		Handler: http.HandlerFunc(r.answer), MaxHeaderBytes: apiHeaderBytes,
		ReadTimeout: apiReadTime, ReadHeaderTimeout: apiReadTime, WriteTimeout: apiWriteTime,
		ErrorLog: slog.NewLogLogger(r.opt.Log.Handler(), slog.LevelDebug),
	}
	a.server.SetKeepAlivesEnabled(false)
	r.serveAPILocked(a)
}

func (r *Resolver) serveAPILocked(a *apiSlot) {
	if !r.running || a.server == nil || a.serving {
		return
	}
	a.serving = true
	server, sock := a.server, a.sock
	r.tasks.Go(func() {
		err := server.Serve(sock)
		if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
			return
		}
		r.endedAPI(a, server, err)
	})
}

func (r *Resolver) endedAPI(a *apiSlot, server *http.Server, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.server != server {
		return
	}
	a.server, a.problem = nil, sayAPIEnded(*a.bind, cause)
	r.opt.Log.Error(a.problem)
	r.nudge()
	r.opt.Changed()
}

// closeAPILocked frees the address at once and lets answers in flight finish.
func (r *Resolver) closeAPILocked() {
	server, sock, serving := r.api.server, r.api.sock, r.api.serving
	r.api = nil
	if server == nil {
		return
	}
	_ = sock.Close() // the descriptor is gone either way
	if !serving {
		return
	}
	r.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), apiCloseTime)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // a client that does not read its answer
		}
	})
}

const resolvePath = "/v1/resolve/service/"

// consumerHeader names who asks.
const consumerHeader = "X-Stado-Consumer"

// logicalName is what can stand for a service in a URL, up to maxName bytes. They are counted apart: a counted repetition takes long to
// compile, and this program is started for every read.
var logicalName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

const maxName = 128

// Bodies of the API.
type (
	healthBody struct {
		Status     string           `json:"status"`
		Service    string           `json:"service"`
		Generation fleet.Generation `json:"generation"`
	}
	resolveBody struct {
		Service      string           `json:"service"`
		Generation   fleet.Generation `json:"generation"`
		GatewayURL   *string          `json:"gateway_url"`
		Capabilities []string         `json:"capabilities"`
	}
	errorBody struct {
		Error string `json:"error"`
	}
)

// answer serves one request.
func (r *Resolver) answer(w http.ResponseWriter, req *http.Request) {
	name, resolve := strings.CutPrefix(req.URL.Path, resolvePath)
	switch {
	case !resolve && req.URL.Path != "/health":
		reply(w, http.StatusNotFound, errorBody{"not_found"})
	case req.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		reply(w, http.StatusMethodNotAllowed, errorBody{"method_not_allowed"})
	case resolve:
		r.answerResolve(w, name, req.Header.Get(consumerHeader))
	default:
		r.answerHealth(w)
	}
}

func (r *Resolver) answerHealth(w http.ResponseWriter) {
	generation, stale := r.opt.Health()
	body := healthBody{Status: "ok", Service: "stado-resolver", Generation: generation}
	if stale {
		body.Status = "stale"
		reply(w, http.StatusServiceUnavailable, body)
		return
	}
	reply(w, http.StatusOK, body)
}

func (r *Resolver) answerResolve(w http.ResponseWriter, name, consumer string) {
	switch {
	case consumer == "":
		reply(w, http.StatusUnauthorized, errorBody{"consumer_required"})
		return
	case len(name) > maxName || !logicalName.MatchString(name):
		reply(w, http.StatusBadRequest, errorBody{"invalid_service"})
		return
	}
	table := r.current.Load()
	if table == nil {
		reply(w, http.StatusServiceUnavailable, errorBody{sayNoTable})
		return
	}
	found, err := table.Resolve(fleet.ServiceName(name), fleet.ConsumerName(consumer))
	var refused *route.Refused
	switch {
	case errors.As(err, &refused):
		r.opt.Log.Warn(sayNotResolved(consumer, refused))
		reply(w, http.StatusServiceUnavailable, errorBody{refused.Public()})
		return
	case err != nil:
		reply(w, http.StatusServiceUnavailable, errorBody{err.Error()})
		return
	}
	body := resolveBody{Service: "stado://service/" + name, Generation: found.Generation, Capabilities: found.Capabilities}
	if found.Gateway != "" {
		body.GatewayURL = &found.Gateway
	}
	if body.Capabilities == nil {
		body.Capabilities = []string{}
	}
	reply(w, http.StatusOK, body)
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // a client that left needs no answer
}
