// Package catfile reads what `git cat-file --batch` and `--batch-check` answer: for each name that was asked for a header `ID KIND SIZE`,
// behind which --batch gives the object's bytes and a line break, or a line that says why there is no object, `NAME missing`.
package catfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// Header is what git says of an object before it gives it.
type Header struct {
	ID   string
	Kind string // blob, tree, commit or tag
	Size int64  // bytes, never negative
}

// String is the header as git writes it, without the line break.
func (h Header) String() string { return h.ID + " " + h.Kind + " " + strconv.FormatInt(h.Size, 10) }

// ErrLarge says that an object has more bytes than the caller takes.
var ErrLarge = errors.New("the object is larger than what is read")

var errNoEnd = errors.New("the object does not end where its header says")

// AnswerError is an answer that is no object.
type AnswerError struct {
	Line string // what git says, without the line break
	// Missing tells that no object has the name, or more than one, from an answer that git does not give.
	Missing bool
}

// Error quotes git.
func (e *AnswerError) Error() string { return "git cat-file says " + strconv.Quote(e.Line) }

// maxLine bounds a line. The longest repeat a name that was asked for, with a path in it; those that git can check out have at most 4,096
// bytes. It is also what a reader keeps in memory: as much as a pipe holds.
const maxLine = 64 << 10

// Reader takes apart what one process of git writes. It is not safe for concurrent use.
type Reader struct {
	from *bufio.Reader
	over int64 // bytes of an object that was too large: they come before the next header
}

// NewReader reads from the output of git. It reads ahead.
func NewReader(git io.Reader) *Reader { return &Reader{from: bufio.NewReaderSize(git, maxLine)} }

// Header reads an answer of --batch-check. The error is an [*AnswerError], and the next answer can be read behind one that is Missing; or
// that of the reader: [io.EOF] when git has ended, and [io.ErrUnexpectedEOF] in the middle of an answer.
func (r *Reader) Header() (Header, error) {
	if r.over > 0 {
		if _, err := io.CopyN(io.Discard, r.from, r.over); err != nil {
			return Header{}, cut(err)
		}
		r.over = 0
	}
	line, err := r.from.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return Header{}, &AnswerError{Line: string(line[:100]) + "…"}
	case err != nil && len(line) > 0:
		return Header{}, cut(err)
	case err != nil:
		return Header{}, err
	}
	return parse(line[:len(line)-1])
}

// Object reads an answer of --batch. Errors are those of [Reader.Header]; and [ErrLarge] for an object of more than limit bytes, which is
// passed over. The header is there as soon as it was read, whatever comes behind it.
func (r *Reader) Object(limit int64) (Header, []byte, error) {
	h, err := r.Header()
	switch {
	case err != nil:
		return h, nil, err
	case h.Size > limit:
		r.over = h.Size + 1 // the line break
		return h, nil, ErrLarge
	}
	data := make([]byte, h.Size)
	if _, err := io.ReadFull(r.from, data); err != nil {
		return h, nil, cut(err)
	}
	if end, err := r.from.ReadByte(); err != nil {
		return h, nil, cut(err)
	} else if end != '\n' {
		return h, nil, errNoEnd
	}
	return h, data, nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parse reads a line. What git says in the place of an object ends with one word, and begins with the name, in which there may be spaces.
func parse(line []byte) (Header, error) {
	at := bytes.LastIndexByte(line, ' ')
	switch last := line[at+1:]; string(last) {
	case "missing", "ambiguous", "submodule":
		return Header{}, &AnswerError{Line: string(line), Missing: true}
	default:
		id, kind, ok := bytes.Cut(line[:max(at, 0)], []byte(" "))
		size, err := strconv.ParseUint(string(last), 10, 62)
		if name := kindOf(kind); ok && len(id) > 0 && name != "" && err == nil {
			return Header{ID: string(id), Kind: name, Size: int64(size)}, nil
		}
	}
	return Header{}, &AnswerError{Line: string(line)}
}

// kindOf costs no memory for each object.
func kindOf(kind []byte) string {
	for _, k := range []string{"blob", "tree", "commit", "tag"} {
		if string(kind) == k {
			return k
		}
	}
	return ""
}
