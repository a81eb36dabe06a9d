package policies

// The rules about the fleet's own policies, and the warning before a field is retired.
const (
	RulePolicy       = "STADO-POLICY-001"
	RulePolicyBroken = "STADO-POLICY-002"
	RuleDeprecated   = "STADO-RETIRED-001"
)

func ownRules() []Rule {
	return []Rule{
		{ID: RulePolicy, Title: "the fleet's own policy", Explanation: "A policy of this fleet, in policies/ of the commit before the change, refuses the change; the message starts with the policy's own name."},
		{ID: RulePolicyBroken, Title: "policy that cannot be evaluated", Explanation: "The files of policies/ are package policies, read previous and next, and give violations, a map of strings. They are evaluated for each change, so one that fails would refuse all of them."},
		{ID: RuleDeprecated, Title: "deprecated field", Explanation: "A later release refuses this field by name; until then it is a warning, which names what stands in its place. A field that is refused already is STADO-SCHEMA-003."},
	}
}
