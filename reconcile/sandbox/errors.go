package sandbox

import "strings"

// The limits that a [LimitError] names.
const (
	LimitCPU    = "cpu"
	LimitMemory = "memory"
	LimitTime   = "time"
	LimitOutput = "output"
	LimitFile   = "file"
)

// LimitError says that the work was ended because it would not stay within a limit. It speaks of the work, not of this program.
type LimitError struct {
	Limit   string // one of the Limit constants
	Bound   string // the limit's value, as in "512 MiB"
	Detail  string // what is known beyond the limit, as in "stack"; often empty
	Phase   string // last phase begun; empty when none was
	File    string // last file begun (for a pack: the remote); empty when none was
	Outside bool   // somebody else ended the work, most likely the kernel for want of memory
}

// Transient reports whether the same work may well pass next time, because the state of the machine had a part in its end.
func (e *LimitError) Transient() bool { return e.Outside || e.Limit == LimitTime }

// Repeats reports whether the same work meets the same limit again on any machine. Memory and processor time that work needs also depend
// on when the collector runs and on what shares the processor, so work near such a limit may pass another time.
func (e *LimitError) Repeats() bool {
	return !e.Outside && (e.Limit == LimitOutput || e.Limit == LimitFile)
}

// Error is `evaluation limit: memory, 512 MiB, in phase evaluation, last begun hosts/a1.cue`.
func (e *LimitError) Error() string { return sayLimit(e) }

// CrashError says that the child ended in a way that no limit explains: a defect of this program or of a library.
type CrashError struct {
	State  string // how the process ended, as in "exit status 2"
	Phase  string // last phase begun; empty when none was
	File   string // last file begun; empty when none was
	Stderr string // start and end of what the child wrote to stderr
}

// Error names the state, the place and the first telling line of stderr.
func (e *CrashError) Error() string { return sayCrash(e) }

// Cause is the first line of stderr that names the reason; empty when there is none.
func (e *CrashError) Cause() string {
	first := ""
	for line := range strings.Lines(e.Stderr) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return clip(line, 300)
		}
		if first == "" {
			first = line
		}
	}
	return clip(first, 300)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// TaskError is a failure that a [Task] reports in its own words; it crosses the pipe unchanged. What the words mean is between the
// task and its caller.
type TaskError struct {
	Kind    string `json:"kind,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Remote  string `json:"remote,omitempty"`
	Message string `json:"message"`
}

// Error is the message alone.
func (e *TaskError) Error() string { return e.Message }
