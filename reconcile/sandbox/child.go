package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is the parent's view of one running child.
type child struct {
	cmd    *exec.Cmd
	limits Limits
	report func(Progress)

	stdin                    *os.File // our ends of the pipes
	stdout, stderr, progress *os.File

	mu     sync.Mutex // guards reaped: a signal may only be sent while the process id is still ours
	reaped bool

	// Each is written by one reading goroutine and read after it has been joined.
	last   Progress
	status byte
	reply  []byte // the JSON
	beside []byte // the attachment
	tooBig bool
	words  stderrEnds
}

func (c *child) pipes() (theirs []*os.File, err error) {
	pair := func(ours **os.File, write bool) *os.File {
		if err != nil {
			return nil
		}
		var r, w *os.File
		if r, w, err = os.Pipe(); err != nil {
			return nil
		}
		if write {
			r, w = w, r
		}
		*ours = r
		theirs = append(theirs, w)
		return w
	}
	in, out := pair(&c.stdin, true), pair(&c.stdout, false)
	words, lines := pair(&c.stderr, false), pair(&c.progress, false)
	if err != nil {
		return theirs, err
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr, c.cmd.ExtraFiles = in, out, words, []*os.File{lines}
	return theirs, nil
}

func (c *child) closePipes() {
	for _, f := range []*os.File{c.stdin, c.stdout, c.stderr, c.progress} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// errWall is the cause of a context that ended at the wall limit.
var errWall = errors.New("wall limit")

// grace is how long the pipes may stay open after every process of the group is dead: only an escaped process can hold them.
const grace = time.Second

// finish feeds the child, waits for its end and for all that carry its bytes, and judges the outcome.
func (c *child) finish(ctx context.Context, head, payload []byte, reply any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limits.Wall, errWall)
	defer cancel()
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()

	c.words.cap = c.limits.Stderr
	var carriers sync.WaitGroup
	carriers.Go(func() { c.feed(head, payload) })
	carriers.Go(c.readReply)
	carriers.Go(c.readProgress)
	carriers.Go(func() { _, _ = io.Copy(&c.words, c.stderr) })

	c.awaitExit()
	c.kill() // whatever the child has started and left behind
	c.mu.Lock()
	c.reaped = true
	waitErr := c.cmd.Wait()
	c.mu.Unlock()
	deadline := time.Now().Add(grace)
	for _, f := range []*os.File{c.stdout, c.stderr, c.progress} {
		_ = f.SetReadDeadline(deadline)
	}
	_ = c.stdin.Close() // nobody is left to read
	carriers.Wait()
	c.closePipes()
	return c.outcome(ctx, waitErr, reply)
}

// awaitExit returns when the child has ended but is not reaped, so that its process group can still be signalled safely.
func (c *child) awaitExit() {
	for {
		err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// kill ends the whole process group: a git process that the child started must not live on.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
	}
}

// feed writes the request. A child that does not read it shows in how it ends, so errors here say nothing new.
func (c *child) feed(head, payload []byte) {
	if _, err := c.stdin.Write(head); err == nil {
		_, _ = c.stdin.Write(payload)
	}
	_ = c.stdin.Close()
}

// readReply takes one framed reply and ends the child if it says more, or says it will say more, than it may.
func (c *child) readReply() {
	var frame [frameHead]byte
	if _, err := io.ReadFull(c.stdout, frame[:]); err != nil {
		return
	}
	size, beside, most := binary.BigEndian.Uint64(frame[1:]), binary.BigEndian.Uint64(frame[9:]), uint64(c.limits.Output)
	if size > most || beside > most-size {
		c.tooBig = true
		c.kill()
		return
	}
	buf := make([]byte, size+beside)
	if _, err := io.ReadFull(c.stdout, buf); err != nil {
		return
	}
	c.status, c.reply, c.beside = frame[0], buf[:size], buf[size:]
	if n, _ := io.CopyN(io.Discard, c.stdout, 1); n != 0 {
		c.tooBig = true
		c.kill()
	}
}

// maxProgressLine bounds one progress report; file names are at most a few hundred bytes.
const maxProgressLine = 8 << 10

func (c *child) readProgress() {
	lines := bufio.NewScanner(c.progress)
	lines.Buffer(make([]byte, 0, 1024), maxProgressLine)
	for lines.Scan() {
		var p Progress
		if json.Unmarshal(lines.Bytes(), &p) != nil {
			continue
		}
		c.last = p
		if c.report != nil {
			c.report(p)
		}
	}
	_, _ = io.Copy(io.Discard, c.progress) // after an overlong line the child must not block on a full pipe
}

// outcome turns the end of the process into the caller's answer. A whole reply counts even when the deadline came in the same instant.
func (c *child) outcome(ctx context.Context, waitErr error, reply any) error {
	if c.tooBig {
		return c.limit(LimitOutput, "")
	}
	if waitErr == nil && c.status != 0 {
		return c.decode(reply)
	}
	if errors.Is(context.Cause(ctx), errWall) {
		return c.limit(LimitTime, "")
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the evaluation process was stopped: %w", err)
	}
	state := c.cmd.ProcessState
	words := c.words.String()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		// The kernel limits ticks and reports measured time, which is less on a busy machine: half of the limit is enough to tell its
		// kill from the one of a machine without memory.
		used := state.UserTime() + state.SystemTime()
		if ws.Signal() == unix.SIGXCPU || ws.Signal() == unix.SIGKILL && 2*used >= c.limits.CPU {
			return c.limit(LimitCPU, "")
		}
		if ws.Signal() == unix.SIGKILL {
			e := c.limit(LimitMemory, "killed from outside, most likely because the machine ran out of memory")
			e.Outside = true
			return e
		}
	}
	if detail, ok := outOfMemory(words); ok && state.ExitCode() == exitFatal {
		return c.limit(LimitMemory, detail)
	}
	return &CrashError{State: state.String(), Phase: c.last.Phase, File: c.last.File, Stderr: words}
}

