package policies

import (
	"maps"
	"slices"

	"stado.internal/stado/fleet"
	"stado.internal/stado/fleet/keys"
	"stado.internal/stado/schema"
)

// trust refuses keys that verify nothing, and one key under two names: which of their scopes counts would depend on who looks.
func (k *checker) trust() {
	if k.registry.Trust == nil {
		return
	}
	at := func(name fleet.SignerName) string { return schema.FieldPath("trust", "signers", string(name), "key") }
	owner := map[string]fleet.SignerName{}
	for _, name := range slices.Sorted(maps.Keys(k.registry.Trust.Signers)) {
		key, err := keys.Parse(k.registry.Trust.Signers[name].Key)
		if err != nil {
			k.refuse(RuleSignerUnread, at(name), sayUnreadKey(name, err), hintUnreadKey)
			continue
		}
		if first, taken := owner[key.Fingerprint]; taken {
			k.refuse(RuleSignerKey, at(name), sayOneKey(name, first, seeAlso(k.at(at(first)))), hintOneKey)
			continue
		}
		owner[key.Fingerprint] = name
	}
}
