package main

import (
	"fmt"
	"path/filepath"

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
