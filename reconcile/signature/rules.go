package signature

import "stado.internal/stado/schema"

// The rules of this package. [Rules] explains them.
const (
	RuleUnsigned   = "STADO-SIGN-001"
	RuleMalformed  = "STADO-SIGN-002"
	RuleUnknown    = "STADO-SIGN-003"
	RuleOutOfScope = "STADO-SIGN-004"
	RuleBad        = "STADO-SIGN-005"
	RuleExpired    = "STADO-SIGN-006"
)

// Rules are the rules of this package in the order of their ids; the list is the caller's own.
func Rules() []schema.Rule {
	return []schema.Rule{
		{ID: RuleUnsigned, Title: "unsigned commit", Explanation: "The held registry's trust asks for a signature, and nobody it names has signed for this commit, or this document."},
		{ID: RuleMalformed, Title: "malformed commit", Explanation: "A commit that two programs could read in two ways has no meaning that a signature could vouch for."},
		{ID: RuleUnknown, Title: "unknown signer", Explanation: "The commit is signed with a key that the trust of the registry before it does not name. A key cannot admit itself."},
		{ID: RuleOutOfScope, Title: "signer outside its scope", Explanation: "The commit, or in mode tip one that it vouches for, changes a file that its signer may not change."},
		{ID: RuleBad, Title: "bad signature", Explanation: "The signature is not one of this commit or document, not made for that purpose, or of a kind that is too weak or not known."},
		{ID: RuleExpired, Title: "expired key", Explanation: "The key, or the signature, had expired or was revoked at the commit's time."},
	}
}

// Rule is the id under which a kind is reported.
func (k Kind) Rule() string {
	switch k {
	case Unsigned:
		return RuleUnsigned
	case Malformed:
		return RuleMalformed
	case Unknown:
		return RuleUnknown
	case OutOfScope:
		return RuleOutOfScope
	case Expired:
		return RuleExpired
	case Bad:
	}
	return RuleBad
}
