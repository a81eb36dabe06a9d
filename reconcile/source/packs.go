package source

import "context"

// Each fetch adds a pack to the store and nothing joins them, and whoever reads opens all of them. A store with more than maxPacks is cloned
// anew when there is nothing else to do.
const maxPacks = 50

// renew clones the store anew in place of a fetch when it has twice as many packs as it may, because there was news at every poll. It
// reports false when the store is to be fetched into.
func (g *Git) renew(ctx context.Context, tip string) (cloned string, ok bool) {
	if g.packs <= 2*g.maxPacks {
		return "", false
	}
	cloned, err := g.cloneTip(ctx, tip)
	if err != nil {
		g.log.Warn("cannot clone the store anew: " + err.Error())
	}
	return cloned, err == nil
}
