package bootstrap

import (
	"debug/elf"
	"fmt"
	"strings"
)

func sayBadRoot(root string) string {
	return fmt.Sprintf("--root %q is not a plain absolute path (write / or a directory of letters, digits, dots, dashes, underscores and pluses)", root)
}

func sayBadInit(i Init) string { return fmt.Sprintf("--init is %q (write systemd or none)", string(i)) }

func sayNoProgram(err error) string {
	return "the program to install is no Linux program: " + err.Error() + " (name another one: --binary FILE)"
}

func sayBadAnswer(answer string) string {
	if len(answer) > 300 {
		answer = answer[:300] + "…"
	}
	return fmt.Sprintf("the host's answer about itself is not complete: %q (a POSIX shell is needed as /bin/sh there)", answer)
}

func sayBadFact(name, value string) string {
	return fmt.Sprintf("the host says %s %q of itself, which is not understood", name, value)
}

func sayNotLinux(host, system string) string {
	return fmt.Sprintf("host %s runs %s, and stado is for Linux", host, system)
}

func sayForeignMachine(host, machine string, program elf.Machine) string {
	return fmt.Sprintf("host %s is %s, and the program to install is for %s (name one that is built for it: --binary FILE)", host, machine, strings.ToLower(strings.TrimPrefix(program.String(), "EM_")))
}

func sayMissing(host string, tools []string) string {
	return fmt.Sprintf("host %s has no %s (install coreutils there)", host, strings.Join(tools, ", "))
}

func sayUnusable(host string, files []string) string {
	return fmt.Sprintf("host %s: %s is not a plain file that can be read (move it away)", host, strings.Join(files, ", "))
}

func sayNotRoot(host, login string) string {
	return fmt.Sprintf("host %s lets us in as %s, who may not install a service (give a destination of root, or --root DIR with --init none for a directory of that account)", host, login)
}

func sayNoSystemd(host string) string {
	return fmt.Sprintf("systemd does not run on host %s (write --init none to have the agent started without it)", host)
}

func sayForeign(host string, files []string) string {
	return fmt.Sprintf("host %s: somebody else wrote %s (--replace replaces it; a unit is better changed by a drop-in, and agent.cue by flags)", host, strings.Join(files, ", "))
}
