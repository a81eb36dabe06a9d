package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Keeper runs tasks as a [Runner] does, and keeps the child of one that was answered for the next one: starting a process costs more than
// many a task does. Where a kept child ends without an answer, or at any limit but that of time, a new one is asked, whose end is the
// verdict, so that no such verdict depends on what was asked before. Files cannot be given twice; [ErrAgain] then asks the caller to.
//
// It is safe for concurrent use; a task that finds the kept child at work has a child of its own. The zero value keeps nothing.
type Keeper struct {
	For   time.Duration // how long a child is kept that has nothing to do
	Ended func(error)   // hears how a kept child ended that did not answer; may be nil

	mu     sync.Mutex
	idle   *child
	runner Runner // of idle
	timer  *time.Timer
	closed bool
	ending sync.WaitGroup // of children that the timer ends
}

// ErrAgain says that a kept child ended without an answer to a task with files. The next Run has another child.
var ErrAgain = errors.New("an evaluation process that was kept has ended")

// Run is [Runner.Run], except that a child may stay. Whoever uses a Keeper closes it.
func (k *Keeper) Run(ctx context.Context, r Runner, task string, request, reply any, p func(Progress)) error {
	q, err := r.question(task, request)
	if err != nil {
		return err
	}
	if c := k.take(r); c != nil {
		fit, err := c.ask(ctx, q, reply, p)
		k.done(c, r, fit)
		if !again(err) {
			return err
		}
		if k.Ended != nil {
			k.Ended(err)
		}
		if len(r.Files) > 0 {
			return fmt.Errorf("%w: %w", ErrAgain, err)
		}
	}
	c, err := r.start()
	if err != nil {
		return err
	}
	fit, err := c.ask(ctx, q, reply, p)
	k.done(c, r, fit)
	return err
}

// again reports whether what a kept child said is no verdict: it has ended, by itself or at a limit that earlier tasks had a part in.
func again(err error) bool {
	if _, ok := errors.AsType[*CrashError](err); ok {
		return true
	}
	limit, ok := errors.AsType[*LimitError](err)
	return ok && limit.Limit != LimitTime
}

// take gives the kept child, nil when there is none that can be asked what r asks.
func (k *Keeper) take(r Runner) *child {
	c, same := k.remove(nil, r)
	if c == nil || same && c.quiet() {
		return c
	}
	c.end()
	return nil
}

// remove gives the kept child, of which nobody knows any more, and whether r would have started it. Another one than which stays, unless
// which is nil.
func (k *Keeper) remove(which *child, r Runner) (c *child, same bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c = k.idle; c == nil || which != nil && c != which {
		return nil, false
	}
	k.timer.Stop()
	k.idle = nil
	if which != nil {
		k.ending.Add(1) // here, so that whoever closes waits for it
	}
	return c, slices.Equal(r.Command, k.runner.Command) && slices.Equal(r.Env, k.runner.Env) && r.Limits.process() == k.runner.Limits.process()
}

// quiet reports whether the child lives and has said nothing that nobody asked for.
func (c *child) quiet() bool {
	select {
	case <-c.done:
		return false
	default:
	}
	raw, err := c.stdout.SyscallConn()
	if err != nil {
		return false
	}
	unread := 1
	err = raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			unread = n
		}
	})
	return err == nil && unread == 0
}

// done keeps a child, or ends it.
func (k *Keeper) done(c *child, r Runner, fit bool) {
	if !fit || !k.keep(c, r) {
		c.end()
	}
}

func (k *Keeper) keep(c *child, r Runner) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.For <= 0 || k.idle != nil {
		return false
	}
	k.idle, k.runner = c, r
	k.timer = time.AfterFunc(k.For, func() {
		if old, _ := k.remove(c, r); old != nil {
			defer k.ending.Done()
			old.end()
		}
	})
	return true
}

// Close ends the kept child, if there is one. What is asked later has a child of its own.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	if c, _ := k.remove(nil, Runner{}); c != nil {
		c.end()
	}
	k.ending.Wait()
}
