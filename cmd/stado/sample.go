package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

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
	ep, ok := hello(snapshot, host)
	if !ok {
		ep = fleet.Endpoint{} // nothing that this service could be
	}
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
	var server *served
	defer func() { server.Close() }()
	retry := time.NewTicker(2 * time.Second)
	defer retry.Stop()
	complained := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case ep := <-s.want:
			if ep == current {
				continue
			}
			server.Close()
			current, complained = ep, ""
		case <-retry.C:
		}
		if server.alive() || current.Address == "" {
			continue
		}
		server.Close()
		var err error
		if server, err = serveSample(current); err != nil && err.Error() != complained {
			complained = err.Error()
			s.log.Error(saySampleNotListening(current.Address, err))
		}
	}
}

func saySampleNotListening(address string, cause error) string {
	return fmt.Sprintf("the sample service cannot listen on %s: %v (free the address, or change the endpoint of %s in the registry)", address, cause, sampleService)
}

// served is one listening sample service. A nil one is none.
type served struct {
	http *http.Server
	done chan struct{}
}

func serveSample(ep fleet.Endpoint) (*served, error) {
	l, err := net.Listen(ep.Network, ep.Address)
	if err != nil {
		return nil, err
	}
	v := &served{http: &http.Server{Handler: http.HandlerFunc(greet), ReadHeaderTimeout: 10 * time.Second}, done: make(chan struct{})}
	go func() {
		defer close(v.done)
		_ = v.http.Serve(l) // however it ends, the retry looks at it
	}()
	return v, nil
}

func (v *served) alive() bool {
	if v == nil {
		return false
	}
	select {
	case <-v.done:
		return false
	default:
		return true
	}
}

func (v *served) Close() {
	if v == nil {
		return
	}
	_ = v.http.Close() // cuts what is in flight, which is what the end of this service means
	<-v.done
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
