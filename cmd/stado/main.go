// Command stado runs and inspects a fleet of plain hosts whose declared state is a CUE registry in a git repository.
//
// Output grammar: stdout is the answer, stderr the story. `--json` prints one JSON value on stdout. Exit codes: 0 done or ready,
// 1 refused or not ready, 2 usage, 69 transient, 75 a compare-and-swap was lost.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var coded *exitError
	if !errors.As(err, &coded) {
		// What cobra itself refuses (an unknown verb, a missing argument) is a mistake in the command line.
		coded = &exitError{code: exitUsage, err: err}
	}
	switch {
	case coded.err == nil:
	case coded.err.Error() == context.Canceled.Error():
		fmt.Fprintln(stderr, "stado: "+sayInterrupted)
	default:
		fmt.Fprintln(stderr, "stado: "+coded.err.Error())
	}
	if coded.code == exitUsage {
		fmt.Fprintln(stderr, "Run the command with --help for its usage.")
	}
	return coded.code
}

// sayInterrupted is what is left to say of a command that a signal ended.
const sayInterrupted = "interrupted"

// Exit codes.
const (
	exitOK        = 0
	exitRefused   = 1
	exitUsage     = 2
	exitTransient = 69
	exitConflict  = 75
)

// exitError carries an exit code up to main. A nil err ends silently: the answer on stdout has said it all.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func refused(err error) error   { return &exitError{code: exitRefused, err: err} }
func misused(err error) error   { return &exitError{code: exitUsage, err: err} }
func transient(err error) error { return &exitError{code: exitTransient, err: err} }
func conflict(err error) error  { return &exitError{code: exitConflict, err: err} }

// notReady ends with exit code 1 and no further line.
func notReady() error { return &exitError{code: exitRefused} }
