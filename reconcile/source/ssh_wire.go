package source

import (
	"context"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"golang.org/x/sys/unix"

	"stado.internal/stado/reconcile/sandbox"
)

// pipeWire talks to a git-upload-pack that has been started: the child's side of an ssh remote.
type pipeWire struct {
	remote  Remote
	tracker *tracker
	conn    net.Conn
	asked   bool
}

// newPipeWire takes the descriptor that the parent has opened for it.
func newPipeWire(r Remote, t *tracker) (wire, error) {
	unix.CloseOnExec(sandbox.FirstFile)
	f := os.NewFile(sandbox.FirstFile, "remote")
	conn, err := net.FileConn(f)
	_ = f.Close() // the connection has its own
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
