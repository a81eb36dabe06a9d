package policies

// The rules about the fleet's own policies.
const (
	RulePolicy       = "STADO-POLICY-001"
	RulePolicyBroken = "STADO-POLICY-002"
)

func ownRules() []Rule {
	return []Rule{
		{ID: RulePolicy, Title: "the fleet's own policy", Explanation: "A policy of this fleet, in policies/ of the commit before the change, refuses the change; the message starts with the policy's own name."},
		{ID: RulePolicyBroken, Title: "policy that cannot be evaluated", Explanation: "The files of policies/ are package policies, read previous and next, and give violations, a map of strings. They are evaluated for each change, so one that fails would refuse all of them."},
	}
}
