package status

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"stado.internal/stado/reconcile/durable"
)

// coalesce is the least time between two writes of one document. The first change is written at once; 20 ms keeps a stream of 500
// changes a second under a tenth of a core.
const coalesce = 20 * time.Millisecond

// Publisher keeps one document of a process and the file that shows it to others. The document is made by a function whenever somebody
// asks, so it is never older than the moment of asking; the file follows [Publisher.Touch] by one coalescing writer: one write in
// flight, the newest state wins. A file that cannot be written is logged and does not disturb the process.
type Publisher[T any] struct {
	name   string
	file   *durable.Ready // of the goroutine in Run
	source func() T
	log    *slog.Logger

	wake chan struct{}

	mu      sync.Mutex
	pending []func() // run after the next write
}

// Option changes how a [Publisher] writes.
type Option func(*writing)

type writing struct{ sync bool }

// Synced makes every write survive a crash of the machine, and cost what that costs. Without it readers never see a torn file either.
func Synced() Option { return func(w *writing) { w.sync = true } }

// NewPublisher makes a publisher of the file name in folder. source must be safe for concurrent use; its value is written as indented
// JSON with mode 0644.
func NewPublisher[T any](folder durable.Folder, name string, source func() T, log *slog.Logger, options ...Option) *Publisher[T] {
	var w writing
	for _, o := range options {
		o(&w)
	}
	return &Publisher[T]{name: name, file: folder.Ready(name, 0o644, w.sync), source: source, log: log, wake: make(chan struct{}, 1)}
}

// Load makes the document as of now.
func (p *Publisher[T]) Load() T { return p.source() }

// Touch says that the document changed. The functions run, on the writer's goroutine, after a write that began later than this call;
// they run even when that write failed. Touch never blocks.
func (p *Publisher[T]) Touch(then ...func()) {
	if len(then) > 0 {
		p.mu.Lock()
		p.pending = append(p.pending, then...)
		p.mu.Unlock()
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run writes the file after every touch until ctx ends, and then once more, so that the last state is on disk when it returns. It needs
// no descriptor after its start. It may be called once.
func (p *Publisher[T]) Run(ctx context.Context) error {
	defer func() { _ = p.file.Close() }() // what may stay behind is an empty temporary file, which the next start removes
	_ = p.file.Prepare()                  // the first write tries again, and says what is wrong
	failing := ""
	for {
		select {
		case <-ctx.Done():
			p.write(&failing)
			return nil
		case <-p.wake:
		}
		p.write(&failing)
		select {
		case <-ctx.Done():
		case <-time.After(coalesce):
		}
	}
}

// write takes the waiting functions before it makes the document, so that whatever was true when they were added is in the file.
func (p *Publisher[T]) write(failing *string) {
	p.mu.Lock()
	then := p.pending
	p.pending = nil
	p.mu.Unlock()
	data, err := json.MarshalIndent(p.source(), "", "  ")
	if err == nil {
		err = p.file.Write(append(data, '\n'))
	}
	switch {
	case err == nil:
		*failing = ""
	case err.Error() != *failing:
		*failing = err.Error()
		p.log.Error(sayNotPublished(p.name, err))
	}
	for _, f := range then {
		f()
	}
}
