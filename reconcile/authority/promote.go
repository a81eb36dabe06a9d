package authority

import (
	"reflect"

	"stado.internal/stado/fleet"
)

// Branch is the branch of a moved registry.
const Branch = "main"

// Document is the registry of the move, from that of its base: generation and epoch are new and, when the role moves, the authority; nothing
// else is. command and repository are this program and its authority repository on the host that takes the role.
func (m Move) Document(base *fleet.Registry, command, repository string) *fleet.Registry {
	out := *base
	out.Directory.Generation = m.Generation
	if m.Kind == KindMove {
		out.Directory.Authority = fleet.Authority{Host: m.To, Command: command, Repository: repository, Branch: Branch}
	}
	out.Directory.Authority.Epoch = m.Epoch
	return &out
}

// OnlyMoves reports whether a registry differs from the one before it in the authority, its epoch and the generation alone, as after a move.
func OnlyMoves(previous, next *fleet.Registry) bool {
	moved := *next
	moved.Directory.Generation = previous.Directory.Generation
	moved.Directory.Authority = previous.Directory.Authority
	return HostOf(next.Directory.Authority) != HostOf(previous.Directory.Authority) &&
		next.Directory.Authority.Epoch == previous.Directory.Authority.Epoch+1 && reflect.DeepEqual(&moved, previous)
}