func (c *child) limit(name, detail string) *LimitError {
	return &LimitError{Limit: name, Bound: c.limits.bound(name), Detail: detail, Phase: c.last.Phase, File: c.last.File}
}

func (c *child) decode(reply any) error {
	switch c.status {
	case frameReply:
		if err := json.Unmarshal(c.reply, reply); err != nil {
			return fmt.Errorf("cannot read the reply of the evaluation process: %w", err)
		}
		if a, ok := reply.(Attached); ok && len(c.beside) > 0 {
			*a.Attachment() = c.beside
		}
		return nil
	case frameError:
		var e TaskError
		if err := json.Unmarshal(c.reply, &e); err != nil {
			return fmt.Errorf("cannot read the reply of the evaluation process: %w", err)
		}
		if name, ok := strings.CutPrefix(e.Kind, kindLimit); ok {
			return c.limit(name, "")
		}
		return &e
	}
	return &CrashError{State: "malformed reply", Phase: c.last.Phase, File: c.last.File, Stderr: c.words.String()}
}

// exitFatal is the exit status of a Go program that the runtime ends.
const exitFatal = 2

// outOfMemory recognizes the runtime's last words about memory.
func outOfMemory(words string) (detail string, ok bool) {
	if strings.Contains(words, "stack overflow") || strings.Contains(words, "goroutine stack exceeds") {
		return "stack", true
	}
	for _, s := range []string{
		"out of memory", "cannot allocate memory", "cannot map pages in arena", "cannot reserve arena", "failed to create new OS thread",
	} {
		if strings.Contains(words, s) {
			return "", true
		}
	}
	return "", collectorStarved(words)
}

// collectorStarved recognizes how the collector of Go 1.26 ends when the kernel refuses it memory for its own queues: it uses the
// address 0 that it got, on a stack of the runtime (goroutine 0). No program text can crash there at that address.
func collectorStarved(words string) bool {
	first, rest, _ := strings.Cut(words, "\n")
	if !strings.HasPrefix(first, "SIGSEGV: ") {
		return false
	}
	place, stack, _ := strings.Cut(rest, "\n")
	stack = strings.TrimLeft(stack, "\n")
	_, frame, _ := strings.Cut(stack, "\n")
	return strings.Contains(place, "addr=0x0") && strings.HasPrefix(stack, "goroutine 0 ") && strings.HasPrefix(frame, "runtime.")
}

// stderrEnds keeps the first and the last bytes written to it: the reason of a crash stands first, the place last.
type stderrEnds struct {
	cap        int
	head, tail []byte
	cut        bool
}

func (s *stderrEnds) Write(p []byte) (int, error) {
	n := len(p)
	half := s.cap / 2
	if room := half - len(s.head); room > 0 {
		k := min(room, len(p))
		s.head = append(s.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > half {
		p, s.cut = p[len(p)-half:], true
	}
	if over := len(s.tail) + len(p) - half; over > 0 {
		s.tail, s.cut = append(s.tail[:0], s.tail[over:]...), true
	}
	s.tail = append(s.tail, p...)
	return n, nil
}

func (s *stderrEnds) String() string {
	gap := ""
	if s.cut {
		gap = "\n…\n"
	}
	return string(bytes.ToValidUTF8(s.head, nil)) + gap + string(bytes.ToValidUTF8(s.tail, nil))
}
