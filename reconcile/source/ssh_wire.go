package source

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"stado.internal/stado/reconcile/sandbox"
)

// pipeWire talks to a git-upload-pack that has been started: the child's side of an ssh remote.
type pipeWire struct {
	remote  Remote
	tracker *tracker
	conn    net.Conn
	asked   bool
}

// newPipeWire takes the connection that the parent has opened for it.
func newPipeWire(ctx context.Context, r Remote, t *tracker) (wire, error) {
	given := sandbox.Files(ctx)
	if len(given) != 1 {
		return nil, failure(KindInternal, PhaseExec, r.URL, fmt.Sprintf("%d connections were given", len(given)))
	}
	conn, err := net.FileConn(given[0])
	if err != nil {
		return nil, failure(KindInternal, PhaseExec, r.URL, "there is no connection: "+err.Error())
	}
	return &pipeWire{remote: r, tracker: t, conn: conn}, nil
}

// bound ends reads and writes with ctx.
func (w *pipeWire) bound(ctx context.Context) (release func() bool) {
	return context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(time.Unix(1, 0)) })
}

func (w *pipeWire) advertise(ctx context.Context) (*packp.AdvRefs, error) {
	w.tracker.set(PhaseAdvertisement)
	defer w.bound(ctx)()
	adv, err := decodeAdvertisement(w.conn, w.remote.URL)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return adv, err
}

func (w *pipeWire) pack(ctx context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error) {
	w.tracker.set(PhasePack)
	input, err := encodeRequest(req)
	if err != nil {
		return nil, failure(KindInternal, PhasePack, w.remote.URL, err.Error())
	}
	release := w.bound(ctx)
	w.asked = true
	if _, err = w.conn.Write(input.Bytes()); err == nil {
		answer := packp.NewUploadPackResponse(req)
		if err = answer.Decode(io.NopCloser(w.conn)); err == nil {
			return &boundPack{answer, release}, nil
		}
	}
	release()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, failure(KindUnreachable, PhasePack, w.remote.URL, "the remote's git does not answer the request: "+err.Error())
}

// leave tells git that nothing is wanted. One that is gone needs no telling.
func (w *pipeWire) leave() {
	if !w.asked {
		_, _ = w.conn.Write([]byte("0000"))
	}
	_ = w.conn.Close()
}

// boundPack is a pack that ends with its context.
type boundPack struct {
	io.ReadCloser
	release func() bool
}

func (p *boundPack) Close() error {
	p.release()
	return p.ReadCloser.Close()
}
