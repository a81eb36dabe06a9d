package openssh

import (
	"fmt"
	"strings"
	"time"
)

func sayUnreachable(e *Unreachable) string {
	if len(e.Causes) == 0 {
		return "host " + e.Host + " has no SSH path (declare hosts." + e.Host + ".ssh)"
	}
	causes := make([]string, len(e.Causes))
	for i, c := range e.Causes {
		causes[i] = c.Path + ": " + c.Sentence
	}
	return fmt.Sprintf("host %s: no registry SSH connection path answered (%s); nothing was run", e.Host, strings.Join(causes, "; "))
}

func sayLost(e *Lost) string {
	why := ""
	if e.Sentence != "" {
		why = ": " + e.Sentence
	}
	return fmt.Sprintf("host %s: the connection along the path %s ended before the command did%s (whether it has done its work is not known: look there before you run it again)",
		e.Host, e.Path, why)
}

func sayNoProgram(err error) string {
	return "cannot run ssh: " + err.Error() + " (install openssh-client)"
}

func sayBadFile(file string) string {
	return fmt.Sprintf("the file name %q cannot be given to ssh (use one without quotes, backslashes, dollars, tildes and line ends)", file)
}

func sayLate(after time.Duration, last string) string {
	if last != "" {
		last = "; ssh said: " + last
	}
	return fmt.Sprintf("the host did not let us in within %s%s", after, last)
}

// sayCause is ssh's last line, word for word, behind the line that names the file and line of an offending key.
func sayCause(e events) string {
	last := e.last()
	if last == "" {
		return "ssh ended without a word"
	}
	for _, n := range e.notes {
		if strings.HasPrefix(n, "Offending ") {
			return n + "; " + last
		}
	}
	return last
}
