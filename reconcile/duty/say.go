package duty

import (
	"fmt"

	"stado.internal/stado/reconcile/authority"
)

func sayDamaged(file string) error {
	return fmt.Errorf("%s is not what this build writes (%s)", file, sayRemove)
}

const sayRemove = "it says whether this host is still the registry authority; ask the other hosts with stado registry claim what they hold, then remove it"

const sayServesAgain = "this host is the registry authority again: no other host holds a registry that says otherwise"

func sayDoubt(a authority.Answer, why string) string {
	return fmt.Sprintf("host %s says that it holds generation %d, epoch %d, commit %s, and that is not believed: %s; nothing follows from it here (look at that host: stado registry claim says there what it holds)",
		a.Host, a.Held.Generation, a.Held.Epoch, a.Held.Commit, why)
}

func sayUnread(why string) string { return "its history cannot be read from there: " + why }

const sayBehind = "the commit is in the history of what is held here"

func sayEndsElsewhere(tip string) string { return "the history that it gives ends in commit " + tip }

func sayNoRegistry(commit string) string {
	return fmt.Sprintf("commit %s is no registry that this program can read", commit)
}

func sayOtherNumbers(shown authority.Head) string {
	return fmt.Sprintf("the commit is generation %d, epoch %d, which names %s", shown.Generation, shown.Epoch, shown.Authority)
}
