package authority

import "stado.internal/stado/fleet"

// Branch is the branch of a moved registry.
const Branch = "main"

// Document is the registry of the move, from that of its base: the generation is new and, when the role moves, authority and epoch; nothing
// else is. A change, and a merge of two histories that moves nothing, are made on it. command and repository are this program and its authority repository on the host that takes the role.
func (m Move) Document(base *fleet.Registry, command, repository string) *fleet.Registry {
	out := *base
	out.Directory.Generation = m.Generation
	if m.moves() {
		out.Directory.Authority = fleet.Authority{Host: m.To, Command: command, Repository: repository, Branch: Branch}
	}
	out.Directory.Authority.Epoch = m.Epoch
	return &out
}
