package adapter

import (
	"errors"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// bufferSize is one read of small traffic.
	bufferSize = 64 << 10
	// residentSize is what a source without a descriptor reads into while it may be idle.
	residentSize = 4 << 10
	// bulkRead is the least read that counts as bulk: smaller ones are requests and answers, for which a pipe costs as much as a copy.
	bulkRead = 16 << 10
	// bulkStart is how much a direction moves in bulk reads, one after the other, before it takes pipes.
	bulkStart = 512 << 10
)

// side tells which end of a direction stopped it.
type side uint8

const (
	source  side = iota // the end of its stream, or a failed read
	sink                // a failed write
	refused             // the first byte was not wanted any more
)

// direction copies from one stream to another. While it waits for bytes it holds neither a buffer nor a pipe, so that an idle relay costs
// its two descriptors and two small stacks; a buffer, or in bulk a pipe, is taken when bytes are there and given back when they are gone.
type direction struct {
	from, to *stream
	shared   *copying
	first    func() bool // called before the first bytes go on; false stops the direction
	// blocked, when set, is told when the sink begins to stand and when it moves again.
	blocked func(bool)

	// What is between the two ends now.
	n      int // bytes
	buffer *[bufferSize]byte
	off    int // of the bytes in buffer
	pipe   *pipe

	err      error // of the last callback
	burst    int   // bytes moved in bulk reads since the last small one
	noSplice bool  // the kernel refused it for these ends
	resident []byte
	eager    bool // a source without a descriptor filled its last buffer
	stood    bool

	// The callbacks are made once: a closure per wait would be garbage per request.
	onReadable, onWritable func(uintptr) bool
}

// copying is what the directions of a process share.
type copying struct {
	buffers sync.Pool // of *[bufferSize]byte
	pipes   *pipes
	stats   counters
}

func newCopying(wake func()) *copying {
	return &copying{
		buffers: sync.Pool{New: func() any { return new([bufferSize]byte) }},
		pipes:   newPipes(wake),
	}
}

// run copies until one side stops it. The source with a nil error is the end of its stream, all of which was passed on.
func (d *direction) run() (side, error) {
	d.onReadable, d.onWritable = d.readable, d.writable
	begun := false
	for {
		if err := d.fill(); err != nil {
			return source, err
		}
		if d.n == 0 {
			d.release()
			return source, d.from.severed()
		}
		if !begun && !d.first() {
			d.release()
			return refused, nil
		}
		begun = true
		d.account()
		if err := d.flush(); err != nil {
			return sink, err
		}
	}
}

func (d *direction) account() {
	d.shared.stats.bytes.Add(uint64(d.n))
	if d.pipe != nil {
		d.shared.stats.spliced.Add(uint64(d.n))
		d.shared.stats.splices.Add(1)
	}
	if d.n < bulkRead {
		d.burst = 0
	} else if d.burst < bulkStart {
		d.burst += d.n
	}
}

func (d *direction) bulk() bool {
	return d.burst >= bulkStart && !d.noSplice && d.from.raw != nil && d.to.raw != nil
}

// fill waits for bytes and takes them. n is 0 at the end of the stream.
func (d *direction) fill() error {
	d.n, d.off, d.err = 0, 0, nil
	if d.from.raw == nil {
		return d.fillOpaque()
	}
	if err := d.from.raw.Read(d.onReadable); err != nil {
		return err
	}
	return d.err
}

// readable runs whenever the source may have bytes; false waits until it may again.
func (d *direction) readable(fd uintptr) bool {
	if d.bulk() {
		if done, spliced := d.spliceIn(int(fd)); spliced {
			return done
		}
	}
	d.buffer = d.shared.buffers.Get().(*[bufferSize]byte)
	for {
		n, err := unix.Read(int(fd), d.buffer[:])
		switch {
		case err == nil:
			d.n = n
			return true
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			d.release()
			return false
		}
		d.err = err
		d.release()
		return true
	}
}

// fillOpaque reads from a source that has no descriptor of its own: a small resident buffer while it may be idle, a pooled one after a
// full read.
func (d *direction) fillOpaque() error {
	if d.resident == nil {
		d.resident = make([]byte, residentSize)
	}
	into := d.resident
	if d.eager {
		d.buffer = d.shared.buffers.Get().(*[bufferSize]byte)
		into = d.buffer[:]
	}
	var err error
	d.n, err = d.from.Read(into)
	d.eager = d.n >= residentSize
	if d.n > 0 || errors.Is(err, io.EOF) {
		return nil // an error that came with bytes comes again
	}
	d.release()
	return err
}

// flush passes on what fill took and gives the buffer or the pipe back.
func (d *direction) flush() error {
	defer d.moving()
	if d.to.raw == nil {
		return d.flushOpaque()
	}
	for d.n > 0 {
		if err := d.to.raw.Write(d.onWritable); err != nil {
			d.err = err
		}
		if d.err != nil {
			d.release()
			return d.err
		}
	}
	d.release()
	return nil
}

func (d *direction) flushOpaque() error {
	d.standing()
	_, err := d.to.Write(d.bytes())
	d.n = 0
	d.release()
	return err
}

func (d *direction) bytes() []byte {
	if d.buffer != nil {
		return d.buffer[d.off : d.off+d.n]
	}
	return d.resident[d.off : d.off+d.n]
}

// writable runs whenever the sink may take bytes; false waits until it may again.
func (d *direction) writable(fd uintptr) bool {
	for d.n > 0 {
		n, err := d.put(int(fd))
		if n > 0 {
			d.n -= n
			d.off += n
		}
		switch {
		case err == nil, errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			d.standing()
			return false
		default:
			d.err = err
			return true
		}
	}
	return true
}

// put writes once. It keeps a failure together with the write that took it off the socket, so that the reader of the other direction
// never sees the one without the other.
func (d *direction) put(fd int) (n int, err error) {
	d.to.writing.Lock()
	defer d.to.writing.Unlock()
	if d.pipe != nil {
		n, err = d.pipe.out(fd, d.n)
	} else {
		n, err = unix.Write(fd, d.bytes())
	}
	if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
		d.to.keep(err)
	}
	return n, err
}

func (d *direction) standing() {
	if !d.stood && d.blocked != nil {
		d.stood = true
		d.blocked(true)
	}
}

func (d *direction) moving() {
	if d.stood {
		d.stood = false
		d.blocked(false)
	}
}

// release gives back what the direction holds. A pipe with bytes left in it is closed: they belong to nobody else.
func (d *direction) release() {
	if d.buffer != nil {
		d.shared.buffers.Put(d.buffer)
		d.buffer = nil
	}
	if d.pipe != nil {
		d.shared.pipes.give(d.pipe, d.n == 0)
		d.pipe = nil
	}
}
