// Package openssh runs commands on a host by OpenSSH's ssh program, along the host's ordered paths. What an operator has told ssh in its
// configuration (jump hosts, host names, keys) holds; what would share a connection or forward something does not.
package openssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"stado.internal/stado/reconcile/remote"
)

// Program is the ssh that is looked for on the PATH.
const Program = "ssh"

// DefaultDeadline is how long a host may take from the start of ssh until it has let us in.
const DefaultDeadline = 30 * time.Second

// connectTimeout is what ssh itself grants to a connection and the greeting, in seconds.
const connectTimeout = 15

// Channel is the way to one host. It is a value.
type Channel struct {
	Host  string        // for sentences
	Paths []remote.Path // tried in order
	// Local: the host is this machine, so that commands run here, without ssh and in this user's home directory.
	Local bool
	// Identity is a private key, offered alone. Empty means what ssh itself finds.
	Identity string
	// KnownHosts is a file with the only host keys that are trusted; it is never written. Empty means ssh's own files, to which ssh adds
	// the key of a host that it meets for the first time. A changed key is refused either way.
	KnownHosts string
	// Strict: no host key is learned, whatever files are read.
	Strict bool
	// Config is a configuration of ssh that is read in place of the user's.
	Config   string
	Deadline time.Duration // until the host has let us in; 0 means [DefaultDeadline]
	// Avoid says why a path must not be used now, or "". Nil avoids none.
	Avoid func(remote.Path) string
}

// Command is a line for the shell of the host's account, with its streams.
type Command struct {
	Line string
	// Stdin gives the input from its start, once for every path that is tried; nil means no input. A path that does not connect reads
	// nothing of a file.
	Stdin          func() io.Reader
	Stdout, Stderr io.Writer
}

// Exit is how a command ended.
type Exit struct {
	Path     string   // the one that connected; "local" on this machine
	Status   int      // the command's own exit status; 255 when it was ended by a signal
	Signaled bool     // it was ended by a signal
	Notes    []string // what ssh had to say meanwhile, such as that it learned a host key
}

// Unreachable is the error when no path let us in: nothing has run.
type Unreachable struct {
	Host   string
	Causes []Cause
}

// Cause is why one path did not connect.
type Cause struct{ Path, Sentence string }

// Error is one sentence with the cause of every path.
func (e *Unreachable) Error() string { return sayUnreachable(e) }

// Lost is the error when a connection ended before the command did: whether it has done its work is not known.
type Lost struct{ Host, Path, Sentence string }

// Error is one sentence.
func (e *Lost) Error() string { return sayLost(e) }

// Args is the command line of ssh for one path, the program's name first.
func (c Channel) Args(p remote.Path, line string) ([]string, error) { return c.args(p, line, nil) }

func (c Channel) args(p remote.Path, line string, more []string) ([]string, error) {
	destination, err := remote.OpenSSH(p.Destination)
	if err != nil {
		return nil, err
	}
	out, err := c.command(more)
	if err != nil {
		return nil, err
	}
	return append(out, "--", destination, line), nil
}

// Git is the command line by which git reaches the host over ssh (GIT_SSH_COMMAND). git adds where to go.
func (c Channel) Git() ([]string, error) { return c.command(nil) }

func (c Channel) command(more []string) ([]string, error) {
	out := append([]string{Program, "-T"}, more...)
	if c.Config != "" {
		out = append(out, "-F", c.Config)
	}
	options := []string{
		"BatchMode=yes", fmt.Sprintf("ConnectTimeout=%d", connectTimeout), "ServerAliveInterval=15", "ServerAliveCountMax=4",
		// One connection of its own: how a shared one began is not seen.
		"ControlMaster=no", "ControlPath=none", "ClearAllForwardings=yes", "RemoteCommand=none",
	}
	switch {
	case c.KnownHosts != "":
		file, err := fileOption("UserKnownHostsFile", c.KnownHosts)
		if err != nil {
			return nil, err
		}
		options = append(options, "StrictHostKeyChecking=yes", "UpdateHostKeys=no", file, "GlobalKnownHostsFile=/dev/null")
	case c.Strict:
		options = append(options, "StrictHostKeyChecking=yes", "UpdateHostKeys=no")
	default:
		options = append(options, "StrictHostKeyChecking=accept-new")
	}
	if c.Identity != "" {
		file, err := fileOption("IdentityFile", c.Identity)
		if err != nil {
			return nil, err
		}
		options = append(options, file, "IdentitiesOnly=yes")
	}
	for _, o := range options {
		out = append(out, "-o", o)
	}
	return out, nil
}

