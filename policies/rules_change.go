package policies

// The rules about what one change may do.
const (
	RuleStamped         = "STADO-GEN-004"
	RuleAuthorityAlone  = "STADO-AUTH-001"
	RuleEpoch           = "STADO-AUTH-002"
	RuleRemovedHosts    = "STADO-CHANGE-001"
	RuleChangedServices = "STADO-CHANGE-002"
)

func changeRules() []Rule {
	return []Rule{
		{ID: RuleStamped, Title: "generation raised by hand", Explanation: "With policies.generation_mode stamped, a change leaves generation.cue alone: one job after the merge raises the generation, in a commit that changes nothing else and says Stado-Kind: stamp. Two changes that leave the number alone cannot take the same one."},
		{ID: RuleAuthorityAlone, Title: "authority changed with other things", Explanation: "A commit that changes the authority or its epoch changes nothing else but the generation, so that a move can be judged, promised and undone by itself."},
		{ID: RuleEpoch, Title: "wrong epoch", Explanation: "The epoch rises by one with every change of the authority, and never otherwise: it tells which of two authorities is the newer one."},
		{ID: RuleRemovedHosts, Title: "too many hosts removed", Explanation: "One change removes at most policies.change_limits.max_removed_hosts_pct percent of the hosts, once there are min_set of them. The limits that stood before the change judge it."},
		{ID: RuleChangedServices, Title: "too many services changed", Explanation: "One change changes or removes at most policies.change_limits.max_changed_services_pct percent of the services, once there are min_set of them; new services do not count. The limits that stood before the change judge it."},
	}
}
