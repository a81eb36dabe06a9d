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
	"os/signal"
	"syscall"
)

// Task does one kind of work in the child. p reports what has been begun; it must be called before each step that may not end. The
// error should be a [*TaskError]; another one arrives at the parent as a TaskError without a kind.
type Task func(ctx context.Context, request json.RawMessage, p func(Progress)) (reply any, err error)

// header is the first line of a child's stdin; Size bytes of request follow it.
type header struct {
	Task   string `json:"task"`
	Limits Limits `json:"limits"`
	Size   int    `json:"size"`
}

// A reply is one frame: its status, the size of its JSON and of its attachment in eight bytes each, then the two.
const (
	frameHead  = 17
	frameReply = 'r' // the task's reply
	frameError = 'e' // a TaskError
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

// Serve is the child's side: it limits this process, does the one task that stdin asks for, writes the reply to stdout and returns
// the exit code. The hidden verb of the command line calls it with the process's own stdin and stdout and with descriptor 3.
func Serve(ctx context.Context, stdin io.Reader, stdout, progress io.Writer, tasks map[string]Task) int {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return protocolFailure(fmt.Errorf("no request: %w", err))
	}
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return protocolFailure(err)
	}
	if err := h.Limits.filled().apply(); err != nil {
		return protocolFailure(err)
	}
	signal.Ignore(syscall.SIGXFSZ) // a write past the file limit then fails with EFBIG
	request := make([]byte, h.Size)
	if _, err := io.ReadFull(in, request); err != nil {
		return protocolFailure(fmt.Errorf("the request is cut: %w", err))
	}
	task, ok := tasks[h.Task]
	if !ok {
		return answer(stdout, frameError, &TaskError{Message: fmt.Sprintf("unknown task %q (parent and child are different versions)", h.Task)})
	}
	reply, err := task(ctx, request, reporter(progress))
	if err != nil {
		return answer(stdout, frameError, asTaskError(err))
	}
	return answer(stdout, frameReply, reply)
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

// reporter writes progress lines. Nobody reading them is no reason to stop.
func reporter(w io.Writer) func(Progress) {
	enc := json.NewEncoder(w)
	return func(p Progress) { _ = enc.Encode(p) }
}

func answer(stdout io.Writer, status byte, v any) int {
	var body bytes.Buffer
	body.Write(make([]byte, frameHead))
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return protocolFailure(fmt.Errorf("cannot encode the reply: %w", err))
	}
	var attachment []byte
	if a, ok := v.(Attached); ok {
		attachment = *a.Attachment()
	}
	frame := body.Bytes()
	frame[0] = status
	binary.BigEndian.PutUint64(frame[1:], uint64(len(frame)-frameHead))
	binary.BigEndian.PutUint64(frame[9:], uint64(len(attachment)))
	for _, part := range [][]byte{frame, attachment} {
		if _, err := stdout.Write(part); err != nil {
			return protocolFailure(err)
		}
	}
	return exitDone
}
