package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/openssh"
)

// execPlan is the JSON answer of `stado host exec --dry-run`.
type execPlan struct {
	Host  fleet.HostName `json:"host"`
	Local bool           `json:"local"` // the host is this machine
	Line  string         `json:"line"`  // for the shell of the host's account
	Tries [][]string     `json:"tries"` // what would be run here, in order until one connects
}

func newHostExec(a *app) *cobra.Command {
	var f channelFlags
	var timeout time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "exec HOST -- COMMAND [ARGUMENT...]",
		Short: "Run a command on a host",
		Long: `Run a command on a host, with stdin, stdout and stderr passed through. Every argument reaches the command as it is written here; for
what the host's shell is to expand, run a shell: -- sh -c '…'.` + channelHelp + `

Exit status: the command's own; 255 also when a signal ended it. 69 when no path connected, so that nothing has run, when the
connection ended before the command did, or when --timeout ran out, after which it may still run there; the sentence on stderr tells them
apart; 1 refused, 2 usage.`,
		Example: "  stado host exec a1 -- stado resolver status\n  stado host exec a1 -- sh -c 'df -h | tail -1' >disk\n" +
			"  stado host exec --registry fleet a1 --dry-run -- uptime",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return fmt.Errorf("name one host and, behind --, the command (write: stado host exec HOST -- COMMAND)")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if asJSON && !f.dryRun {
				return misused(errors.New("--json is a form of --dry-run: stdout is the command's"))
			}
			t, err := a.target(c.Context(), f, fleet.HostName(args[0]))
			if err != nil {
				return err
			}
			line := shellLine(args[1:])
			if f.dryRun {
				return a.showExec(t, line, asJSON)
			}
			ctx, cancel := within(c.Context(), timeout, "the command on host "+args[0])
			defer cancel()
			exit, err := t.Run(ctx, openssh.Command{Line: line, Stdin: func() io.Reader { return os.Stdin }, Stdout: a.stdout, Stderr: a.stderr})
			for _, note := range exit.Notes {
				fmt.Fprintln(a.stderr, note)
			}
			if err != nil {
				return channelExit(err)
			}
			if exit.Signaled {
				fmt.Fprintf(a.stderr, "host %s: a signal ended the command there\n", t.name)
			}
			if exit.Status != 0 {
				return &exitError{code: exit.Status}
			}
			return nil
		},
	}
	f.flags(c)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be run and run nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "with --dry-run: print it as JSON")
	c.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "end the command after this time; 0: no limit")
	return c
}

func (a *app) showExec(t target, line string, asJSON bool) error {
	tries, err := t.sshLines(line)
	if err != nil {
		return refused(err)
	}
	if asJSON {
		return asRefused(a.printJSON(execPlan{Host: t.name, Local: t.Local, Line: line, Tries: tries}))
	}
	for _, argv := range tries {
		fmt.Fprintln(a.stdout, shellLine(argv))
	}
	return nil
}
