package sandbox

import (
	"fmt"
	"strings"
	"time"
)

func sayLimit(e *LimitError) string {
	var b strings.Builder
	fmt.Fprintf(&b, "evaluation limit: %s", e.Limit)
	if e.Detail != "" {
		fmt.Fprintf(&b, " (%s)", e.Detail)
	}
	fmt.Fprintf(&b, ", %s", e.Bound)
	if e.Phase != "" {
		fmt.Fprintf(&b, ", in phase %s", e.Phase)
	}
	if e.File != "" {
		fmt.Fprintf(&b, ", last begun %s", e.File)
	}
	return b.String()
}

func sayCrash(e *CrashError) string {
	s := fmt.Sprintf("the evaluation process ended without a reply (%s)", e.State)
	if e.Phase != "" {
		s += ", in phase " + e.Phase
	}
	if e.File != "" {
		s += ", last begun " + e.File
	}
	if line := e.Cause(); line != "" {
		s += ": " + line
	}
	return s
}

// bound is a limit's value for a sentence.
func (l Limits) bound(name string) string {
	switch name {
	case LimitCPU:
		return sayDuration(time.Duration(l.cpuSeconds()) * time.Second)
	case LimitMemory:
		return sayBytes(l.Data)
	case LimitTime:
		return sayDuration(l.Wall)
	case LimitOutput:
		return sayBytes(uint64(l.Output))
	case LimitFile:
		return sayBytes(l.File)
	}
	return "unknown"
}

func sayBytes(n uint64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

func sayDuration(d time.Duration) string {
	if d >= time.Second && d%time.Second == 0 {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return d.String()
}
