// Package sandboxtest gives tests the child program that a sandbox starts, built as a release is.
//
// A test binary cannot be its own child: built with the race detector it needs far more memory than the limits allow.
package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// builds remembers the programs that this test process has built. It is state of a test process only: without it every test would link
// the same program again.
var builds struct {
	sync.Mutex
	path map[string]string
}

// Binary is the path of the stado program, built once per test process without cgo and without the race detector.
func Binary(t testing.TB) string {
	t.Helper()
	return Build(t, "stado.internal/stado/cmd/stado")
}

// Build is the path of a main package, built once per test process without cgo and without the race detector; flags go to the go command,
// and are the same for a package whenever it is asked for. The path is valid until the test process ends and needs no cleaning up.
func Build(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	if path, ok := builds.path[pkg]; ok {
		return path
	}
	path, err := build(pkg, flags)
	if err != nil {
		t.Fatal(err)
	}
	if builds.path == nil {
		builds.path = map[string]string{}
	}
	builds.path[pkg] = path
	return path
}

// build has the go command link pkg, or give what it has linked of the same source before, also for another test process: go run keeps the
// programs that it runs by their content, as go build does not. Here it runs cp, so that there is a program to open. The copy is unlinked
// at once: what stays is this process's descriptor, so that nothing is left behind even when the test process is killed.
func build(pkg string, flags []string) (string, error) {
	dir, err := os.MkdirTemp("", "stado-build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "program")
	cmd := exec.Command("go", append(append([]string{"run", "-buildvcs=false", "-exec", "cp -T --"}, flags...), pkg, file)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	fd := f.Fd()
	keep(f)
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), nil
}

// kept holds the descriptors of built programs open: a collected file would close its descriptor.
var kept []*os.File

func keep(f *os.File) { kept = append(kept, f) }
