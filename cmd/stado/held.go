package main

import (
	"fmt"
	"os"
	"path/filepath"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/store"
)

// registryFolder is the part of a state directory that holds the anchor and the last-known-good copy.
const registryFolder = "registry"

// held reads the registry that this host holds, whether or not an agent runs.
func (a *app) held() (*fleet.Snapshot, error) {
	home, err := a.clientHome(filepath.Join(registryFolder, "held.json"))
	if err != nil {
		return nil, refused(err)
	}
	view, err := store.Read(filepath.Join(home, registryFolder))
	if err != nil {
		return nil, refused(err)
	}
	if view.Snapshot == nil {
		for _, b := range view.Blockers {
			return nil, refused(fmt.Errorf("%s", b.Sentence))
		}
		return nil, refused(fmt.Errorf("this host holds no registry in %s: no agent has admitted one there yet (`stado resolver status` says why)", home))
	}
	for _, b := range view.Blockers {
		fmt.Fprintln(a.stderr, b.Sentence)
	}
	return view.Snapshot, nil
}

// self is this host's name in the registry that it holds: as its settings say, else as the identity rule finds it; empty when neither does.
func (a *app) self(settings config.Agent, held *fleet.Snapshot) fleet.HostName {
	if settings.Host != "" || held == nil {
		return fleet.HostName(settings.Host)
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	host, err := held.Registry.HostByIdentity(name)
	if err != nil {
		return ""
	}
	return host
}
