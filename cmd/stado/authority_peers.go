package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/remote"
)

// peers are the other hosts of the fleet, for the agent of a host that is the registry authority.
type peers struct{ settings config.Agent }

// Held asks a host what it holds.
func (p peers) Held(ctx context.Context, registry *fleet.Registry, host fleet.HostName) (authority.Answer, error) {
	c := call{host: host, args: []string{"registry", "claim"}, limit: maxSaid}
	var said bytes.Buffer
	exit, err := p.run(ctx, c, registry, &said)
	return c.answer(said.Bytes(), exit, err)
}

// History writes the registry that a host holds, with its history, to a new file.
func (p peers) History(ctx context.Context, registry *fleet.Registry, host fleet.HostName, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	c := call{host: host, args: []string{"registry", "bundle", "create", "-"}, limit: maxBundle}
	exit, err := p.run(ctx, c, registry, f)
	if err == nil && exit.Status != 0 {
		err = errors.New(lastWords(exit))
	}
	return errors.Join(err, f.Close())
}

// run runs a command line over a connection of its own: the agent asks seldom.
func (p peers) run(ctx context.Context, c call, registry *fleet.Registry, out io.Writer) (remote.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	conn, err := remote.Dial(ctx, reach(p.settings, registry, c.host))
	if err != nil {
		return remote.Exit{}, err
	}
	defer conn.Close()
	return c.over(ctx, conn, registry, out)
}
