package fleet

// Policies are the fleet's own settings of the judges.
type Policies struct {
	GenerationMode GenerationMode `json:"generation_mode,omitempty"`
	Quorum         Quorum         `json:"quorum,omitempty"`
	ChangeLimits   *ChangeLimits  `json:"change_limits,omitempty"`
}

// GenerationMode says who writes the generation.
type GenerationMode string

// The generation modes: the author of a change raises the number, or one job after the merge does.
const (
	GenerationAuthored GenerationMode = "authored"
	GenerationStamped  GenerationMode = "stamped"
)

// Quorum says which hosts grant a move of the authority, and with [QuorumMajority] each change by a host that is it. The empty one is [QuorumNone].
type Quorum string

// The quorums: the hosts that answer, or more than half of all registered ones.
const (
	QuorumNone     Quorum = "none"
	QuorumMajority Quorum = "majority"
)

// ChangeLimits bound what one change may remove or rewrite.
type ChangeLimits struct {
	// MaxRemovedHostsPct and MaxChangedServicesPct are hundredths, 0 to 100.
	MaxRemovedHostsPct    int `json:"max_removed_hosts_pct"`
	MaxChangedServicesPct int `json:"max_changed_services_pct"`
	// MinSet is the number of hosts, or services, below which the limits do not apply.
	MinSet int `json:"min_set"`
}

// Limits are the declared change limits, or those that hold when none are declared.
func (p Policies) Limits() ChangeLimits {
	if p.ChangeLimits != nil {
		return *p.ChangeLimits
	}
	return ChangeLimits{MaxRemovedHostsPct: 25, MaxChangedServicesPct: 50, MinSet: 10}
}
