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
	return fmt.Sprintf("host %s has no %s (install what provides it)", host, strings.Join(tools, ", "))
}

func sayUnusable(host string, files []string) string {
	return fmt.Sprintf("host %s: %s is not a plain file that can be read (move it away)", host, strings.Join(files, ", "))
}

func sayNotRoot(host, login string) string {
	return fmt.Sprintf("host %s lets us in as %s, who may not install a service (give a destination of root or --login root, or --root DIR with --init none for a directory of that account)", host, login)
}

func sayNoSystemd(host string) string {
	return fmt.Sprintf("systemd does not run on host %s (write --init none to have the agent started without it)", host)
}

func sayForeign(host string, files []string) string {
	return fmt.Sprintf("host %s: somebody else wrote %s (--replace replaces it; a unit is better changed by a drop-in, and agent.cue by flags)", host, strings.Join(files, ", "))
}

const sayStopped = "no agent runs"

func sayRuns(state string, generation uint64, why string) string {
	out := "the agent is " + state
	if generation > 0 {
		out += fmt.Sprintf(" at generation %d", generation)
	}
	if why != "" {
		out += ": " + why
	}
	return out
}

func saySilent(pid int, said string) string {
	if said = strings.TrimSpace(said); said != "" {
		said = ": " + said
	}
	return fmt.Sprintf("the agent with pid %d does not answer%s", pid, said)
}

func sayNotInstalled(w Wanted, file string) string {
	below := ""
	if w.Root != "/" {
		below = " --root " + w.Root + " --init none"
	}
	return fmt.Sprintf("host %s has no %s (run: stado host bootstrap %s%s)", w.Host, file, w.Host, below)
}

func sayNoReboot(host, login string) string {
	return fmt.Sprintf("host %s lets us in as %s, who may not start it anew (give a destination of root, or --login root)", host, login)
}

func sayNoBoot(host string) string {
	return fmt.Sprintf("host %s does not say since when it runs (/proc/sys/kernel/random/boot_id), so that its new start could not be seen", host)
}

func sayBadUser(user string) string {
	return fmt.Sprintf("--user %q is no name of an account (write small letters, digits, - and _, 32 at most)", user)
}

func sayForeignAccount(host, login, user string) string {
	return fmt.Sprintf("host %s lets us in as %s, who may not change the account %s (give --login root, or --login %s)", host, login, user, user)
}

func sayKeys(more, all int) string {
	if more < 0 {
		return fmt.Sprintf("%d removed, %d left", -more, all)
	}
	return fmt.Sprintf("%d added, now %d", more, all)
}