// fileOption is an option of ssh whose value is one file: quoted, and with nothing that ssh would expand.
func fileOption(name, file string) (string, error) {
	if strings.ContainsAny(file, "\"\\$~\n\r") {
		return "", errors.New(sayBadFile(file))
	}
	return name + `="` + strings.ReplaceAll(file, "%", "%%") + `"`, nil
}

// Run runs a command along the first path that connects, and never twice. The error is an [*Unreachable], a [*Lost], the context's own,
// or says that ssh cannot be run here; a command that fails is an [Exit].
func (c Channel) Run(ctx context.Context, cmd Command) (Exit, error) {
	if c.Local {
		return runHere(ctx, cmd)
	}
	failed := &Unreachable{Host: c.Host}
	for _, p := range c.Paths {
		if c.Avoid != nil {
			if why := c.Avoid(p); why != "" {
				failed.Causes = append(failed.Causes, Cause{p.Name, why})
				continue
			}
		}
		exit, why, err := c.over(ctx, p, cmd)
		if err != nil || why == "" {
			return exit, err
		}
		failed.Causes = append(failed.Causes, Cause{p.Name, why})
	}
	return Exit{}, failed
}

// over tries one path. why says that it did not connect.
func (c Channel) over(ctx context.Context, p remote.Path, cmd Command) (_ Exit, why string, _ error) {
	log, err := newLog()
	if err != nil {
		return Exit{}, "", err
	}
	defer log.remove()
	argv, err := c.args(p, cmd.Line, []string{"-E", log.file, "-o", "LogLevel=DEBUG1"})
	if err != nil {
		return Exit{}, err.Error(), nil
	}
	deadline := c.Deadline
	if deadline <= 0 {
		deadline = DefaultDeadline
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(deadline, func() { cancel(errLate) })
	defer late.Stop()
	x := command(ctx, argv, cmd)
	if err := x.Start(); err != nil {
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errLate) {
			return Exit{}, "", context.Cause(ctx)
		}
		return Exit{}, "", errors.New(sayNoProgram(err))
	}
	log.follow(func() { late.Stop() })
	err = x.Wait()
	seen := log.end()
	status := x.ProcessState.ExitCode()
	switch {
	case seen.exited || seen.signaled || status >= 0 && status != failure:
		if err := copying(err); err != nil {
			return Exit{}, "", err
		}
		return Exit{Path: p.Name, Status: status, Signaled: seen.signaled, Notes: seen.notes}, "", nil
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errLate):
		return Exit{}, "", context.Cause(ctx)
	case !seen.authenticated && ctx.Err() != nil:
		return Exit{}, sayLate(deadline, seen.last()), nil
	case !seen.authenticated:
		return Exit{}, sayCause(seen), nil
	}
	return Exit{}, "", &Lost{Host: c.Host, Path: p.Name, Sentence: seen.last()}
}

// failure is how ssh ends when it has itself failed. A command may end so too, which only the log tells apart.
const failure = 255

var errLate = errors.New("the host did not let us in in time")

// runHere runs a command on this machine as ssh's server would: by a shell, at home.
func runHere(ctx context.Context, cmd Command) (Exit, error) {
	x := command(ctx, []string{"/bin/sh", "-c", cmd.Line}, cmd)
	x.Dir, _ = os.UserHomeDir() // without one, wherever we are
	err := x.Run()
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	if err := copying(err); err != nil {
		return Exit{}, err
	}
	exit := Exit{Path: "local", Status: x.ProcessState.ExitCode()}
	if exit.Status < 0 {
		exit.Status, exit.Signaled = failure, true
	}
	return exit, nil
}

// copying is what failed besides the command.
func copying(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// drain is how long a program that was told to end may take.
const drain = 5 * time.Second

func command(ctx context.Context, argv []string, cmd Command) *exec.Cmd {
	x := exec.CommandContext(ctx, argv[0], argv[1:]...)
	x.Cancel = func() error { return x.Process.Signal(syscall.SIGTERM) }
	x.WaitDelay = drain
	x.Stdout, x.Stderr = cmd.Stdout, cmd.Stderr
	if cmd.Stdin != nil {
		x.Stdin = cmd.Stdin()
	}
	return x
}
