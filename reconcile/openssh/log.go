package openssh

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// log is what one ssh says about itself, apart from what the command says: a named pipe, so that it is heard at once.
type log struct {
	file    string
	r, w    *os.File // w is ours, so that the pipe has an end only when we say so
	reading sync.WaitGroup
	seen    events
}

// events are what an ssh has said.
type events struct {
	authenticated    bool // the host has let us in; the command may run from now on
	exited, signaled bool // the host has told how the command ended
	notes            []string
}

func newLog() (*log, error) {
	dir, err := os.MkdirTemp("", "stado-ssh-*")
	if err != nil {
		return nil, err
	}
	l := &log{file: filepath.Join(dir, "log")}
	if err = syscall.Mkfifo(l.file, 0o600); err == nil {
		l.r, err = os.OpenFile(l.file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err == nil {
		l.w, err = os.OpenFile(l.file, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		l.remove()
		return nil, err
	}
	return l, nil
}

func (l *log) remove() {
	for _, f := range []*os.File{l.r, l.w} {
		if f != nil {
			_ = f.Close() // w may be closed already
		}
	}
	_ = os.RemoveAll(filepath.Dir(l.file)) // it holds nothing any more
}

// follow reads until [log.end]; in is called once the host has let us in.
func (l *log) follow(in func()) {
	l.reading.Go(func() {
		lines := bufio.NewScanner(l.r)
		for lines.Scan() {
			before := l.seen.authenticated
			l.seen.hear(strings.TrimRight(lines.Text(), "\r"))
			if l.seen.authenticated && !before {
				in()
			}
		}
	})
}

// lingering is how long a helper that ssh has left behind may hold the log.
const lingering = 5 * time.Second

// end is called when ssh has ended, and gives everything that it has said.
func (l *log) end() events {
	_ = l.w.Close()
	_ = l.r.SetReadDeadline(time.Now().Add(lingering))
	l.reading.Wait()
	return l.seen
}

// hear takes one line of an ssh at its level DEBUG1.
func (e *events) hear(line string) {
	text, debug := strings.CutPrefix(line, "debug1: ")
	switch {
	case debug && e.authenticated && strings.Contains(text, "rtype exit-status"):
		e.exited = true
	case debug && e.authenticated && strings.Contains(text, "rtype exit-signal"):
		e.signaled = true
	case debug, strings.HasPrefix(line, "Transferred: "), strings.HasPrefix(line, "Bytes per second: "), strings.TrimSpace(line) == "":
	case strings.HasPrefix(line, "Authenticated to "):
		e.authenticated = true
	case len(e.notes) < maxNotes:
		e.notes = append(e.notes, line)
	default:
		e.notes[maxNotes-1] = line // the last one is the cause
	}
}

const maxNotes = 100

// last is the line that ssh ended with.
func (e events) last() string {
	if len(e.notes) == 0 {
		return ""
	}
	return e.notes[len(e.notes)-1]
}
