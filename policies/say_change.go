package policies

import (
	"fmt"
	"strings"

	"stado.internal/stado/fleet"
)

// The sentences about a change.

// some names the first three of a list, and counts the rest.
func some[S ~string](names []S) string {
	const enough = 3
	out := make([]string, 0, enough+1)
	for _, name := range names[:min(enough, len(names))] {
		out = append(out, string(name))
	}
	if more := len(names) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}

func sayStamped(held, offered fleet.Generation, others []string) string {
	return fmt.Sprintf("the generation rises from %d to %d in a change of the registry (%s), and policies.generation_mode is stamped", held, offered, some(others))
}

func sayTouched(held, offered fleet.Generation) string {
	what := fmt.Sprintf("generation.cue raises the generation from %d to %d", held, offered)
	if offered == held {
		what = "generation.cue is changed"
	}
	return what + " in a commit that is no stamp, and policies.generation_mode is stamped"
}

const hintStamped = "leave the number to the job that runs after the merge, stado registry stamp: git checkout " + Upstream + " -- generation.cue"

func sayEpoch(held, offered uint64) string {
	if offered == 0 {
		return fmt.Sprintf("the authority changes and has no epoch; its epoch must be %d", held+1)
	}
	return fmt.Sprintf("the authority changes and its epoch is %d; after epoch %d it must be %d", offered, held, held+1)
}

func hintEpoch(want uint64) string { return fmt.Sprintf("write epoch: %d in authority.cue", want) }

func sayEpochAlone(held, offered uint64) string {
	return fmt.Sprintf("the epoch changes from %d to %d and the authority does not; it counts changes of the authority", held, offered)
}

func hintEpochAlone(held uint64) string {
	if held == 0 {
		return "remove epoch from authority.cue"
	}
	return hintEpoch(held)
}

func sayEpochBehind(offered, held uint64) string {
	if offered == held {
		return fmt.Sprintf("epoch %d is held with another authority", held)
	}
	return fmt.Sprintf("the epoch falls: %d is offered, %d is held", offered, held)
}

const hintEpochBehind = "take authority.cue from the branch of the newest authority"

func sayAuthorityRemoved(held uint64) string {
	return fmt.Sprintf("the authority of epoch %d is removed; a fleet that has an authority replaces it by another one", held)
}

func hintAuthorityRemoved(want uint64) string {
	return fmt.Sprintf("restore authority.cue, or name the next authority there with epoch: %d", want)
}

func sayAuthorityAlone(others []string) string {
	return fmt.Sprintf("the authority changes together with %s; a change of the authority changes nothing else but the generation", some(others))
}

const hintAuthorityAlone = "take everything but authority.cue and generation.cue out of this change, and propose it in one of its own"

func hintDeprecated(f RetiredField) string {
	return fmt.Sprintf("deprecated since %s; a later release refuses it", f.Since)
}

func sayRemovedHosts(gone []fleet.HostName, p fleet.Portion) string {
	return fmt.Sprintf("change limit: the change removes %d of %d hosts (%s): %s; at most %d%% may go at once", p.Count, p.Of, p.Percent(), some(gone), p.MaxPercent)
}

func sayChangedServices(other []fleet.ServiceName, p fleet.Portion) string {
	return fmt.Sprintf("change limit: the change alters or removes %d of %d services (%s): %s; at most %d%% may change at once", p.Count, p.Of, p.Percent(), some(other), p.MaxPercent)
}

func hintLimit(field string) string {
	return fmt.Sprintf("split it over several changes, or raise policies.change_limits.%s in a change before this one", field)
}
