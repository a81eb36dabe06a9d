package sandbox

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errWall is the cause of a context that ended at the wall limit.
var errWall = errors.New("wall limit")

// ask puts a question and takes the answer. The child can be asked again when it is fit, and has to be ended when it is not.
func (c *child) ask(ctx context.Context, q question, reply any, p func(Progress)) (fit bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, q.limits.Wall, errWall)
	defer cancel()
	stop := context.AfterFunc(ctx, c.kill)
	fed := false
	var feeding sync.WaitGroup
	feeding.Go(func() { fed = c.feed(q) })
	a := answer{child: c, limits: q.limits, report: p}
	a.read()
	if a.status == 0 {
		if a.refused {
			c.kill()
		}
		<-c.done // by itself, or with ctx
	}
	alive := stop()
	_ = c.requests.SetWriteDeadline(time.Unix(1, 0)) // a child that answers has read all, so what is not written now is left
	feeding.Wait()
	_ = c.requests.SetWriteDeadline(time.Time{})
	if a.status == 0 {
		return false, a.silence(ctx)
	}
	err = a.decode(reply)
	return alive && fed && err == nil && a.status == frameReply, err
}

// feed writes the request. A child that does not read it shows in how it ends, so an error says nothing new.
func (c *child) feed(q question) bool {
	var rights []byte
	if len(q.files) > 0 {
		fds := make([]int, len(q.files))
		for i, f := range q.files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	n, _, err := c.requests.WriteMsgUnix(q.head, rights, nil)
	for _, part := range [][]byte{q.head[max(n, 0):], q.payload} {
		if err == nil {
			_, err = c.requests.Write(part)
		}
	}
	return err == nil
}

// answer is what a child says to one question.
type answer struct {
	child  *child
	limits Limits
	report func(Progress)

	last    Progress
	status  byte   // 0: no reply came
	reply   []byte // the JSON
	beside  []byte // the attachment
	refused bool   // nothing more is read
	tooBig  bool
}

// maxProgress bounds one progress report; file names are at most a few hundred bytes.
const maxProgress = 8 << 10

// read takes frames up to the reply. It ends with the child, or when the child says more, or says it will say more, than it may.
func (a *answer) read() {
	in, most := a.child.stdout, uint64(a.limits.Output)
	for {
		var frame [frameHead]byte
		if _, err := io.ReadFull(in, frame[:]); err != nil {
			return
		}
		kind, size, beside := frame[0], binary.BigEndian.Uint64(frame[1:]), binary.BigEndian.Uint64(frame[9:])
		if size > most || beside > most-size {
			a.refused, a.tooBig = true, slices.Contains([]byte{frameProgress, frameReply, frameLast, frameError}, kind)
			return
		}
		if kind == frameProgress && size+beside > maxProgress {
			if _, err := io.CopyN(io.Discard, in, int64(size+beside)); err != nil {
				return
			}
			continue
		}
		buf := make([]byte, size+beside)
		if _, err := io.ReadFull(in, buf); err != nil {
			return
		}
		switch kind {
		case frameProgress:
			a.progress(buf)
		case frameReply, frameLast, frameError:
			a.status, a.reply, a.beside = kind, buf[:size], buf[size:]
			return
		default:
			a.refused = true
			return
		}
	}
}

func (a *answer) progress(line []byte) {
	var p Progress
	if json.Unmarshal(line, &p) != nil {
		return
	}
	a.last = p
	if a.report != nil {
		a.report(p)
	}
}

// silence says why there is no reply. The process has ended. A whole reply would count even when the deadline came in the same instant.
func (a *answer) silence(ctx context.Context) error {
	words := a.child.words.String()
	switch {
	case a.tooBig:
		return a.limit(LimitOutput, "")
	case a.refused:
		return a.crash("malformed reply", words)
	case errors.Is(context.Cause(ctx), errWall):
		return a.limit(LimitTime, "")
	case ctx.Err() != nil:
		return fmt.Errorf("the evaluation process was stopped: %w", ctx.Err())
	}
	state := a.child.cmd.ProcessState
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		// The kernel limits ticks and reports measured time, which is less on a busy machine: half of the limit is enough to tell its
		// kill from the one of a machine without memory.
		used := state.UserTime() + state.SystemTime()
		if ws.Signal() == unix.SIGXCPU || ws.Signal() == unix.SIGKILL && 2*used >= a.limits.CPU {
			return a.limit(LimitCPU, "")
		}
		if ws.Signal() == unix.SIGKILL {
			e := a.limit(LimitMemory, "killed from outside, most likely because the machine ran out of memory")
			e.Outside = true
			return e
		}
	}
	if detail, ok := outOfMemory(words); ok && state.ExitCode() == exitFatal {
		return a.limit(LimitMemory, detail)
	}
	return a.crash(state.String(), words)
}

func (a *answer) crash(state, words string) *CrashError {
	return &CrashError{State: state, Phase: a.last.Phase, File: a.last.File, Stderr: words}
}

func (a *answer) limit(name, detail string) *LimitError {
	return &LimitError{Limit: name, Bound: a.limits.bound(name), Detail: detail, Phase: a.last.Phase, File: a.last.File}
}

func (a *answer) decode(reply any) error {
	if a.status != frameError {
		if err := json.Unmarshal(a.reply, reply); err != nil {
			return fmt.Errorf("cannot read the reply of the evaluation process: %w", err)
		}
		if to, ok := reply.(Attached); ok && len(a.beside) > 0 {
			*to.Attachment() = a.beside
		}
		return nil
	}
	var e TaskError
	if err := json.Unmarshal(a.reply, &e); err != nil {
		return fmt.Errorf("cannot read the reply of the evaluation process: %w", err)
	}
	if name, ok := strings.CutPrefix(e.Kind, kindLimit); ok {
		return a.limit(name, "")
	}
	return &e
}
