package main

import (
	"bytes"
	"context"
	"errors"
	"os"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
)

// peers are the other hosts of the fleet, for the agent of a host that is the registry authority.
type peers struct{ settings config.Agent }

// Held asks a host what it holds.
func (p peers) Held(ctx context.Context, registry *fleet.Registry, host fleet.HostName) (authority.Answer, error) {
	c := call{host: host, args: []string{"registry", "claim"}, limit: maxSaid}
	var said bytes.Buffer
	exit, err := c.over(ctx, p.settings, registry, &said)
	return c.answer(said.Bytes(), exit, err)
}

// History writes the registry that a host holds, with its history, to a new file.
func (p peers) History(ctx context.Context, registry *fleet.Registry, host fleet.HostName, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	c := call{host: host, args: []string{"registry", "bundle", "create", "-"}, limit: maxBundle}
	exit, err := c.over(ctx, p.settings, registry, f)
	if err == nil && exit.Status != 0 {
		err = errors.New(lastWords(exit))
	}
	return errors.Join(err, f.Close())
}
