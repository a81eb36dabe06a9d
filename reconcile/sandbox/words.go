package sandbox

import (
	"bytes"
	"strings"
)

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
