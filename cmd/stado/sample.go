package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"stado.internal/stado/fleet"
)

// sample is the service behind the first adapter of `stado up`. It listens where the registry says that the service is, and follows when
// that changes, so editing the endpoint works like moving any real service.
type sample struct {
	log  *slog.Logger
	want chan fleet.Endpoint // latest wins
}

func newSample(log *slog.Logger) *sample {
	return &sample{log: log, want: make(chan fleet.Endpoint, 1)}
}

// follow is called with every adopted snapshot.
func (s *sample) follow(snapshot *fleet.Snapshot, host fleet.HostName) {
	ep, _ := hello(snapshot, host)
	for {
		select {
		case s.want <- ep:
			return
		default:
		}
		select {
		case <-s.want:
		default:
		}
	}
}

// run serves until ctx ends. An address that is taken is asked for again, because whoever holds it may leave.
func (s *sample) run(ctx context.Context) error {
	var current fleet.Endpoint
	var server *http.Server
	var servers errgroup.Group
	stop := func() {
		if server != nil {
			_ = server.Close()
			server = nil
		}
	}
	retry := time.NewTicker(2 * time.Second)
	defer retry.Stop()
	complained := ""
	for {
		select {
		case <-ctx.Done():
			stop()
			return servers.Wait()
		case ep := <-s.want:
			if ep == current {
				continue
			}
			stop()
			current, complained = ep, ""
		case <-retry.C:
		}
		if server != nil || current.Address == "" {
			continue
		}
		l, err := net.Listen(current.Network, current.Address)
		if err != nil {
			if err.Error() != complained {
				complained = err.Error()
				s.log.Error(fmt.Sprintf("the sample service cannot listen on %s: %v (free the address, or change the endpoint of %s in the registry)", current.Address, err, sampleService))
			}
			continue
		}
		srv := &http.Server{Handler: http.HandlerFunc(greet), ReadHeaderTimeout: 10 * time.Second}
		server = srv
		servers.Go(func() error {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.log.Error("the sample service ended: " + err.Error())
			}
			return nil
		})
	}
}

// greet answers every path. `?bytes=N` makes an answer of N bytes, for somebody who wants to watch a long download survive a change.
func greet(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if n := r.URL.Query().Get("bytes"); n != "" {
		var size int64
		if _, err := fmt.Sscan(n, &size); err != nil || size < 0 || size > 1<<40 {
			http.Error(w, "bytes must be a number from 0 to 1099511627776", http.StatusBadRequest)
			return
		}
		writeBytes(w, size)
		return
	}
	fmt.Fprintf(w, "hello from the sample service, reached through the adapter at %s\n", r.Host)
}

func writeBytes(w http.ResponseWriter, size int64) {
	w.Header().Set("Content-Length", fmt.Sprint(size))
	block := make([]byte, 64<<10)
	for i := range block {
		block[i] = "stado\n"[i%6]
	}
	for size > 0 {
		n, err := w.Write(block[:min(size, int64(len(block)))])
		if err != nil {
			return
		}
		size -= int64(n)
	}
}
