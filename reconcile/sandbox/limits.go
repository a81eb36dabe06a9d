package sandbox

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound one child. A zero field means that default of [DefaultLimits]; there is no way to ask for no limit.
type Limits struct {
	Data   uint64        `json:"data"`   // RLIMIT_DATA of the child and of every process it starts, bytes
	CPU    time.Duration `json:"cpu"`    // RLIMIT_CPU, hard, rounded up to whole seconds
	Wall   time.Duration `json:"wall"`   // from start to reply; the parent kills the process group when it is over
	Output int64         `json:"output"` // size of the reply, bytes
	File   uint64        `json:"file"`   // RLIMIT_FSIZE: the largest single file the child may write, bytes
	Stderr int           `json:"-"`      // bytes of the child's stderr that an error may carry: half from its start, half from its end
}

// DefaultLimits are the limits of a production child.
//
// Data holds a whole-registry evaluation of some 2,500 hosts (0.13 MB each, measured) with room for the collector, and is less than what
// indexing a pack with one 512 MiB blob takes. CPU is twice what evaluating 10,000 hosts takes. Output is more than twice the largest
// document that is accepted, which the schema bounds; a reply is held once as bytes and once decoded while it is read, so a child that
// was taken over can make the agent grow by twice Output and no more. File is four times the largest registry that is read.
func DefaultLimits() Limits {
	return Limits{Data: 512 << 20, CPU: 20 * time.Second, Wall: 60 * time.Second, Output: 32 << 20, File: 256 << 20, Stderr: 16 << 10}
}

func (l Limits) filled() Limits {
	d := DefaultLimits()
	if l.Data == 0 {
		l.Data = d.Data
	}
	if l.CPU <= 0 {
		l.CPU = d.CPU
	}
	if l.Wall <= 0 {
		l.Wall = d.Wall
	}
	if l.Output <= 0 {
		l.Output = d.Output
	}
	if l.File == 0 {
		l.File = d.File
	}
	if l.Stderr <= 0 {
		l.Stderr = d.Stderr
	}
	return l
}

// descriptors is enough for a store of fifty packs, a connection and a git process.
const descriptors = 256

func (l Limits) cpuSeconds() uint64 { return uint64(math.Ceil(l.CPU.Seconds())) }

// apply sets the limits on the calling process. RLIMIT_AS is left alone: Go reserves far more address space than it uses. The soft
// CPU limit equals the hard one because the soft limit's SIGXCPU does not end a Go program.
func (l Limits) apply() error {
	for _, r := range []struct {
		name     string
		resource int
		value    uint64
	}{
		{"core", unix.RLIMIT_CORE, 0},
		{"file size", unix.RLIMIT_FSIZE, l.File},
		{"descriptor", unix.RLIMIT_NOFILE, descriptors},
		{"CPU", unix.RLIMIT_CPU, l.cpuSeconds()},
		{"memory", unix.RLIMIT_DATA, l.Data},
	} {
		value := r.value
		var now unix.Rlimit
		if err := unix.Getrlimit(r.resource, &now); err == nil && now.Max < value {
			value = now.Max // the machine's own limit is tighter, and only root could raise it
		}
		if err := unix.Setrlimit(r.resource, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("cannot set the %s limit of the evaluation: %w", r.name, err)
		}
	}
	// Most children are gone before their garbage matters: the collector may be lazy, as long as there is room.
	debug.SetGCPercent(200)
	// The collector starts to work hard before the hard limit is met, and a runaway recursion ends while there is room to say so.
	debug.SetMemoryLimit(int64(l.Data / 4 * 3))
	debug.SetMaxStack(int(l.Data / 4))
	// When the machine runs out of memory, this process is the one to lose. A kernel that hides the file only loses that preference.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o644)
	return nil
}

// wornShare is the share of a limit of which a process that has used it takes no further task.
const wornShare = 8

// worn reports whether this process has used so much of its limits that a further task could meet one where it would not in a new process.
func (l Limits) worn() bool {
	used := time.Duration(0)
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			return true
		}
		used += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	memory := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(memory)
	return used >= l.CPU/wornShare || memory[0].Value.Uint64() >= l.Data/wornShare
}

// process are the limits that a process keeps for its life; the others hold for one task.
func (l Limits) process() Limits {
	l = l.filled()
	return Limits{Data: l.Data, CPU: l.CPU, File: l.File}
}
