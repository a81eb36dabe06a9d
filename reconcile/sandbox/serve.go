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
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Task does one kind of work in the child. p reports what has been begun; it must be called before each step that may not end. The
// error should be a [*TaskError]; another one arrives at the parent as a TaskError without a kind.
type Task func(ctx context.Context, request json.RawMessage, p func(Progress)) (reply any, err error)

// header is the line before a request; Size bytes of it follow, and with the line come Files descriptors.
type header struct {
	Task   string `json:"task"`
	Limits Limits `json:"limits"` // of the process: those of its first request
	Size   int    `json:"size"`
	Files  int    `json:"files,omitempty"`
}

// A frame is its kind, the size of its JSON and of its attachment in eight bytes each, then the two.
const (
	frameHead     = 17
	frameProgress = 'p' // a Progress, before the reply
	frameReply    = 'r' // the task's reply
	frameLast     = 'R' // the task's reply, after which the process takes no further task
	frameError    = 'e' // a TaskError
)

// Attached is a reply with bytes of which nothing has to be read on the way: they cross beside its JSON, which must not hold them, as they
// are. An empty attachment arrives as nil.
type Attached interface {
	Attachment() *[]byte
}

// kindLimit starts the kind of a task error that says which limit ended the work.
const kindLimit = "sandbox-limit:"

// Exceeded is the error of a task whose own child process met a limit; the caller of Run sees it as a [*LimitError]. The limit is one
// of the Limit constants.
func Exceeded(limit string) error {
	return &TaskError{Kind: kindLimit + limit, Message: "a process of the evaluation met its " + limit + " limit"}
}

// Exit codes of a child; the Go runtime itself uses 2.
const (
	exitDone     = 0
	exitProtocol = 3
)

// Serve is the child's side: it limits this process, does the tasks that stdin asks for, one after the other, writes what they say to
// stdout and returns the exit code when stdin or ctx ends. The hidden verb of the command line calls it.
func Serve(ctx context.Context, tasks map[string]Task) int {
	in, err := receive()
	if err != nil {
		return protocolFailure(err)
	}
	defer context.AfterFunc(ctx, func() { _ = in.conn.SetReadDeadline(time.Unix(1, 0)) })()
	lines, out := bufio.NewReader(in), speaker{os.Stdout}
	var limits Limits
	for first := true; ; first = false {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 && !first {
			return exitDone
		}
		if err != nil {
			return protocolFailure(fmt.Errorf("no request: %w", err))
		}
		var h header
		if err := json.Unmarshal(line, &h); err != nil {
			return protocolFailure(err)
		}
		if first {
			limits = h.Limits.filled()
			if err := limits.apply(); err != nil {
				return protocolFailure(err)
			}
			signal.Ignore(syscall.SIGXFSZ) // a write past the file limit then fails with EFBIG
		}
		request := make([]byte, h.Size)
		if _, err := io.ReadFull(lines, request); err != nil {
			return protocolFailure(fmt.Errorf("the request is cut: %w", err))
		}
		if err := serve(ctx, tasks, h, request, in.take(), out, limits); err != nil {
			return protocolFailure(err)
		}
	}
}

// serve does one task.
func serve(ctx context.Context, tasks map[string]Task, h header, request []byte, files []*os.File, out speaker, limits Limits) error {
	defer func() {
		for _, f := range files {
			_ = f.Close() // a task that keeps one has its own copy
		}
	}()
	task, ok := tasks[h.Task]
	if !ok {
		return out.say(frameError, &TaskError{Message: fmt.Sprintf("unknown task %q (parent and child are different versions)", h.Task)})
	}
	if len(files) != h.Files {
		return fmt.Errorf("%d of %d files arrived", len(files), h.Files)
	}
	var reporting sync.Mutex
	ended := false // what outlives the task, such as a connection that is being made, says nothing behind its reply
	reply, err := task(context.WithValue(ctx, filesKey{}, files), request, func(p Progress) {
		reporting.Lock()
		defer reporting.Unlock()
		if !ended {
			_ = out.say(frameProgress, p) // nobody reading it is no reason to stop
		}
	})
	reporting.Lock()
	ended = true
	reporting.Unlock()
	switch {
	case ctx.Err() != nil: // whatever the task makes of it, it is this process that ends
		return ctx.Err()
	case err != nil:
		return out.say(frameError, asTaskError(err))
	case limits.worn():
		return out.say(frameLast, reply)
	}
	return out.say(frameReply, reply)
}

// filesKey is the key of a task's files in its context.
type filesKey struct{}

// Files are those of [Runner.Files], in a task. They are open until it returns.
func Files(ctx context.Context) []*os.File {
	files, _ := ctx.Value(filesKey{}).([]*os.File)
	return files
}

func protocolFailure(err error) int {
	fmt.Fprintf(os.Stderr, "this verb is started by stado itself: %v\n", err)
	return exitProtocol
}

func asTaskError(err error) *TaskError {
	if errors.Is(err, syscall.EFBIG) {
		err = Exceeded(LimitFile)
	}
	var t *TaskError
	if errors.As(err, &t) {
		return t
	}
	return &TaskError{Message: err.Error()}
}

// speaker writes frames, each whole. One goroutine at a time may use it.
type speaker struct{ w io.Writer }

func (s speaker) say(kind byte, v any) error {
	var body bytes.Buffer
	body.Write(make([]byte, frameHead))
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("cannot encode what it says: %w", err)
	}
	var attachment []byte
	if a, ok := v.(Attached); ok {
		attachment = *a.Attachment()
	}
	frame := body.Bytes()
	frame[0] = kind
	binary.BigEndian.PutUint64(frame[1:], uint64(len(frame)-frameHead))
	binary.BigEndian.PutUint64(frame[9:], uint64(len(attachment)))
	for _, part := range [][]byte{frame, attachment} {
		if _, err := s.w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// inbox reads requests and keeps the files that came with them.
type inbox struct {
	conn  *net.UnixConn
	files []*os.File
}

// maxFiles is how many files may come with a request.
const maxFiles = 8

// receive takes over stdin, which is a socket when a parent has started this process.
func receive() (*inbox, error) {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return nil, fmt.Errorf("stdin is no socket: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("stdin is a %s socket", conn.LocalAddr().Network())
	}
	return &inbox{conn: unixConn}, nil
}

func (i *inbox) Read(p []byte) (int, error) {
	rights := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, size, _, _, err := i.conn.ReadMsgUnix(p, rights)
	if size > 0 {
		messages, _ := unix.ParseSocketControlMessage(rights[:size]) // files that are missing are counted
		for _, m := range messages {
			fds, _ := unix.ParseUnixRights(&m)
			for _, fd := range fds {
				i.files = append(i.files, os.NewFile(uintptr(fd), "given"))
			}
		}
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// take gives the files that have come up to now.
func (i *inbox) take() []*os.File {
	files := i.files
	i.files = nil
	return files
}
