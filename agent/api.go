package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SocketFile is the local API of a running agent, inside its state directory and open to its owner only. `GET /v1/status` answers the
// published state, `POST /v1/refresh` asks the authority now.
const SocketFile = "agent.sock"

// listenAPI binds the socket. The lock on the state directory is held, so a socket file that is there belongs to a dead agent.
func listenAPI(home string) (net.Listener, error) {
	path := filepath.Join(home, SocketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot take over the agent's socket: %w", err)
	}
	// The mode is set on the descriptor before it is bound: the file never stands there with a wider one.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) }); err != nil {
			return err
		}
		return failed
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the agent's socket: %w", err)
	}
	return l, nil
}

func (a *Agent) serveAPI(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(a.state.Load()); err != nil {
			a.opt.Log.Debug("a client of the agent's socket left: " + err.Error())
		}
	})
	mux.HandleFunc("POST /v1/refresh", func(w http.ResponseWriter, _ *http.Request) {
		a.reconciler.Poke()
		w.WriteHeader(http.StatusAccepted)
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the agent's socket ended: %w", err)
	}
	return nil
}
