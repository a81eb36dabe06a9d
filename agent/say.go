package agent

import (
	"fmt"

	"stado.internal/stado/fleet"
)

func sayHeld(home, pid string) error {
	return fmt.Errorf("another agent (pid %s) holds the state directory %s: stop it first, or give this one its own --home", pid, home)
}

func sayServing(target, api string, adapters int, refresh, maxStale int) string {
	return fmt.Sprintf("stado resolver target=%s api=%s adapters=%d refresh=%ds max-stale=%ds", target, api, adapters, refresh, maxStale)
}

func sayNoRepository(home, file string) error {
	return fmt.Errorf("no registry repository is named: give --repository URL, or write repository: \"https://…\" into %s/%s", home, file)
}

func sayNotInRegistry(host fleet.HostName, generation fleet.Generation) error {
	return fmt.Errorf("host %q, given with --host, is not in the registry at generation %d: it serves no adapter until the registry names it", host, generation)
}
