package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
)

// withValues refuses a flag that is given without a value, as `--base "$BASE"` is when nobody set the variable: it would be taken for one
// that was not given, and what it asks for would not be done.
func withValues(c *cobra.Command) error {
	for _, f := range collected(c.Flags().Visit) {
		empty := f.Value.String() == ""
		if list, ok := f.Value.(interface{ GetSlice() []string }); ok {
			empty = len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
		}
		if empty {
			return misused(fmt.Errorf("--%s is given without a value (is a variable not set? leave the flag out for its default)", f.Name))
		}
	}
	return nil
}

func collected[F any](visit func(func(F))) (all []F) {
	visit(func(f F) { all = append(all, f) })
	return all
}

// oneOf refuses flags of which at most one may be given.
func oneOf(c *cobra.Command, names ...string) error {
	var given []string
	for _, name := range names {
		if f := c.Flags().Lookup(name); f.Changed && f.Value.String() != "false" {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return fmt.Errorf("%s exclude each other (choose one)", strings.Join(given, " and "))
	}
	return nil
}

// limit is the value of a flag that is a number from least on; zero, which nobody can give, is the default.
type limit struct {
	to    *int
	least int
}

func (l limit) String() string {
	if l.to == nil {
		return "0"
	}
	return strconv.Itoa(*l.to)
}

func (l limit) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < l.least {
		return fmt.Errorf("write a number, %d or above; leave the flag out for the default", l.least)
	}
	*l.to = n
	return nil
}

// Type is the word in the help.
func (l limit) Type() string { return "int" }

func evaluationFlags(c *cobra.Command, limits *config.Evaluation) {
	f := c.Flags()
	f.Var(limit{&limits.MemoryMiB, 1}, "evaluation-memory-mib", "data limit of the evaluation, in MiB")
	f.Var(limit{&limits.CPUSeconds, 1}, "evaluation-cpu-seconds", "processor time of the evaluation, in seconds")
	f.Var(limit{&limits.WallSeconds, 1}, "evaluation-wall-seconds", "time on the clock of the evaluation, in seconds")
}
