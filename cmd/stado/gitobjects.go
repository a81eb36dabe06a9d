package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"stado.internal/stado/reconcile/catfile"
)

// gitObjects reads objects of a repository through one git process, since starting one for each object costs far more than reading it. One
// caller at a time may ask; whoever opened it closes it.
type gitObjects struct {
	dir string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *catfile.Reader
	// words is what git says of itself; complete once the process has been waited for.
	words *bytes.Buffer
}

// maxObject bounds what one object may take of this process: a tree of a fleet's files is far below it, and so is the file that is read.
const maxObject = 64 << 20

type gitObject struct {
	id, kind string
	data     []byte
}

// errNoObject says that nothing in the repository has the name that was asked for.
var errNoObject = errors.New("the repository has no such object")

// objects opens the repository for reading until the context ends.
func (g gitRepository) objects(ctx context.Context) (*gitObjects, error) {
	cmd := g.command(ctx, gitCall{args: []string{"cat-file", "--batch"}})
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	words := &bytes.Buffer{}
	cmd.Stderr = words
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot run git cat-file in %s: %w", g.dir, err)
	}
	return &gitObjects{dir: g.dir, cmd: cmd, in: in, out: catfile.NewReader(out), words: words}, nil
}

// close ends the process, and may be called again. How it ended says nothing: whatever it answered was whole.
func (o *gitObjects) close() {
	_ = o.in.Close()
	_ = o.cmd.Wait()
}

// read gives the object that a revision names: HEAD, FETCH_HEAD^{commit}, COMMIT:PATH. Names are looked up anew each time.
func (o *gitObjects) read(ctx context.Context, name string) (gitObject, error) {
	found, err := o.ask(name)
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return found, ctx.Err()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE): // git has ended, and says why
		o.close()
		err = fmt.Errorf("git cat-file has ended: %s", trimmed(o.words.Bytes()))
	}
	return found, fmt.Errorf("cannot read %s in %s: %w", name, o.dir, err)
}

func (o *gitObjects) ask(name string) (gitObject, error) {
	if strings.Contains(name, "\n") {
		return gitObject{}, errors.New("a name has no line break") // it would be two questions
	}
	if _, err := io.WriteString(o.in, name+"\n"); err != nil {
		return gitObject{}, err
	}
	h, data, err := o.out.Object(maxObject)
	answer, isAnswer := errors.AsType[*catfile.AnswerError](err)
	switch {
	case isAnswer && answer.Missing:
		return gitObject{}, errNoObject
	case errors.Is(err, catfile.ErrLarge):
		return gitObject{}, fmt.Errorf("it has %d bytes, and at most %d are read", h.Size, maxObject)
	}
	return gitObject{id: h.ID, kind: h.Kind, data: data}, err
}

// blob is a file of a commit.
func (o *gitObjects) blob(ctx context.Context, commit, path string) ([]byte, error) {
	file, err := o.read(ctx, commit+":"+path)
	if err == nil && file.kind != "blob" {
		err = errNoObject
	}
	if errors.Is(err, errNoObject) {
		err = fmt.Errorf("commit %.12s has no file %s", commit, path)
	}
	return file.data, err
}

// whole fails when the history of a commit is not all here, as in a shallow clone: what a parent held is not known then.
func (o *gitObjects) whole(ctx context.Context, commit string) error {
	text, err := o.read(ctx, commit)
	if err != nil {
		return err
	}
	head, _, _ := strings.Cut(string(text.data), "\n\n")
	for line := range strings.Lines(head) {
		parent, ok := strings.CutPrefix(line, "parent ")
		if !ok {
			continue
		}
		switch _, err := o.read(ctx, strings.TrimSpace(parent)); {
		case errors.Is(err, errNoObject):
			return fmt.Errorf("the history of %s ends at commit %.12s (fetch all of it: git fetch --unshallow, or fetch-depth: 0 in a workflow)", o.dir, commit)
		case err != nil:
			return err
		}
	}
	return nil
}

// withEntry is a tree in which the entry of that name, which keeps its mode, is another object. A tree is MODE SP NAME NUL and the bytes of
// the object id, entry after entry.
func withEntry(tree []byte, name, id string) ([]byte, error) {
	raw, err := hex.DecodeString(id)
	if err != nil {
		return nil, err
	}
	for at := 0; at < len(tree); {
		head, _, ok := bytes.Cut(tree[at:], []byte{0})
		start := at + len(head) + 1
		_, entry, named := strings.Cut(string(head), " ")
		if !ok || !named || start+len(raw) > len(tree) {
			return nil, errors.New("the tree is damaged (run git fsck)")
		}
		if entry == name {
			return slices.Replace(slices.Clone(tree), start, start+len(raw), raw...), nil
		}
		at = start + len(raw)
	}
	return nil, fmt.Errorf("the tree has no entry %s", name)
}
