package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Keeper runs tasks as a [Runner] does, and keeps the child of one that was answered for the next one: starting a process costs more than
// many a task does. What a kept child does not answer is asked of a new one, whose end is the verdict, so that no verdict depends on what
// was asked before.
//
// Files cannot be given twice, so then Run returns [ErrAgain] instead of asking anew.
//
// It is safe for concurrent use; a task that finds the kept child at work has a child of its own. The zero value keeps nothing.
type Keeper struct {
	For time.Duration // how long a child is kept that has nothing to do

	mu     sync.Mutex
	idle   *child
	limits Limits
	timer  *time.Timer // ends idle
	closed bool
}

// ErrAgain says that a kept child ended without an answer to a task with files. The next Run has a new child.
var ErrAgain = errors.New("an evaluation process that was kept has ended")

// Run is [Runner.Run], except that a child may stay. Whoever uses a Keeper closes it.
func (k *Keeper) Run(ctx context.Context, r Runner, task string, request, reply any, p func(Progress)) error {
	q, err := r.question(task, request)
	if err != nil {
		return err
	}
	if c := k.take(q.limits); c != nil {
		fit, err := c.ask(ctx, q, reply, p)
		k.done(c, q.limits, fit)
		if !again(fit, err) {
			return err
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
	k.done(c, q.limits, fit)
	return err
}

// again reports whether what a kept child said is no verdict: it has ended, by itself or at a limit that earlier tasks had a part in.
func again(fit bool, err error) bool {
	if fit {
		return false
	}
	if _, ok := errors.AsType[*CrashError](err); ok {
		return true
	}
	limit, ok := errors.AsType[*LimitError](err)
	return ok && (limit.Limit == LimitCPU || limit.Limit == LimitMemory)
}

// take gives the kept child, nil when there is none that can be asked under limits.
func (k *Keeper) take(limits Limits) *child {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.idle
	if c == nil {
		return nil
	}
	k.timer.Stop()
	k.idle = nil
	if limits.process() != k.limits.process() || !c.quiet() {
		c.end()
		return nil
	}
	return c
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
func (k *Keeper) done(c *child, limits Limits, fit bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !fit || k.closed || k.For <= 0 || k.idle != nil {
		c.end()
		return
	}
	k.idle, k.limits = c, limits
	k.timer = time.AfterFunc(k.For, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.idle == c {
			k.idle = nil
			c.end()
		}
	})
}

// Close ends the kept child, if there is one. What is asked later has a child of its own.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.idle != nil {
		k.timer.Stop()
		k.idle.end()
		k.idle = nil
	}
}
